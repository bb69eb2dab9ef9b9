"""Fixtures of the suite."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dovetail.testing.bench import Bench
from dovetail.testing.outcome import Outcome, Status
from dovetail.testing.plugin import kit_of


@pytest.fixture(scope="session")
def bench(pytestconfig: pytest.Config) -> Bench:
    """Return the backend under test."""
    return kit_of(pytestconfig).bench


@pytest.fixture(scope="session")
def conclude() -> Callable[[Outcome], None]:
    """Return a function that ends a test: passed, skipped if unsupported, or failed."""

    def end(outcome: Outcome) -> None:
        if outcome.status is Status.UNSUPPORTED:
            pytest.skip(outcome.reason)
        if outcome.status is Status.FAILED:
            pytest.fail(outcome.reason, pytrace=False)

    return end
