"""Tuning: the variant of a kernel that is fastest on a device, found by measurement and kept."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dovetail.files import read_limited
from dovetail_gpu.caches import cache_folder, keep
from dovetail_gpu.computing import current
from dovetail_gpu.driver import Device

_LOG = logging.getLogger("dovetail.gpu")
_MOST_BYTES = 1 << 24  # of the file


class Tuning:
    """Choices of variants by text that describes the work.

    Args:
        device: The device.
        folder: Folder of the file that keeps them; None for that of the user's cache.
        rounds: Number of runs of each variant where the choice is unknown; 0 takes the first one.

    Attributes:
        measured: Number of choices that were measured.
        file: The file that keeps the choices; None if nothing is kept.
    """

    def __init__(self, device: Device, folder: str | None, rounds: int) -> None:
        self.measured = 0
        self._rounds = rounds
        self._guard = threading.Lock()
        where = cache_folder(folder)
        name = hashlib.sha256(device.key.encode()).hexdigest()[:16]
        self.file = where and where / f"tuning-{name}.json"
        self._known: dict[str, str] = {}
        self._changed = False
        self._load()

    def choose(
        self, work: str, variants: Sequence[Any], measure: Callable[[Any], Callable[[], float]]
    ) -> Any:
        """Return the fastest variant for some work: as an image says, as known, or as measured.

        It becomes one of the choices of the graph that is prepared.

        Args:
            work: Describes the work: equal texts have equal choices.
            variants: The variants, best guess first; each has a text of its own.
            measure: Prepares a variant, and returns what runs it once and returns the seconds.
        """
        choices = current().choices
        with self._guard:
            for known in (choices.get(work), self._known.get(work)):
                for variant in variants:
                    if str(variant) == known:
                        choices[work] = known
                        return variant
            if not self._rounds or len(variants) == 1:
                return variants[0]
            best = self._measured(variants, measure)
            choices[work] = self._known[work] = str(best)
            self._changed = True
            self.measured += 1
            return best

    def save(self) -> None:
        """Keep the choices on disk, if there are new ones."""
        with self._guard:
            if self.file is None or not self._changed:
                return
            self._changed = False
            content = msgspec.json.encode(self._known)
        keep(self.file, content)

    def _measured(
        self, variants: Sequence[Any], measure: Callable[[Any], Callable[[], float]]
    ) -> Any:
        """Return the variant with the shortest run, by turns, so that all meet the same load."""
        runs = [(variant, measure(variant)) for variant in variants]
        for _, run in runs:
            run()  # the driver compiles it for this size
        best = {str(variant): float("inf") for variant, _ in runs}
        for _ in range(self._rounds):
            for variant, run in runs:
                best[str(variant)] = min(best[str(variant)], run())
        return min(variants, key=lambda variant: best[str(variant)])

    def _load(self) -> None:
        if self.file is None:
            return
        try:
            content = read_limited(self.file, _MOST_BYTES)
            self._known = msgspec.json.decode(content, type=dict[str, str])
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:  # not JSON, or not of UTF-8
            _LOG.warning("%s is not read: %s", self.file, error)
