"""Output of commands: data on stdout, as text or as JSON; messages on stderr."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True, slots=True)
class Output:
    """Prints a command's results and messages.

    Attributes:
        json: Whether results are printed as JSON.
        command: The command as the user called it, for errors.
    """

    json: bool = False
    command: str = "dovetail"

    def data(self, obj: object, text: str) -> None:
        """Print a result to stdout: `obj` as JSON with --json, otherwise `text`.

        Args:
            obj: Plain data: mappings, sequences, strings, numbers. Infinite numbers and NaN, which
                JSON lacks, become the strings `inf`, `-inf` and `nan`.
            text: The same as text for people.
        """
        import json  # imported here: a run that prints text needs none

        shown = json.dumps(_plain(obj), indent=2) if self.json else text
        write(sys.stdout, shown if shown.endswith("\n") else f"{shown}\n")

    def message(self, text: str) -> None:
        """Print a message to stderr."""
        write(sys.stderr, f"{text}\n")


# Control characters but for tabs and ends of lines, by their codes.
_CONTROLS = {i: f"\\x{i:02x}" for i in (*range(9), *range(11, 32), *range(127, 160))}
_current: ContextVar[Output] = ContextVar("dovetail_output")


def current_output() -> Output:
    """Return the output of the running command; without one, an output of plain text."""
    return _current.get(Output())


@contextmanager
def output_of_command(output: Output) -> Iterator[None]:
    """Use an output while a command runs."""
    before = _current.set(output)
    try:
        yield
    finally:
        _current.reset(before)


def show_differences(notes: Iterable[str]) -> None:
    """Print the differences between a written model and its graph, a line each."""
    for note in notes:
        current_output().message(f"  differs: {note}")


def named_files(files: Sequence[Path]) -> str:
    """Return the paths of one or more files in words."""
    *first, last = map(str, files)
    return f"{', '.join(first)} and {last}" if first else last


def table(
    headers: Sequence[str], rows: Iterable[Iterable[object]], right: Collection[str] = ()
) -> str:
    """Return a table as text: aligned columns, two spaces apart, without lines.

    Args:
        headers: Heads of the columns.
        rows: The cells.
        right: Heads of the columns that are aligned on the right, such as numbers.
    """
    texts = [[_cell(cell) for cell in row] for row in [headers, *rows]]
    sizes = [[_columns(text) for text in row] for row in texts]
    widths = [max(row[i] for row in sizes) for i in range(len(headers))]
    on_right = [header in right for header in headers]

    def line(row: Sequence[str], taken: Sequence[int]) -> str:
        cells = []
        for text, size, width, is_right in zip(row, taken, widths, on_right, strict=True):
            space = " " * (width - size)
            cells.append(space + text if is_right else text + space)
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, texts, sizes))


def _cell(value: object) -> str:
    """Return a cell on one line, as it will be printed."""
    return printable(" ".join(str(value).split("\n")).replace("\t", r"\t"))


def _columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # imported here: names are seldom of other scripts

    marks = sum(unicodedata.category(char) in ("Mn", "Me", "Cf") for char in text)
    wide = sum(unicodedata.east_asian_width(char) in ("W", "F") for char in text)
    return len(text) - marks + wide  # ideographs and emoji take two columns


def _plain(obj: object) -> Any:
    if isinstance(obj, Mapping):
        return {str(key): _plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple | set | frozenset):
        return [_plain(value) for value in obj]
    if isinstance(obj, float) and not math.isfinite(obj):
        return str(obj)
    return obj


def printable(text: str) -> str:
    """Return text with its control characters escaped.

    Names in a foreign file would reach the terminal by them.
    """
    return text.translate(_CONTROLS)


def write(stream: TextIO, text: str) -> None:
    """Write printable text to stdout or stderr.

    Characters that the terminal's encoding lacks are escaped, too.

    Raises:
        ContainerError: The text cannot be written (FILE_UNWRITABLE).
        BrokenPipeError: The reader has closed the pipe.
    """
    text = printable(text)
    with _translated():
        try:
            stream.write(text)
        except UnicodeEncodeError:  # file names may have any characters
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def flush(stream: TextIO) -> None:
    """Flush a stream.

    Raises:
        ContainerError, BrokenPipeError: As `write`.
    """
    with _translated():
        stream.flush()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        from dovetail.files import unwritable  # imported here: needed only if a disk is full

        raise unwritable(Path("standard output"), error) from error
