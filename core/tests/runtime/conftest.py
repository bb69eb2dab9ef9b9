"""What tests of the runtime share: a backend, and the gate of the op that waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from reference_backend import ENTERED, GATE, OPS, ReferenceBackend

from dovetail import runtime


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """The gate at which the op Wait waits, closed."""
    GATE.clear()
    ENTERED.clear()
    yield GATE
    GATE.set()  # nothing may wait for ever, whatever failed


@pytest.fixture
def backend(gate: threading.Event) -> Iterator[runtime.Backend]:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as made:
        yield made
        gate.set()  # before the end of the backend, which waits for runs
