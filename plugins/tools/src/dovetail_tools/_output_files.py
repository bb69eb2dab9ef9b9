"""Names and content of result files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import FrontendError, Problem
from dovetail.files import safe_name
from dovetail.ir import Array, DType, Graph, Tensor
from dovetail_tools._raw_files import RawFormat, write_raw

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
    """Gives the files of the tensors to be written, by tensor name.

    What is float32 in the graph goes to NAME.raw either way.

    Args:
        graph: The graph.
        names: Of the tensors.
        native: Whether stored values are written; then NAME_native.raw for other types.

    Raises:
        FrontendError: Two tensors would go to one file, or a name is too long.
    """
    files = {n: _output_file(graph.tensors[n], native=native) for n in names}
    check_names("tensors", {tensor: file.name for tensor, file in files.items()})
    return files


def check_names(what: str, names: Mapping[str, str]) -> None:
    """Checks that things can go to files or folders side by side.

    Args:
        what: They are.
        names: The names of their files by their own.

    Raises:
        FrontendError: Two of them have one name, or a name is too long.
    """
    owners: dict[str, list[str]] = {}
    for own, name in names.items():
        owners.setdefault(name, []).append(own)
    problems = [
        Problem(f"{what} {' and '.join(map(repr, own))} would all be '{name}'")
        for name, own in owners.items()
        if len(own) > 1
    ]
    problems += [
        Problem(f"'{name}' is {len(name)} characters long; file names have at most {_LONGEST}")
        for name in owners
        if len(name) > _LONGEST
    ]
    if problems:
        raise FrontendError(
            "results cannot be written under their names",
            hint=f"rename the {what} in the model; characters outside [A-Za-z0-9_.-] become '_'",
            problems=problems,
        )


def unsplittable(
    graph: Graph, files: Mapping[str, OutputFile], batch: int, where: str
) -> Iterator[Problem]:
    """Gives a problem for each output that cannot be split into the results of lines.

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
    """Writes one result.

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
    """Gives the folder of a graph's results below the output folder; none for an only graph."""
    return safe_name(name) if len(graphs) > 1 else ""


def _output_file(tensor: Tensor, *, native: bool) -> OutputFile:
    ending = "_native.raw" if native and tensor.dtype is not DType.FLOAT_32 else ".raw"
    return OutputFile(safe_name(tensor.name) + ending, RawFormat(tensor, native))
