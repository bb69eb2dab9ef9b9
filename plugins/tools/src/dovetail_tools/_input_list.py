"""Input lists: which raw files make up each set of inputs.

Source: spec/tools.md, "File conventions".
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import Problem, unknown_name
from dovetail.files import unreadable
from dovetail_tools._errors import InputError

_ASSIGN = ":="


@dataclass(frozen=True, slots=True)
class Line:
    """One set of inputs.

    Attributes:
        number: Of the line, from 1.
        items: Names and paths as written; a bare path has the name None.
    """

    number: int
    items: tuple[tuple[str | None, str], ...]


@dataclass(frozen=True, slots=True)
class InputList:
    """A list as it is written.

    Attributes:
        path: Its file.
        lines: Its sets of inputs.
        layers: Nodes whose outputs alone are to be written (`#`), with their lines' numbers.
        tensors: Tensors that alone are to be written (`%`), likewise.
        problems: What is wrong with it already.
    """

    path: Path
    lines: tuple[Line, ...]
    layers: tuple[tuple[int, str], ...]
    tensors: tuple[tuple[int, str], ...]
    problems: tuple[Problem, ...]

    def place(self, number: int) -> str:
        """Names a line in errors."""
        return f"{self.path}:{number}"


def read_input_list(path: Path) -> InputList:
    """Reads a list; what is wrong with it is noted, not raised.

    Raises:
        FrontendError: The file cannot be read.
        InputError: It is not UTF-8 text.
    """
    try:
        text = path.read_text("utf-8-sig")
        if "\0" in text:
            raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "text holds no NUL")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "the input list is not UTF-8 text", where=str(path), hint="is it one of the raw files?"
        ) from error
    lines: list[Line] = []
    chosen: dict[str, list[tuple[int, str]]] = {"#": [], "%": []}
    problems: list[Problem] = []
    for number, row in enumerate(text.split("\n"), 1):
        content = row.strip()
        if not content:
            continue
        if content[0] not in chosen:
            lines.append(Line(number, tuple(_item(word) for word in content.split())))
        elif lines:
            message = "lines that choose outputs (# and %) come before the inputs"
            problems.append(Problem(message, f"{path}:{number}"))
        else:
            chosen[content[0]] += [(number, name) for name in content[1:].split()]
    if not lines:
        problems.append(Problem("there is no line with inputs", str(path)))
    return InputList(path, tuple(lines), tuple(chosen["#"]), tuple(chosen["%"]), tuple(problems))


def resolve_line(
    listed: InputList, line: Line, names: Sequence[str], problems: list[Problem]
) -> dict[str, Path]:
    """Gives the files of a line by input name.

    Args:
        listed: The list.
        line: One of its lines.
        names: The graph's inputs.
        problems: Gets every fault of the line.
    """
    where = listed.place(line.number)
    found: dict[str, Path] = {}
    for given, text in line.items:
        name = _name(given, text, line, names)
        if isinstance(name, Problem):
            problems.append(Problem(name.message, where, name.hint))
        elif name in found:
            problems.append(Problem(f"input '{name}' is given twice", where))
        else:
            found[name] = _located(text, listed.path)
    if len(line.items) == len(found):  # otherwise a misspelt one would be told of twice
        absent = [Problem(f"input '{n}' is missing", where) for n in names if n not in found]
        problems += absent
    return found


def _item(word: str) -> tuple[str | None, str]:
    name, assign, path = word.partition(_ASSIGN)
    return (name, path) if assign else (None, word)


def _name(given: str | None, text: str, line: Line, names: Sequence[str]) -> str | Problem:
    if given is None:
        if len(names) == 1 and len(line.items) == 1:
            return names[0]
        example = " ".join(f"{name}{_ASSIGN}PATH" for name in names)
        return Problem(
            f"'{text}' does not say which input it is for", hint=f"the line is to be: {example}"
        )
    if given not in names:
        return Problem(f"the graph has no input '{given}'", hint=unknown_name(given, names))
    return given if text else Problem(f"input '{given}' has no path")


def _located(text: str, beside: Path) -> Path:
    """Relative to the working directory, then to the list."""
    # os.path's `exists`, since pathlib's raises where a name is too long
    direct = Path(text)
    return direct if direct.is_absolute() or os.path.exists(direct) else beside.parent / direct


def resolve_layers(
    listed: InputList, outputs_of: Mapping[str, tuple[str, ...]], problems: list[Problem]
) -> list[str]:
    """Gives the tensors that the nodes of `#` lines write.

    Args:
        listed: The list.
        outputs_of: Tensors by node name.
        problems: Gets a fault for each unknown node.
    """
    found: list[str] = []
    for number, layer in listed.layers:
        if layer in outputs_of:
            found += outputs_of[layer]
        else:
            hint = unknown_name(layer, outputs_of)
            place = listed.place(number)
            problems.append(Problem(f"the graph has no node '{layer}'", place, hint))
    return found
