"""The declared variables of a program, in little memory: a program may have millions."""

from __future__ import annotations

from array import array

from dovetail.csource import Text
from dovetail_saver.vendor.source import Declaration

_LONGEST = 2**63 - 1  # elements of an array; no file has as many bytes
_FIELDS = 5  # type, length, start, stop and offset of a declaration


class Declarations:
    """Declarations by name.

    All that are positions in the same text take 40 bytes each, besides their names.

    Args:
        text: The text that most declarations are in.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._numbers: dict[bytes, int] = {}  # of declarations, in their order
        self._fields = array("q")
        self._types: dict[bytes, int] = {}
        self._type_names: list[bytes] = []
        self._others: dict[int, Declaration] = {}  # those with a text of their own

    def add(self, name: bytes, declaration: Declaration) -> bool:
        """Add a declaration; return False if there is one of this name."""
        number = len(self._fields) // _FIELDS
        if self._numbers.setdefault(name, number) != number:
            return False
        kind, length, text, start, stop, offset = declaration
        known = self._types.setdefault(kind, len(self._types))
        if known == len(self._type_names):
            self._type_names.append(kind)
        self._fields.extend((known, min(length, _LONGEST), start, stop, offset))
        if text is not self._text:
            self._others[number] = declaration
        return True

    def get(self, name: bytes) -> Declaration | None:
        """Return the declaration of a name; None if there is none."""
        number = self._numbers.get(name)
        if number is None:
            return None
        found = self._others.get(number)
        if found is not None:
            return found
        first = number * _FIELDS
        kind, length, start, stop, offset = self._fields[first : first + _FIELDS]
        return Declaration(self._type_names[kind], length, self._text, start, stop, offset)
