"""The reference backend, as if it were installed."""

from __future__ import annotations

import pytest
from reference_backend import ReferenceBackend

from dovetail.plugins import registry


@pytest.fixture
def reference_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions find the backend `reference` as if it were installed."""
    load = registry.load

    def load_ours(group: str, name: str) -> object:
        return ReferenceBackend if name == "reference" else load(group, name)

    monkeypatch.setattr("dovetail.runtime.installed.load", load_ours)
