"""The text of a Saver program, statement by statement, in linear time.

Only declarations, `fread` and `VALIDATE` are read; blocks (`if`, `for`) and other statements are
skipped. Nothing is copied but names: a declaration is a position in the mapped file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dovetail.container import MappedFile
from dovetail.csource import Text
from dovetail.errors import DovetailError, TraceError

MAX_STATEMENT = 1 << 26  # bytes
RECORD_COMMENT = b"// dovetail-record "  # before the JSON of what C cannot express

_STRING = rb'"(?:[^"\\\n]++|\\.)*+"'
_CHARACTER = rb"'(?:[^'\\\n]++|\\.)*+'"
_COMMENT = rb"//[^\n]*+|(?>/\*(?s:.*?)\*/)"
# All but comments up to the `;` of a statement.
_BODY = rb"(?>[^;\"'/]++|" + _STRING + rb"|" + _CHARACTER + rb"|/(?![/*]))*+"
_NAME = rb"[A-Za-z_]\w*+"
_NUMBER = rb"\d{1,20}+"
_BLOCKS = rb"if|for|while|do|else|switch"

# Between statements: also empty statements.
_SPACE = re.compile(rb"(?:[\s;]++|" + _COMMENT + rb"|\#(?:[^\n\\]++|\\(?:.|\n)?+)*+)*+")
_MAIN = re.compile(rb"\bint\s++main\s*+\([^()]*+\)\s*+\{")
_STATEMENT = re.compile(
    rb"(?P<block>(?:" + _BLOCKS + rb")\b|\{)"
    rb"|(?P<end>\})"
    rb"|VALIDATE\s*+\(\s*+" + _NAME + rb"\s*+,(?P<call>" + _BODY + rb");"
    rb"|fread\s*+\(\s*+(?P<buffer>" + _NAME + rb")\s*+,\s*+(?P<size>" + _NUMBER + rb")\s*+,"
    rb"\s*+(?P<count>" + _NUMBER + rb")\s*+,\s*+\w++\s*+\)\s*+;"
    rb"|(?!(?:return|typedef|struct|union|enum|goto)\b)(?:(?:static|const)\s++)*+"
    rb"(?P<type>" + _NAME + rb")\s*+(?:(?:\*|const\b)\s*+)*+(?P<name>" + _NAME + rb")\s*+"
    rb"(?:\[\s*+(?P<length>(?:" + _NUMBER + rb")?+)\s*+\]\s*+)?+"
    rb"(?:=(?P<value>" + _BODY + rb"))?+;"
    rb"|(?P<other>" + _BODY + rb");"
)
# `interface` is optional without `?+`: Python 3.11.2 then skips the part of it that it matched.
_CALL = re.compile(
    rb"\s*+(?:interface\s*+\.\s*+)?(?P<api>" + _NAME + rb")\s*+\((?P<given>(?s:.*))\)\s*\)\s*"
)
_COMMENTED = re.compile(
    rb"(?>[^;\"'/]++|" + _STRING + rb"|" + _CHARACTER + rb"|" + _COMMENT + rb"|/(?![/*]))*+;"
)
_PIECE = re.compile(_STRING + rb"|" + _CHARACTER + rb"|(" + _COMMENT + rb")")
_BRACKET = re.compile(_STRING + rb"|" + _CHARACTER + rb"|" + _COMMENT + rb"|([;{}()])|(/\*|[\"'])")


class Declaration(NamedTuple):
    """A declared variable.

    Attributes:
        type: Name of its type, without pointers and qualifiers.
        length: Number of elements of an array, -1 if it is not stated.
        text, start, stop: The text with its initializer, and where that is; empty without one.
        offset: Its position in the file.
    """

    type: bytes
    length: int
    text: Text
    start: int
    stop: int
    offset: int


class Declared(NamedTuple):
    """A statement that declares a variable."""

    offset: int
    name: bytes
    declaration: Declaration


class Read(NamedTuple):
    """A statement that reads an array from the payloads."""

    offset: int
    buffer: bytes
    size: int
    elements: int


class Call(NamedTuple):
    """A statement that calls the API.

    Attributes:
        offset: Its position.
        name: Name of the call.
        arguments: Their text.
        text: The whole statement.
    """

    offset: int
    name: str
    arguments: bytes
    text: bytes


class Comment(NamedTuple):
    """A comment with a record that C cannot express."""

    offset: int
    text: bytes


class Other(NamedTuple):
    """Any other statement."""

    offset: int
    text: bytes


Statement = Declared | Read | Call | Comment | Other


class Source:
    """The statements of a program.

    Args:
        path: The file.

    Attributes:
        path: The file.
        text: Its content, mapped.

    Raises:
        TraceError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = map_file(path).data.data
        self._types: dict[bytes, bytes] = {}

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return len(self.text)

    def error(self, message: str, offset: int, hint: str = "") -> TraceError:
        """Return an error with its line."""
        return TraceError(message, where=self.where(offset), hint=hint)

    def where(self, offset: int) -> str:
        """Return the file and line of a position."""
        line, step = 1, 1 << 24
        for start in range(0, offset, step):
            line += self.text[start : min(offset, start + step)].tobytes().count(b"\n")
        return f"{self.path}:{line}"

    def __iter__(self) -> Iterator[Statement]:
        """Yield the statements of `main`.

        Raises:
            TraceError: The text is not a program of this form.
        """
        found = _MAIN.search(self.text)
        if found is None:
            raise self.error("not a Saver program: no function 'main'", 0)
        offset = found.end()
        while True:
            begun, offset = offset, _SPACE.match(self.text, offset).end()  # type: ignore[union-attr]
            yield from self._comments(begun, offset)
            found = _STATEMENT.match(self.text, offset)
            if found is not None and found["end"] is not None:
                return
            if found is not None and found["block"] is not None:
                begun, offset = offset, self._block_end(offset)
                if b"fread" in self._slice(begun, offset):
                    raise self.error("payloads are read in a block", begun)
                continue
            if found is None:
                text, offset = self._without_comments(offset)
                begun = offset
                found = _STATEMENT.fullmatch(text)
                if found is None:
                    raise self.error("this statement cannot be read", begun)
                yield self._statement(found, text, begun)
                continue
            if found.end() - offset > MAX_STATEMENT:
                raise self.error(f"a statement exceeds {MAX_STATEMENT} bytes", offset)
            yield self._statement(found, self.text, offset)
            offset = found.end()

    def _statement(self, found: re.Match[bytes], text: Text, offset: int) -> Statement:
        name = found["name"]
        if name is not None:
            kind = found["type"]
            kind = self._types.setdefault(kind, kind)
            start, stop = found.span("value")
            length = found["length"]
            count = int(length) if length else -1
            return Declared(offset, name, Declaration(kind, count, text, start, stop, offset))
        if found["buffer"] is not None:
            return Read(offset, found["buffer"], int(found["size"]), int(found["count"]))
        if found["call"] is not None:
            call = _CALL.fullmatch(found["call"])
            if call is None:
                raise self.error("not a call of the API", offset)
            return Call(offset, call["api"].decode(), call["given"], found[0])
        return Other(offset, found[0])

    def _comments(self, start: int, stop: int) -> Iterator[Comment]:
        if stop - start <= len(RECORD_COMMENT):
            return
        text = self._slice(start, stop)
        at = text.find(RECORD_COMMENT)
        while at >= 0:
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            yield Comment(start + at, text[at + len(RECORD_COMMENT) : end])
            at = text.find(RECORD_COMMENT, end)

    def _block_end(self, offset: int) -> int:
        """Return the end of a block or of a single conditional statement."""
        braces = parentheses = 0
        for found in _BRACKET.finditer(self.text, offset):
            bracket = found[1]
            if found[2] is not None:
                break  # text or a comment without an end
            if bracket is None:
                continue
            braces += (bracket == b"{") - (bracket == b"}")
            parentheses += (bracket == b"(") - (bracket == b")")
            if braces == 0 and parentheses == 0 and bracket in b";}":
                return found.end()
            if braces < 0 or parentheses < 0:
                break
        raise self.error("a block without an end", offset)

    def _without_comments(self, offset: int) -> tuple[bytes, int]:
        found = _COMMENTED.match(self.text, offset)
        if found is None:
            raise self.error("a statement without an end", min(offset, self.size))
        if found.end() - offset > MAX_STATEMENT:
            raise self.error(f"a statement exceeds {MAX_STATEMENT} bytes", offset)
        return _PIECE.sub(lambda m: m[0] if m[1] is None else b" ", found[0]), found.end()

    def _slice(self, start: int, stop: int) -> bytes:
        return self.text[start:stop].tobytes()


def map_file(path: Path) -> MappedFile:
    """Return a mapped file.

    Raises:
        TraceError: It cannot be read.
    """
    try:
        return MappedFile(str(path))
    except DovetailError as error:
        raise TraceError(error.message, where=str(path)) from error
