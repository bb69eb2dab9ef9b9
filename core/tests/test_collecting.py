"""The garbage collector waits while a plan is made, and is left as it was."""

from __future__ import annotations

import gc

import pytest

from dovetail.collecting import collection_paused


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
