"""The feed of a graph: the files of each inference, checked before any is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.cli.inputs.errors import ListProblem
from dovetail.cli.inputs.listed import InputList, Line, resolve_line
from dovetail.cli.inputs.raw_files import RawFormat, RawReader
from dovetail.errors import Problem


@dataclass(frozen=True, slots=True)
class Feed:
    """The inputs of all inferences of one pass over a list.

    Attributes:
        forms: Formats of the files, by input name.
        lines: Files by input name, for each line.
        batch: Number of lines per inference; 1 if each file has a whole input.
    """

    forms: Mapping[str, RawFormat]
    lines: tuple[dict[str, Path], ...]
    batch: int

    @property
    def inferences(self) -> int:
        """Number of inferences of one pass."""
        return -(-len(self.lines) // self.batch)

    def group(self, inference: int) -> range:
        """Return the indices of the lines of an inference; the last one may have fewer."""
        start = inference * self.batch
        return range(start, min(start + self.batch, len(self.lines)))

    def fill(self, readers: Mapping[str, RawReader], inference: int) -> None:
        """Read the inputs of an inference.

        Raises:
            DovetailError: A file cannot be read, or has values that its input cannot hold.
        """
        group = self.group(inference)
        for name, reader in readers.items():
            reader.read([self.lines[i][name] for i in group], self.batch)


def make_feed(listed: InputList, forms: Mapping[str, RawFormat]) -> tuple[Feed, list[Problem]]:
    """Return the feed of an input list, and all faults of the list.

    Args:
        listed: The input list.
        forms: Formats of the files, by input name, in the graph's order.
    """
    problems: list[Problem] = list(listed.problems)
    size, inputs = common_batch(forms), [form.tensor for form in forms.values()]
    resolved: list[dict[str, Path]] = []
    first: tuple[int, bool] | None = None  # the first valid line, and whether it is one element
    for line in listed.lines:
        before = len(problems)
        files = resolve_line(listed, line, inputs, problems)
        whole = _Sizes(listed, line, size).check(files, forms, problems)
        resolved.append(files)
        if len(problems) > before or whole is None:
            continue
        if first is None:
            first = line.number, not whole
        elif first[1] is whole:
            problems.append(_mixed(listed, line, first, size))
    batch = size if first is not None and first[1] else 1
    return Feed(forms, tuple(resolved), batch), problems


def common_batch(forms: Mapping[str, RawFormat]) -> int:
    """Return the size of the leading axis if all inputs share it; 1 if lines cannot be combined."""
    shapes = [form.tensor.shape for form in forms.values()]
    sizes = {shape[0] if shape else 1 for shape in shapes}
    return sizes.pop() if len(sizes) == 1 else 1


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Checks the sizes of the files of one line."""

    listed: InputList
    line: Line
    batch: int

    def check(
        self, files: Mapping[str, Path], forms: Mapping[str, RawFormat], problems: list[Problem]
    ) -> bool | None:
        """Return whether the files have whole inputs instead of one element; None for neither."""
        where = self.listed.where(self.line.number)
        verdicts: set[bool] = set()
        for name, path in files.items():
            size = _size(path)
            if isinstance(size, str):
                kind = f"input '{name}' {size}"
                problems.append(ListProblem(f"input '{name}': {path} {size}", where, kind=kind))
            elif size == forms[name].nbytes:
                verdicts.add(True)
            elif self.batch > 1 and size * self.batch == forms[name].nbytes:
                verdicts.add(False)
            else:
                problems.append(self._mismatch(name, path, size, forms[name]))
        if len(verdicts) == 2:
            text = f"some files have all {self.batch} elements of the batch, others one"
            problems.append(Problem(text, where))
        return verdicts.pop() if len(verdicts) == 1 else None

    def _mismatch(self, name: str, path: Path, size: int, form: RawFormat) -> Problem:
        one = form.nbytes // self.batch
        either = f" or {one} (one element of the batch)" if self.batch > 1 else ""
        message = (
            f"input '{name}': expected {form.nbytes} bytes ({form}){either}, got {size} in {path}"
        )
        hint = "; ".join(_guesses(size, form, {1, self.batch}))
        kind = f"input '{name}' of {size} bytes"
        return ListProblem(message, self.listed.where(self.line.number), hint, kind=kind)


def _guesses(size: int, form: RawFormat, parts: set[int]) -> Iterator[str]:
    """Yield hints on what a file of another size may contain."""
    sizes: Sequence[int] = [form.count // part for part in sorted(parts)]
    other = RawFormat(form.tensor, native=not form.native)
    dtype, is_integer = form.tensor.dtype.name, form.item.kind in "iu"
    if size in [count * other.item.itemsize for count in sizes]:
        yield (
            f"the size fits {dtype} values: use --use-native-input-files or "
            f"--native-input-tensor-names {form.tensor.name}"
            if other.native
            else "the size fits float32 values: read the file without the native options"
            + (f"; save integers as {dtype}" if is_integer else "")
        )
        return
    if size in [count * 8 for count in sizes]:
        if not form.native:
            yield "the size fits float64 values: save them as float32"
        elif is_integer:
            yield f"the size fits 64-bit integers: save them as {dtype}"


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
    return ListProblem(
        f"files of this line have {here} of the {batch} elements of the batch, those of line "
        f"{first[0]} have {there}",
        listed.where(line.number),
        "use the same form in all lines",
        kind="mixed forms",
    )
