"""Input lists: the raw files of each set of inputs.

Source: spec/tools.md, "File conventions"; quoted paths are an extension.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.cli.inputs.errors import InputError, ListProblem
from dovetail.cli.inputs.spellings import tensor_spellings
from dovetail.errors import Problem, suggest_name
from dovetail.files import read_start
from dovetail.ir import Tensor

_ASSIGN = ":="
_MAX_BYTES = 1 << 28  # of a list; raw files may be larger than the memory
# A path in quotes ends where a quote precedes a space; any other quote is part of a name.
_QUOTED = r'"([^"]+)"(?!\S)'


@dataclass(frozen=True, slots=True)
class Line:
    """A line with one set of inputs.

    Attributes:
        number: Number of the line, from 1.
        text: The line as written; its meaning depends on the names of the inputs.
    """

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class InputList:
    """An input list as written.

    Attributes:
        path: Path of the list.
        lines: The sets of inputs.
        layers: Nodes whose outputs are written instead of all (`#`), with the lines' numbers.
        tensors: Tensors that are written instead of all (`%`), likewise.
        problems: Faults found so far.
    """

    path: Path
    lines: tuple[Line, ...]
    layers: tuple[tuple[int, str], ...]
    tensors: tuple[tuple[int, str], ...]
    problems: tuple[Problem, ...]

    def where(self, number: int) -> str:
        """Return the text that names a line in errors."""
        return f"{self.path}:{number}"


def read_input_list(path: Path) -> InputList:
    """Read an input list; faults of its lines are collected and not raised.

    Raises:
        FrontendError: The file cannot be read.
        InputError: The file is not UTF-8 text, or has more than 256 MiB.
    """
    try:
        data = read_start(path, _MAX_BYTES + 1)
        if b"\0" in data or len(data) > _MAX_BYTES:
            raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "NUL in text, or too much of it")
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "the input list is not UTF-8 text",
            where=str(path),
            hint="check that it is not a raw file",
        ) from error
    lines: list[Line] = []
    chosen: dict[str, list[tuple[int, str]]] = {"#": [], "%": []}
    problems: list[Problem] = []
    for number, row in enumerate(text.split("\n"), 1):
        content = row.strip()
        if not content:
            continue
        if content[0] not in chosen:
            lines.append(Line(number, content))
        elif lines:
            message = "lines that select outputs (# and %) must precede the inputs"
            problems.append(Problem(message, f"{path}:{number}"))
        else:
            chosen[content[0]] += [(number, name) for name in content[1:].split()]
    if not lines:
        problems.append(Problem("no line has inputs", str(path)))
    return InputList(path, tuple(lines), tuple(chosen["#"]), tuple(chosen["%"]), tuple(problems))


def resolve_line(
    listed: InputList, line: Line, inputs: Sequence[Tensor], problems: list[Problem]
) -> dict[str, Path]:
    """Return the files of a line by input name.

    Args:
        listed: The input list.
        line: One of its lines.
        inputs: The graph's inputs, in its order, which is that of paths without names.
        problems: Every fault of the line is added.
    """
    where = listed.where(line.number)
    found: dict[str, Path] = {}
    spelled, names = tensor_spellings(inputs), [tensor.name for tensor in inputs]
    items = _items(line.text, spelled)
    is_bare = len(items) == len(names) and all(given is None and text for given, text in items)
    in_order: Sequence[str] = names if is_bare else ()
    for i, (given, text) in enumerate(items):
        if _is_unclosed(text, listed.path):
            hint = "end the path with a quote; nothing but a space may follow"
            message = f"unclosed quote in '{text}'"
            problems.append(ListProblem(message, where, hint, kind="unclosed quote"))
            return found  # the other items may be parts of this path
        name = in_order[i] if in_order else _name(given, text, spelled)
        if isinstance(name, Problem):
            problems.append(replace(name, where=where))
        elif name in found:
            problems.append(Problem(f"duplicate input '{name}'", where))
        else:
            found[name] = _located(text, listed.path)
    if len(items) == len(found):  # otherwise a misspelt name would be reported twice
        absent = [Problem(f"missing input '{n}'", where) for n in names if n not in found]
        problems += absent
    return found


def _items(text: str, spelled: Mapping[str, str]) -> list[tuple[str | None, str]]:
    """Return the names and paths of a line as written; a bare path has the name None."""
    # names may contain spaces, so known ones come first, a longer one before its beginning
    known = "".join(f"{re.escape(name)}|" for name in sorted(spelled, key=len, reverse=True))
    item = re.compile(rf"\s*(?:{_QUOTED}|(?:({known}\S+?|){_ASSIGN})?(?:{_QUOTED}|(\S*)))")
    items: list[tuple[str | None, str]] = []
    while found := item.match(text):
        if not found[0]:
            break
        alone, name, quoted, plain = found.groups()
        items.append((name, alone or quoted or plain or ""))
        text = text[found.end() :].rstrip()
    return items


def _name(given: str | None, text: str, spelled: Mapping[str, str]) -> str | Problem:
    if given is None:
        message = f"path '{text}' has no input name"
        return ListProblem(message, hint=_example(spelled), kind="path without a name")
    if given not in spelled:
        hint = suggest_name(given, list(dict.fromkeys(spelled.values())))
        return Problem(f"input '{given}' not found in the graph", hint=hint)
    return spelled[given] if text else Problem(f"missing path of input '{given}'")


def _example(spelled: Mapping[str, str]) -> str:
    """Return a hint with a valid line; names in it were parsed again as a check."""
    chosen: dict[str, str] = {}  # by name; the names themselves come first in `spelled`
    for text, name in spelled.items():
        if name not in chosen and _is_writable(text, spelled):
            chosen[name] = text
    names = list(dict.fromkeys(spelled.values()))
    lost = [repr(name) for name in names if name not in chosen]
    if lost:
        return f"a list cannot name {', '.join(lost)}: rename the input in the model"
    form = " ".join(f"{chosen[name]}{_ASSIGN}PATH" for name in names)
    return f"expected the form: {form}; a path with spaces in double quotes"


def _is_writable(text: str, spelled: Mapping[str, str]) -> bool:
    if not text.isprintable() or text != text.strip() or text[:1] in ("", "#", "%"):
        return False
    return _items(f"{text}{_ASSIGN}PATH", spelled) == [(text, "PATH")]


def _is_unclosed(text: str, listed: Path) -> bool:
    """Return whether a path begins with a quote that does not end it, and names no file."""
    return text[:1] == '"' and text.count('"') == 1 and not os.path.exists(_located(text, listed))


def _located(text: str, listed: Path) -> Path:
    """Return a path relative to the working directory, else to the list."""
    # os.path's `exists`, since pathlib's raises if a name is too long
    direct = Path(text)
    return direct if direct.is_absolute() or os.path.exists(direct) else listed.parent / direct
