"""Untrusted XML as plain elements with their lines; DTDs and entities are rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from dovetail.errors import ConfigError, Problem
from dovetail.files import read_start

MOST_BYTES = 16 << 20  # hundreds of times the size of the largest known file
DEEPEST = 32


@dataclass(slots=True)
class Element:
    """An XML element.

    Attributes:
        tag: Name without prefix.
        attributes: Attributes by name without prefix.
        line: First line.
        text: Text of the element itself, stripped.
        children: Child elements, in order.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)


def read_xml(path: Path) -> Element:
    """Return the root element of a file.

    Raises:
        ConfigError: The file cannot be read, is not XML, or has rejected content.
    """
    data = read_start(path, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise _error(path, 1, f"the file is larger than {MOST_BYTES >> 20} MiB")
    builder = _Builder(path)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        why = f"the file is not XML: {expat.ErrorString(error.code)}"
        raise _error(path, error.lineno, why) from error
    except (UnicodeError, ValueError, LookupError) as error:
        raise _error(path, builder.line, f"the file is not XML: {error}") from error
    assert builder.root is not None  # otherwise the parser has raised
    return builder.root


class _Builder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        # without a DTD there are no entities, internal or external
        self.parser.StartDoctypeDeclHandler = self._doctype

    @property
    def line(self) -> int:
        return self.parser.CurrentLineNumber

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) == DEEPEST:
            raise _error(self.path, self.line, f"elements are nested more than {DEEPEST} deep")
        named = {
            _local(name): value
            for name, value in attributes.items()
            if not name.startswith("xmlns")
        }
        made = Element(_local(tag), named, self.line)
        if self._open:
            self._open[-1].children.append(made)
        else:
            self.root = made
        self._open.append(made)
        self._texts.append([])

    def _end(self, _tag: str) -> None:
        self._open.pop().text = "".join(self._texts.pop()).strip()

    def _text(self, text: str) -> None:
        self._texts[-1].append(text)

    def _doctype(self, *_: object) -> None:
        raise _error(
            self.path, self.line, "a document type is not allowed, since it may define entities"
        )


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _error(path: Path, line: int, why: str) -> ConfigError:
    return ConfigError(
        "the op definitions cannot be read",
        problems=[Problem(why, f"{path}:{line}", "docs/op_packages.md describes the format")],
    )
