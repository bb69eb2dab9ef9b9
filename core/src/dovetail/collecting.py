"""The garbage collector while much is made that lives on: graphs, plans, and modules."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused(*, for_good: bool = False) -> Iterator[None]:
    """Let the garbage collector wait: what is made here lives on.

    There are so many objects that the collector would walk the heap several times: that took 20 of
    54 ms in which a ResNet-50 was restored.

    Args:
        for_good: What is made lives as long as the process, as modules do. It is put to the oldest
            objects, which the next collection does not walk: that took 11 of the 63 ms in which
            `Session` is imported.
    """
    if not gc.isenabled():  # by the application, or by another thread that is in here
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if for_good and not gc.get_freeze_count():  # else the application has frozen objects
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()
