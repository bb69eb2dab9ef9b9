"""An input list as calibration samples of a quantizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dovetail.cli.inputs.errors import InputError, shortened
from dovetail.cli.inputs.feed import Feed, make_feed
from dovetail.cli.inputs.listed import read_input_list
from dovetail.cli.inputs.raw_files import RawFormat, RawReader
from dovetail.cli.inputs.selection import selected_tensors
from dovetail.errors import Problem
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


def listed_samples(
    lists: Sequence[tuple[Graph, Path]], *, native: bool
) -> dict[str, ListedSamples]:
    """Return the samples that lists name, by graph; no raw file is read yet.

    Args:
        lists: The graphs to calibrate, and the input list of each.
        native: Whether files hold values of the inputs' types instead of float32.

    Raises:
        FrontendError: A list cannot be read.
        InputError: Files are missing, empty or of a wrong size, or lines are invalid; lists all.
    """
    problems: list[Problem] = []
    samples = {graph.name: _samples(graph, path, native, problems) for graph, path in lists}
    if problems:
        raise InputError("the input lists do not match the model", problems=shortened(problems))
    return samples


def _samples(graph: Graph, path: Path, native: bool, problems: list[Problem]) -> ListedSamples:
    listed = read_input_list(path)
    forms = {t.name: RawFormat(t, native) for t in graph.inputs}
    feed, found = make_feed(listed, forms)
    selected_tensors(graph, listed, found)  # all are calibrated, but a wrong name is a mistake
    problems += found
    return ListedSamples(feed)
