"""The garbage collector waits while a plan is made, and is left as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from dovetail.collecting import collection_paused, importing


def test_collection_goes_on_afterwards() -> None:
    def fail() -> None:
        with collection_paused():
            assert not gc.isenabled()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused(), collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """No object is frozen and nothing is collected; it is as it was afterwards."""
    thresholds = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(0)
    yield
    gc.set_threshold(*thresholds)
    gc.freeze()


def test_a_new_module_is_not_among_the_youngest_objects(unfrozen: None) -> None:
    with collection_paused():
        graph = [object()]
    assert _is_young(graph)
    with importing("a_new_module"):
        assert not gc.isenabled()
        module = [object()]
    assert gc.isenabled()
    assert not _is_young(module)


def test_nothing_is_promoted_for_a_module_that_is_there(unfrozen: None) -> None:
    with importing("gc"):
        made = [object()]
    assert _is_young(made)


def test_objects_that_the_application_has_frozen_stay_frozen(unfrozen: None) -> None:
    made: list[list[int]] = [[] for _ in range(1000)]
    gc.freeze()
    with importing("a_new_module"):
        pass
    # others of the process may have been freed since
    assert gc.get_freeze_count() >= len(made)


def _is_young(item: object) -> bool:
    return any(each is item for each in gc.get_objects(0))
