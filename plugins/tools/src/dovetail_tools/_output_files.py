"""Names and content of result files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from dovetail.cli.inputs.raw_files import RawFormat, write_raw
from dovetail.errors import FrontendError, Problem
from dovetail.files import safe_name
from dovetail.ir import Array, DType, Graph, Tensor

_LONGEST = 255  # bytes of a file's name, on all common file systems


@dataclass(frozen=True, slots=True)
class OutputFile:
    """The file that a tensor goes to in each result.

    Attributes:
        name: Of the file.
        form: How the values lie in it.
    """

    name: str
    form: RawFormat


def output_files(graph: Graph, names: Iterable[str], *, native: bool) -> dict[str, OutputFile]:
    """Return the files of the tensors to be written, by tensor name.

    What is float32 in the graph goes to NAME.raw either way.

    Args:
        graph: The graph.
        names: Of the tensors.
        native: Whether stored values are written; then NAME_native.raw for other types.

    Raises:
        FrontendError: A name is too long.
    """
    wanted = {n: _stem(graph.tensors[n], native=native) for n in names}
    stems = distinct("tensors", wanted, ending=".raw")
    return {
        n: OutputFile(f"{stem}.raw", RawFormat(graph.tensors[n], native))
        for n, stem in stems.items()
    }


def distinct(
    what: str, wanted: Mapping[str, str], *, ending: str = "", taken: Iterable[str] = ()
) -> dict[str, str]:
    """Return names of files or folders side by side; later ones that clash get `_1`, `_2`...

    Args:
        what: They are.
        wanted: The names they would have by their own names, without `ending`.
        ending: Of all of them.
        taken: Names that are not to be given.

    Raises:
        FrontendError: A name is too long.
    """
    kept = set(taken)
    given: dict[str, str] = {}
    for own, name in wanted.items():
        if name not in kept:
            given[own] = name
            kept.add(name)
    for own, name in wanted.items():
        if own not in given:
            given[own] = next(n for i in count(1) if (n := f"{name}_{i}") not in kept)
            kept.add(given[own])
    files = [given[own] + ending for own in wanted]
    problems = [
        Problem(f"'{name}' is {len(name)} characters long; file names have at most {_LONGEST}")
        for name in files
        if len(name) > _LONGEST
    ]
    if problems:
        raise FrontendError(
            "results cannot be written under their names",
            hint=f"rename the {what} in the model",
            problems=problems,
        )
    return {own: given[own] for own in wanted}


def unsplittable(
    graph: Graph, files: Mapping[str, OutputFile], batch: int, where: str
) -> Iterator[Problem]:
    """Return a problem for each output that cannot be split into the results of lines.

    Args:
        graph: The graph.
        files: What is written, by tensor name.
        batch: Lines that are combined into one inference.
        where: The input list.
    """
    for name in files if batch > 1 else ():
        shape = graph.tensors[name].shape
        if not shape or shape[0] != batch:
            yield Problem(
                f"output '{name}' of shape {shape} does not hold {batch} results side by side",
                where,
                "give files that hold whole batches",
            )


def write_result(
    folder: Path,
    files: Mapping[str, OutputFile],
    outputs: Mapping[str, Array],
    part: int,
    parts: int,
) -> None:
    """Write one result.

    Args:
        folder: Made for it.
        files: What is written, by tensor name.
        outputs: Stored values of an inference, by tensor name.
        part: Which part of their leading axis is the result.
        parts: How many there are.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True)
    for name, file in files.items():
        values = outputs[name]
        own = values if parts == 1 else values[part : part + 1]
        write_raw(folder / file.name, own, file.form)


def graph_folder(name: str, graphs: Sized) -> str:
    """Return the folder of a graph's results below the output folder; none for an only graph."""
    return safe_name(name) if len(graphs) > 1 else ""


def _stem(tensor: Tensor, *, native: bool) -> str:
    ending = "_native" if native and tensor.dtype is not DType.FLOAT_32 else ""
    return safe_name(tensor.name) + ending
