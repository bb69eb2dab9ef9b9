"""Names and contents of result files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

from dovetail.cli.inputs.raw_files import RawFormat, write_raw
from dovetail.errors import FrontendError, Problem
from dovetail.files import safe_name
from dovetail.ir import Array, DType, Tensor
from dovetail_tools._net_run.request import OutputData

Key = TypeVar("Key", bound=Hashable)

_LONGEST = 255  # bytes of a file name on all common file systems


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of a tensor in each result.

    Attributes:
        name: Name of the file.
        form: Format of the file.
    """

    name: str
    form: RawFormat


# Files to write, by tensor name.
Files = Mapping[str, tuple[OutputFile, ...]]


def output_files(tensors: Mapping[str, Tensor], data: OutputData) -> Files:
    """Return the files of the tensors to write, by tensor name.

    Real values go to NAME.raw, stored values to NAME_native.raw. Tensors that are float32 in the
    graph go to NAME.raw in any case.

    Args:
        tensors: The tensors by name.
        data: Values to write.

    Raises:
        FrontendError: A name is too long.
    """
    kinds = {name: data.kinds(tensor.dtype is DType.FLOAT_32) for name, tensor in tensors.items()}
    wanted = {
        (name, native): safe_name(name) + ("_native" if native else "")
        for name in tensors
        for native in kinds[name]
    }
    stems = distinct("tensors", wanted, ending=".raw")
    return {
        name: tuple(
            OutputFile(f"{stems[name, native]}.raw", RawFormat(tensor, native))
            for native in kinds[name]
        )
        for name, tensor in tensors.items()
    }


def distinct(
    what: str, wanted: Mapping[Key, str], *, ending: str = "", taken: Iterable[str] = ()
) -> dict[Key, str]:
    """Return distinct names of files or folders; duplicates get `_1`, `_2`...

    Args:
        what: Kind of the objects to name.
        wanted: The preferred names, without `ending`.
        ending: End of all names.
        taken: Names in use.

    Raises:
        FrontendError: A name is too long.
    """
    kept = set(taken)
    given: dict[Key, str] = {}
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
        Problem(f"name '{name}' is too long for a file: {len(name)} characters, at most {_LONGEST}")
        for name in files
        if len(name) > _LONGEST
    ]
    if problems:
        raise FrontendError(
            "names are too long for result files",
            hint=f"rename the {what} in the model",
            problems=problems,
        )
    return {own: given[own] for own in wanted}


def unsplittable(files: Files, batch: int, where: str) -> Iterator[Problem]:
    """Yield a problem for each output that cannot be split into the results of lines.

    Args:
        files: Files to write, by tensor name.
        batch: Lines that are combined into one inference.
        where: The input list.
    """
    for name, (file, *_) in files.items() if batch > 1 else ():
        shape = file.form.tensor.shape
        if not shape or shape[0] != batch:
            yield Problem(
                f"output '{name}' of shape {shape} cannot be split into {batch} results",
                where,
                "use files with whole batches",
            )


def write_result(
    folder: Path,
    files: Files,
    outputs: Mapping[str, Array],
    part: int,
    parts: int,
) -> None:
    """Write one result.

    Args:
        folder: The folder, which is created.
        files: Files to write, by tensor name.
        outputs: Stored values of an inference, by tensor name.
        part: Index of the part of the leading axis that is the result.
        parts: Number of parts.

    Raises:
        OSError: A file cannot be written.
    """
    folder.mkdir(parents=True)
    for name, written in files.items():
        values = outputs[name]
        own = values if parts == 1 else values[part : part + 1]
        for file in written:
            write_raw(folder / file.name, own, file.form)


def graph_folder(name: str, graphs: Sized) -> str:
    """Return the folder of a graph's results below the output folder; empty for a single graph."""
    return safe_name(name) if len(graphs) > 1 else ""
