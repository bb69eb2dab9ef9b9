"""The input sets of a graph: read from files, or cached for the next time."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.cli.inputs.feed import Feed
from dovetail.cli.inputs.raw_files import RawReader
from dovetail.ir import Array
from dovetail_tools._net_run.request import CacheLimit


class InputSets:
    """Loads the input sets of a list.

    With a limit, the first sets that are read stay in memory, as many as the limit admits. Which
    sets are dropped does not matter for a list that is repeated in order: each set is needed again
    after all others.

    Args:
        feed: The feed of the inputs.
        limit: Limit of the cached sets; None for no cache.
    """

    def __init__(self, feed: Feed, limit: CacheLimit | None) -> None:
        self._feed = feed
        self._limit = limit
        self._cached: dict[int, Mapping[str, Array]] = {}
        self._nbytes = 0

    def new_readers(self) -> dict[str, RawReader]:
        """Return readers of one input set, by input name."""
        return {name: RawReader(form) for name, form in self._feed.forms.items()}

    def load(
        self, readers: Mapping[str, RawReader], inference: int
    ) -> tuple[Mapping[str, Array], bool]:
        """Return the stored inputs of an inference, and whether they were read.

        They are valid until the next set is read with the same readers, and must not be changed.

        Args:
            readers: The readers to use.
            inference: Number of the inference.

        Raises:
            DovetailError: A file cannot be read, or has values that its input cannot hold.
        """
        number = inference % self._feed.inferences
        if number in self._cached:
            return self._cached[number], False
        nbytes = sum(reader.stored.nbytes for reader in readers.values())
        is_kept = self._admits(nbytes)
        if is_kept:
            readers = self.new_readers()
        self._feed.fill(readers, number)
        inputs = {name: reader.stored for name, reader in readers.items()}
        if is_kept:
            self._cached[number] = inputs
            self._nbytes += nbytes
        return inputs, True

    def _admits(self, nbytes: int) -> bool:
        """Return whether the limit admits another set of some bytes."""
        if self._limit is None:
            return False
        sets, most = self._limit.sets, self._limit.nbytes
        if sets is not None and len(self._cached) >= sets:
            return False
        return most is None or self._nbytes + nbytes <= most
