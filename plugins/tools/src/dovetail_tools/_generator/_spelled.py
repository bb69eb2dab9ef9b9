"""Ops written on a command line: `Scale(in x: float32 [n, c], out y, param by: float32 = 2)`.

    op      NAME(part, part, ...)
    part    in|out|param NAME [?] [*] [: TYPE|TYPE...] [SHAPE] [= DEFAULT]

`?` means optional; `*` means any number of tensors, for the last input or output. TYPE is float32,
uint8, ufixed_point_8 and so on; an enumeration of a param is {FIRST, SECOND}. SHAPE is a list of
named dimensions, [n, 2 * c]; a rank, [2D]; any rank, [ND]; or a scalar, []. By default a tensor has
any type and any shape, and a param is a float32 scalar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.errors import Problem, suggest_name
from dovetail.ir import DType
from dovetail.ops import ShapeText

_OP = re.compile(r"\s*(?P<name>[^\s(]+)\s*\((?P<parts>.*)\)\s*", re.DOTALL)
_PART = re.compile(
    r"\s*(?P<side>in|out|param)\s+(?P<name>[A-Za-z_]\w*(?:\[\d+\])?)\s*(?P<flags>[?*]*)\s*"
    r"(?::(?P<types>\s*\{[^{}]*\}|[\w\s|]*))?\s*(?P<shape>\[[^\[\]]*\])?\s*"
    r"(?:=(?P<default>.+))?",
    re.DOTALL | re.ASCII,
)
_TYPES = {d.name.replace("_", "").lower(): d for d in DType if d is not DType.UNDEFINED}
_WORDS = {"bool": DType.BOOL_8, "float": DType.FLOAT_32, "text": DType.STRING}
_RANK = re.compile(r"\[\s*(?P<rank>\d{1,2}D|ND)\s*\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SpelledPart:
    """An input, output or param as written.

    Attributes:
        side: in, out or param.
        name: Name.
        is_optional, is_repeated: Flags.
        types: Types.
        choices: Choices of an enumeration.
        rank: Rank as in definitions: SCALAR, 2D, ND.
        shape: List of dimensions; may be empty.
        default: Default value; empty for none.
        where: Location in the text.
    """

    side: str
    name: str
    is_optional: bool
    is_repeated: bool
    types: tuple[DType, ...]
    choices: tuple[str, ...]
    rank: str
    shape: str
    default: str
    where: str


@dataclass(frozen=True, slots=True)
class SpelledOp:
    """An op as written."""

    name: str
    parts: tuple[SpelledPart, ...]
    where: str


def spelled_op(text: str, problems: list[Problem], where: str = "--op") -> SpelledOp:
    """Parse an op; faults are added to `problems`.

    Args:
        text: See the module's docstring.
        problems: Receives all faults, with their locations.
        where: Name of the text in errors.
    """
    found = _OP.fullmatch(text)
    if found is None or not text.replace("\n", " ").isprintable():
        hint = "expected 'Name(in x, out y, param alpha: float32 = 1.0)'"
        problems.append(Problem(f"invalid op {text!r}", where, hint))
        return SpelledOp("", (), where)
    op = f"{where} {found['name']}"
    parts = []
    for start, part in _split(found["parts"]):
        at = f"{op}, character {found.start('parts') + start + 1}"
        if (made := spelled_part(part, at, problems)) is not None:
            parts.append(made)
    return SpelledOp(found["name"], tuple(parts), op)


def spelled_part(text: str, where: str, problems: list[Problem]) -> SpelledPart | None:
    """Parse an input, output or param; return None if the text is invalid.

    Args:
        text: See the module's docstring.
        where: Location of the text.
        problems: Receives all faults.
    """
    found = _PART.fullmatch(text)
    if found is None:
        hint = "expected in, out or param, then NAME, optionally : TYPE, [SHAPE] and = DEFAULT"
        problems.append(Problem(f"invalid part '{text.strip()}' of an op", where, hint))
        return None
    types, choices = _types(found["types"], where, problems)
    is_param = found["side"] == "param"
    if is_param and not types:
        types = (DType.UINT_32,) if choices else (DType.FLOAT_32,)
    rank, shape = _shape(found["shape"], is_param, where, problems)
    named = f"'{found['name']}'"
    if is_param and "*" in found["flags"]:
        problems.append(Problem(f"{named} is a param and cannot be repeated", where))
    if not is_param and (choices or found["default"]):
        what = "choices" if choices else "a default"
        problems.append(Problem(f"{named} is not a param; only params have {what}", where))
    return SpelledPart(
        side=found["side"],
        name=found["name"],
        is_optional="?" in found["flags"],
        is_repeated="*" in found["flags"],
        types=types,
        choices=choices,
        rank=rank,
        shape=shape,
        default=(found["default"] or "").strip(),
        where=where,
    )


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts between commas outside of brackets, with their offsets."""
    depth = start = 0
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield _trimmed(text, start, i)
            start = i + 1
    if start or text.strip():
        yield _trimmed(text, start, len(text))


def _trimmed(text: str, start: int, end: int) -> tuple[int, str]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), part.strip()


def _types(
    text: str | None, where: str, problems: list[Problem]
) -> tuple[tuple[DType, ...], tuple[str, ...]]:
    if text is None:
        return (), ()
    if (listed := text.strip()).startswith("{"):
        return (), tuple(word.strip() for word in listed[1:-1].split(","))
    found = []
    for word in text.split("|"):
        key = word.strip().lower().removeprefix("qnn_datatype_").replace("_", "")
        dtype = _TYPES.get(key) or _WORDS.get(key)
        if dtype is None:
            hint = suggest_name(word.strip(), [d.name.lower() for d in _TYPES.values()])
            problems.append(Problem(f"unknown data type '{word.strip()}'", where, hint))
        else:
            found.append(dtype)
    return tuple(dict.fromkeys(found)), ()


def _shape(
    text: str | None, is_param: bool, where: str, problems: list[Problem]
) -> tuple[str, str]:
    """Return the rank and the list of dimensions."""
    if text is None:
        return ("SCALAR" if is_param else "ND"), ""
    if (rank := _RANK.fullmatch(text)) is not None:
        return rank["rank"].upper(), ""
    dims = ShapeText.parse(text)
    if dims is None:
        hint = "expected [n, 2 * c], a rank as in [2D], or [] for a scalar"
        problems.append(Problem(f"invalid shape '{text}'", where, hint))
        return "ND", ""
    return (f"{len(dims.terms)}D", text) if dims.terms else ("SCALAR", "")
