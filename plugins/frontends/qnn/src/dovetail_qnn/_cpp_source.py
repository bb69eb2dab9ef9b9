"""The text of a `model.cpp`, function by function and statement by statement, in linear time.

Nothing is compiled or run: functions that return ModelError_t are read for their statements, and
conditions and loops in them are skipped. Structs are initializers, or variables whose members the
function assigns, as some programs that write such files do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail.csource import Value, parse
from dovetail.csource.initializers import MAX_NESTING, Designated
from dovetail.errors import FrontendError
from dovetail_qnn._reading import read_bytes

MAX_BYTES = 1 << 27  # of the text
# What all calls together may read is this multiple of the text: each array is used about once.
_WORK = 4
EXTRAS = b"// dovetail "  # before the JSON of what C++ cannot express

_STRING = rb'"(?:[^"\\\n]++|\\.)*+"'
_CHARACTER = rb"'(?:[^'\\\n]++|\\.)*+'"
_NAME = rb"[A-Za-z_]\w*+"
_PIECE = re.compile(
    _STRING + rb"|" + _CHARACTER + rb"|(?P<dropped>//[^\n]*+|/\*(?s:.*?)\*/"
    rb"|^[ \t]*+\#(?:[^\n\\]++|\\(?:.|\n)?+)*+)|(?P<open>/\*)",
    re.MULTILINE,
)
_FUNCTION = re.compile(
    rb"\bModelError_t\s++(?P<name>" + _NAME + rb")\s*+\((?P<params>[^(){};]*+)\)\s*+\{"
)
_PARAM = re.compile(rb"\bQnnModel\s*+&\s*+(?P<name>" + _NAME + rb")")
_QUOTED = re.compile(_STRING)
_SPACE = re.compile(rb"[\s;]*+")
_BODY = rb"(?>[^;\"']++|" + _STRING + rb"|" + _CHARACTER + rb")*+"
# The object is optional without `?+`: Python 3.11.2 then skips the part of it that it matched.
_STATEMENT = re.compile(
    rb"(?P<end>\})|(?P<inner>\{)|(?P<block>(?:if|for|while|do|else|switch)\b)"
    rb"|VALIDATE\s*+\(\s*+(?:(?P<object>" + _NAME + rb")\s*+\.\s*+)?"
    rb"(?P<call>" + _NAME + rb")\s*+\((?P<given>" + _BODY + rb");"
    rb"|(?:(?:static|const)\s++)*+(?P<type>" + _NAME + rb")\s*+(?:(?:\*|const\b)\s*+)*+"
    rb"(?P<name>" + _NAME + rb")\s*+\[\s*+\d*+\s*+\]\s*+=(?P<value>" + _BODY + rb");"
    rb"|(?P<struct>Qnn_\w++)\s++(?P<variable>" + _NAME + rb")\s*+=(?P<initial>" + _BODY + rb");"
    rb"|(?P<owner>" + _NAME + rb")(?P<members>(?:\s*+\.\s*+" + _NAME + rb")++)\s*+=(?!=)"
    rb"(?P<assigned>" + _BODY + rb");"
    rb"|(?P<changed>" + _NAME + rb")(?:\s*+\.\s*+" + _NAME + rb"|\s*+\[[^];]*+\])*+"
    rb"\s*+[-+*/%&|^]?=(?!=)" + _BODY + rb";"
    rb"|(?P<other>" + _BODY + rb");"
)
_CALL_END = re.compile(rb"\)\s*+,\s*+" + _NAME + rb"\s*+\)\s*+$")
_NAMES = re.compile(_NAME)
_SYNONYMS = {b"int": b"int32_t"}
_BRACKET = re.compile(_STRING + rb"|" + _CHARACTER + rb"|([;{}()])")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that must succeed.

    Attributes:
        receiver: The object whose method it is; empty for a function.
        name: Name of the function.
        start: Where its arguments begin in the text.
        stop: Where they end.
    """

    receiver: bytes
    name: bytes
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A struct that a function declares.

    Attributes:
        kind: Its type.
        start: Where its initializer begins in the text.
        stop: Where that ends.
        members: The members assigned to it: start of their path, start and stop of the value.
    """

    kind: bytes
    start: int
    stop: int
    members: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    Attributes:
        name: Its name.
        model: Its parameter of type QnnModel; empty if it has none.
        calls: Its calls in order.
        arrays: Type, start and stop of its arrays by name.
        variables: Its structs by name.
    """

    name: bytes
    model: bytes
    calls: list[Call] = field(default_factory=list)
    arrays: dict[bytes, tuple[bytes, int, int]] = field(default_factory=dict)
    variables: dict[bytes, Variable] = field(default_factory=dict)


class CppSource:
    """The functions of a file.

    Args:
        path: The file.

    Attributes:
        path: The file.
        functions: By name.
        text: Its text without comments and directives.
        extras: The JSON of what C++ cannot express; empty if there is none.

    Raises:
        FrontendError: The file cannot be read, or is not of this form.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.extras = b""
        text = read_bytes(path, MAX_BYTES)
        self.text = _PIECE.sub(self._without_comment, text)
        self._work = _WORK * len(text)
        self.functions: dict[bytes, Function] = {}
        at = 0
        while found := _FUNCTION.search(self.text, at):
            model = _PARAM.search(found["params"])
            function = Function(found["name"], model["name"] if model else b"")
            at = self._read(function, found.end())
            if self.functions.setdefault(function.name, function) is not function:
                raise self.error(f"function '{show(function.name)}' is defined twice", at)

    def arguments(self, call: Call) -> list[Value]:
        """Return the values of a call's arguments.

        Raises:
            ValueError: They are none.
        """
        return self._parsed(call.start, call.stop)

    def array(self, function: Function, name: Value, kinds: Sequence[bytes]) -> list[Value]:
        """Return the elements of an array that a function declares.

        Raises:
            ValueError: No array has this name and type.
        """
        if name is None:
            return []
        if not _is_name(name, function):
            raise ValueError(f"expected an array, got {show(name)}")
        kind, start, stop = function.arrays[name]
        if kind not in kinds:
            raise ValueError(f"'{show(name)}' is a {show(kind)}, not a {show(kinds[0])}")
        values = self._parsed(start, stop)
        if len(values) != 1 or not isinstance(values[0], list):
            raise ValueError(f"'{show(name)}' has no list of values")
        return values[0]

    def struct(self, function: Function, value: Value, kind: bytes) -> list[Value]:
        """Return the fields of a struct: of an initializer, or of a variable of a function.

        Raises:
            ValueError: The value is neither, or the variable has another type.
        """
        if isinstance(value, list):
            return value
        variable = function.variables.get(value) if isinstance(value, bytes) else None
        if variable is None or variable.kind != kind:
            raise ValueError(f"expected a {show(kind)}, got {show(value)}")
        initial = self._parsed(variable.start, variable.stop)
        fields = initial[0] if len(initial) == 1 and isinstance(initial[0], list) else []
        assigned: dict[bytes, Any] = {}
        for at, start, stop in variable.members:
            self._spend(start - at)
            *outer, last = _NAMES.findall(self.text, at, start)
            if len(outer) >= MAX_NESTING:
                raise ValueError(f"'{show(value)}': members are nested too deeply")
            inner = assigned
            for name in outer:
                inner = inner.setdefault(name, {})
                if not isinstance(inner, dict):
                    raise ValueError(f"'{show(value)}': '{show(name)}' is assigned in parts, too")
            values = self._parsed(start, stop)
            if len(values) != 1 or isinstance(inner.get(last), dict):
                raise ValueError(f"'{show(value)}': '{show(last)}' is not assigned one value")
            if last in inner:
                text = f"'{show(value)}': '{show(last)}' is assigned twice"
                raise ValueError(f"{text}; use a variable for each tensor and param")
            inner[last] = values[0]
        return [*fields, *_designated(assigned)]

    def array_type(self, function: Function, name: Value) -> bytes:
        """Return the type of an array's elements; empty if a function declares none of the name."""
        return function.arrays[name][0] if _is_name(name, function) else b""

    def where(self, call: Call) -> str:
        """Return a call with the first text in it, for errors."""
        found = _QUOTED.search(self.text, call.start, call.stop)
        return f"{show(call.name)}({show(found[0]) if found else ''}, ...)"

    def error(self, message: str, offset: int) -> FrontendError:
        """Return an error with the text at a position."""
        near = self.text[offset : offset + 60].split(b"\n")[0].decode(errors="replace").strip()
        return FrontendError(f"{message}, near {near!r}", where=str(self.path))

    def _without_comment(self, found: re.Match[bytes]) -> bytes:
        if found["open"] is not None:
            raise FrontendError("a comment without an end", where=str(self.path))
        dropped: bytes | None = found["dropped"]
        if dropped is None:
            return found[0]
        if dropped.startswith(EXTRAS):
            self.extras = dropped[len(EXTRAS) :]
        return b" "

    def _read(self, function: Function, at: int) -> int:
        """Read the statements of a function; return where it ends."""
        depth = 1
        while True:
            space = _SPACE.match(self.text, at)
            at = space.end() if space else at
            found = _STATEMENT.match(self.text, at)
            if found is None:
                raise self.error("a statement cannot be read", at)
            if found["block"] is not None:
                at = self._block_end(at)
                continue
            at = found.end()
            depth += (found["inner"] is not None) - (found["end"] is not None)
            if depth == 0:
                return at
            self._add(function, found)

    def _add(self, function: Function, found: re.Match[bytes]) -> None:
        """Add what a statement calls, declares or assigns."""
        if found["call"] is not None:
            self._add_call(function, found)
        elif name := found["name"]:
            array = (_SYNONYMS.get(found["type"], found["type"]), *found.span("value"))
            if function.arrays.setdefault(name, array) is not array:
                raise self.error(f"'{show(name)}' is declared twice", found.start())
        elif name := found["variable"]:
            variable = Variable(found["struct"], *found.span("initial"))
            if function.variables.setdefault(name, variable) is not variable:
                raise self.error(f"'{show(name)}' is declared twice", found.start())
        elif (name := found["changed"]) in function.arrays or name in function.variables:
            raise self.error(f"'{show(name)}' is changed, not only declared", found.start())
        elif owner := function.variables.get(found["owner"] or b""):
            owner.members.append((found.start("members"), *found.span("assigned")))

    def _add_call(self, function: Function, found: re.Match[bytes]) -> None:
        start, stop = found.span("given")
        end = _CALL_END.search(self.text, max(start, stop - 200), stop)
        if end is None:
            raise self.error("a call of VALIDATE without an end", found.start())
        function.calls.append(Call(found["object"] or b"", found["call"], start, end.start()))

    def _block_end(self, at: int) -> int:
        """Return the end of a block or of a single conditional statement."""
        depth = 0
        for found in _BRACKET.finditer(self.text, at):
            bracket = found[1]
            if bracket is None:
                continue
            depth += (bracket in b"{(") - (bracket in b"})")
            if depth == 0 and bracket in b";}":
                return found.end()
            if depth < 0:
                break
        raise self.error("a block without an end", at)

    def _parsed(self, start: int, stop: int) -> list[Value]:
        self._spend(stop - start)
        return parse(self.text, start, stop)

    def _spend(self, count: int) -> None:
        """Raise ValueError if the calls have read too much, with this number of bytes."""
        self._work -= count
        if self._work < 0:
            raise ValueError("the calls refer to the same arrays too often")


def _designated(members: Mapping[bytes, Any]) -> list[Value]:
    """Return members, and members of members, as an initializer designates them."""
    items: list[Value] = []
    for name, value in members.items():
        item = Designated(name)
        item.value = _designated(value) if isinstance(value, dict) else value
        items.append(item)
    return items


def _is_name(value: Value, function: Function) -> bool:
    return isinstance(value, bytes) and value in function.arrays


def calls_in(source: CppSource, entry: Function) -> Iterator[tuple[Function, bytes, Call]]:
    """Yield the calls of methods of models in order, with the function and the model's variable.

    Functions that take a model are followed, each once for a model.

    Raises:
        FrontendError: A function is called twice, or does not exist.
    """
    followed: set[bytes] = set()
    for call in entry.calls:
        if call.receiver:
            yield entry, call.receiver, call
            continue
        inner = source.functions.get(call.name)
        if inner is None or not inner.model:
            continue  # of the library
        if call.name in followed:
            raise source.error(f"function '{show(call.name)}' is called twice", call.start)
        followed.add(call.name)
        try:
            given = parse(source.text, call.start, call.stop)
        except ValueError as error:
            raise source.error(str(error), call.start) from error
        model = given[0] if len(given) == 1 and isinstance(given[0], bytes) else b""
        for each in inner.calls:
            if each.receiver == inner.model:
                yield inner, model, each


def show(value: Value) -> str:
    """Return a short text for a value, for errors."""
    if isinstance(value, bytes):
        return value[:80].decode(errors="replace")
    if isinstance(value, list):
        return "braces"
    return "nullptr" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
