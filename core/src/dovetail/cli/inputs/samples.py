"""An input list as calibration samples of a quantizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dovetail.cli.inputs.errors import InputError, shortened
from dovetail.cli.inputs.feed import Feed, make_feed
from dovetail.cli.inputs.listed import read_input_list
from dovetail.cli.inputs.raw_files import RawFormat, RawReader
from dovetail.cli.inputs.selection import selected_tensors
from dovetail.ir import Array, Graph


class ListedSamples:
    """The samples of a list as real values, read one by one; they can be iterated over again.

    An array is valid until the next sample is read.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def __len__(self) -> int:
        return self._feed.inferences

    def __iter__(self) -> Iterator[dict[str, Array]]:
        readers = {name: RawReader(form) for name, form in self._feed.forms.items()}
        for inference in range(self._feed.inferences):
            self._feed.fill(readers, inference)
            yield {name: reader.real() for name, reader in readers.items()}


def listed_samples(graph: Graph, path: Path, *, native: bool) -> ListedSamples:
    """Return the samples that a list names for a graph; no raw file is read yet.

    Args:
        graph: The graph to calibrate.
        path: The input list.
        native: Whether files hold values of the inputs' types instead of float32.

    Raises:
        InputError: Files are missing, empty or of a wrong size, or lines are invalid; lists all.
    """
    listed = read_input_list(path)
    forms = {t.name: RawFormat(t, native) for t in graph.inputs}
    feed, problems = make_feed(listed, forms)
    selected_tensors(graph, listed, problems)  # all are calibrated, but a wrong name is a mistake
    if problems:
        raise InputError("invalid input list", where=str(path), problems=shortened(problems))
    return ListedSamples(feed)
