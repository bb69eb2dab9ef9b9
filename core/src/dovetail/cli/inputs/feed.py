"""The feed: which files make up each inference, checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.cli.inputs.listed import InputList, Line, resolve_line
from dovetail.cli.inputs.raw_files import RawFormat, RawReader
from dovetail.errors import Problem
from dovetail.ir import Graph


@dataclass(frozen=True, slots=True)
class Feed:
    """The inputs of all inferences of one pass over a list.

    Attributes:
        forms: How the files of each input are read, by input name.
        lines: Files by input name, for each line.
        batch: Lines that make up one inference; 1 where each file holds a whole input.
    """

    forms: Mapping[str, RawFormat]
    lines: tuple[dict[str, Path], ...]
    batch: int

    @property
    def inferences(self) -> int:
        """Number of inferences of one pass."""
        return -(-len(self.lines) // self.batch)

    def group(self, inference: int) -> range:
        """Return the indices of the lines of an inference; the last ones may be fewer."""
        start = inference * self.batch
        return range(start, min(start + self.batch, len(self.lines)))

    def fill(self, readers: Mapping[str, RawReader], inference: int) -> None:
        """Read the inputs of an inference.

        Raises:
            DovetailError: A file cannot be read, or holds what its input cannot.
        """
        group = self.group(inference)
        for name, reader in readers.items():
            reader.read([self.lines[i][name] for i in group], self.batch)


def make_feed(
    graph: Graph, listed: InputList, forms: Mapping[str, RawFormat]
) -> tuple[Feed, list[Problem]]:
    """Return the feed of a list, and everything that is wrong with the list.

    Args:
        graph: The graph that it feeds.
        listed: The list.
        forms: How the files of each input are read, by input name, in the graph's order.
    """
    problems: list[Problem] = list(listed.problems)
    extent = common_batch(graph)
    resolved: list[dict[str, Path]] = []
    first: tuple[int, bool] | None = None  # the line that settles it, and whether it is one element
    for line in listed.lines:
        before = len(problems)
        files = resolve_line(listed, line, tuple(forms), problems)
        whole = _Sizes(listed, line, extent).check(files, forms, problems)
        resolved.append(files)
        if len(problems) > before or whole is None:
            continue
        if first is None:
            first = line.number, not whole
        elif first[1] is whole:
            problems.append(_mixed(listed, line, first, extent))
    batch = extent if first is not None and first[1] else 1
    return Feed(forms, tuple(resolved), batch), problems


def common_batch(graph: Graph) -> int:
    """Return the first extent that all inputs share, 1 where lines cannot be combined."""
    extents = {t.shape[0] if t.shape else 1 for t in graph.inputs}
    return extents.pop() if len(extents) == 1 else 1


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Checks the files of one line."""

    listed: InputList
    line: Line
    batch: int

    def check(
        self, files: Mapping[str, Path], forms: Mapping[str, RawFormat], problems: list[Problem]
    ) -> bool | None:
        """Return whether the files hold whole inputs rather than one element; None for neither."""
        where = self.listed.place(self.line.number)
        verdicts: set[bool] = set()
        for name, path in files.items():
            size = _size(path)
            if isinstance(size, str):
                problems.append(Problem(f"input '{name}': {path} {size}", where))
            elif size == forms[name].nbytes:
                verdicts.add(True)
            elif self.batch > 1 and size * self.batch == forms[name].nbytes:
                verdicts.add(False)
            else:
                problems.append(self._misfit(name, path, size, forms[name]))
        if len(verdicts) == 2:
            text = f"some files hold all {self.batch} elements of the batch, others one"
            problems.append(Problem(text, where))
        return verdicts.pop() if len(verdicts) == 1 else None

    def _misfit(self, name: str, path: Path, size: int, form: RawFormat) -> Problem:
        one = form.nbytes // self.batch
        either = f"; or {one} for one element of the batch" if self.batch > 1 else ""
        message = (
            f"input '{name}': {path} holds {size} bytes, but {form.nbytes} are needed: "
            f"{form}{either}"
        )
        hint = "; ".join(_guesses(size, form, {1, self.batch}))
        return Problem(message, self.listed.place(self.line.number), hint)


def _guesses(size: int, form: RawFormat, parts: set[int]) -> Iterator[str]:
    """What a file of another size may be."""
    sizes: Sequence[int] = [form.count // part for part in sorted(parts)]
    other = RawFormat(form.tensor, native=not form.native)
    if size in [count * other.item.itemsize for count in sizes]:
        yield (
            f"it has the size of {form.tensor.dtype.name} values: say --use-native-input-files "
            f"or --native-input-tensor-names {form.tensor.name}"
            if other.native
            else "it has the size of float32 values: read it without the native options"
        )
        return
    if not form.native and size in [count * 8 for count in sizes]:
        yield "it has the size of float64 values: save them as float32"


def _size(path: Path) -> int | str:
    try:
        status = path.stat()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return status.st_size if path.is_file() else "is not a file"


def _mixed(listed: InputList, line: Line, first: tuple[int, bool], batch: int) -> Problem:
    here, there = "all", "one"
    if not first[1]:
        here, there = there, here
    return Problem(
        f"its files hold {here} of the {batch} elements of the batch, those of line {first[0]} "
        f"{there}",
        listed.place(line.number),
        "all lines must be of one kind",
    )
