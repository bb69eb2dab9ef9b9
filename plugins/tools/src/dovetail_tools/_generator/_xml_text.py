"""Op definitions as QNN's op-package XML, from ops on the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from dovetail.errors import ConfigError, Problem
from dovetail_tools._generator._spelled import SpelledOp, SpelledPart
from dovetail_tools.op_definitions import Definitions, read_definitions

_TAGS = {"in": "Input", "out": "Output", "param": "Parameter"}


class XmlText:
    """The XML of a package, with the origins of its lines.

    Args:
        package: Name of the op package.
        domain: Domain of its operators; may be empty.
        version: Version of the package.
        ops: The ops.
    """

    def __init__(self, package: str, domain: str, version: str, ops: Sequence[SpelledOp]) -> None:
        self._lines: list[str] = []
        self._locations: list[str] = []
        attributes = f"PackageName={quoteattr(package)} Version={quoteattr(version)}"
        if domain:
            attributes += f" Domain={quoteattr(domain)}"
        self._add("the package", '<?xml version="1.0" encoding="UTF-8"?>')
        self._add("the package", f"<OpDefCollection {attributes}>", "  <OpDefList>")
        for op in ops:
            self._op(op)
        self._add("the package", "  </OpDefList>", "</OpDefCollection>")

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"

    def definitions(self) -> Definitions:
        """Return the definitions of the XML.

        Raises:
            ConfigError: The definitions are invalid; lists all faults, located in the command line.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ops.xml")
            path.write_text(str(self), "utf-8")
            try:
                found = read_definitions(path)
            except ConfigError as error:
                raise ConfigError(
                    "invalid ops", problems=[self._placed(p) for p in error.problems]
                ) from error
        return Definitions(found.package, found.domain, found.version, found.ops, "")

    def _placed(self, problem: Problem) -> Problem:
        line = int(problem.where.rpartition(":")[2])
        return Problem(problem.message, self._locations[line - 1], problem.hint)

    def _op(self, op: SpelledOp) -> None:
        self._add(op.where, "    <OpDef>", f"      <Name>{escape(op.name)}</Name>")
        # the order of the SDK's schema
        for side in _TAGS:
            for part in op.parts:
                if part.side == side:
                    self._part(part)
        self._add(op.where, "    </OpDef>")

    def _part(self, part: SpelledPart) -> None:
        tag = _TAGS[part.side]
        is_param = part.side == "param"
        types = [f"QNN_DATATYPE_{dtype.name}" for dtype in part.types] or ["BACKEND_SPECIFIC"]
        text = f"<Text>{escape(part.shape)}</Text>" if part.shape else ""
        is_mandatory = not part.is_optional and not part.default
        body = [
            f"<Name>{escape(part.name)}</Name>",
            f"<Mandatory>{str(is_mandatory).lower()}</Mandatory>",
            *(f"<Datatype>{name}</Datatype>" for name in types),
            f"<Shape><Rank>{part.rank}</Rank>{text}</Shape>",
        ]
        if part.default:
            body.append(f"<Default>{escape(part.default)}</Default>")
        if part.choices:
            listed = "".join(f"<Enum>{escape(choice)}</Enum>" for choice in part.choices)
            body.append(f"<Enumeration>{listed}</Enumeration>")
        if not is_param and part.is_repeated:
            body.append("<Repeated>true</Repeated>")
        lines = [f"      <{tag}>", *(f"        {line}" for line in body), f"      </{tag}>"]
        self._add(part.where, *lines)

    def _add(self, location: str, *lines: str) -> None:
        whole = [" ".join(line.splitlines()) for line in lines]  # another line would shift the rest
        self._lines += whole
        self._locations += [location] * len(whole)
