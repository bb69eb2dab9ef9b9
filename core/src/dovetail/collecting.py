"""The garbage collector while much is made that lives on: graphs, plans, and modules."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


@contextmanager
def collection_paused() -> Iterator[None]:
    """Let the garbage collector wait: what is made here lives on.

    There are so many objects that the collector would walk the heap several times: that took 20 of
    54 ms in which a ResNet-50 was restored.
    """
    if not gc.isenabled():  # by the application, or by another thread that is in here
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def importing(module: str) -> AbstractContextManager[None]:
    """Return the context in which a module is imported, which lives as long as the process.

    If it is imported the first time, it is put to the oldest objects, which the next collection
    does not walk: that took 11 of the 63 ms in which `Session` is imported.
    """
    return nullcontext() if module in sys.modules else _kept()


@contextmanager
def _kept() -> Iterator[None]:
    was_enabled = gc.isenabled()
    with collection_paused():
        yield
        if was_enabled and not gc.get_freeze_count():  # else the application has frozen objects
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
