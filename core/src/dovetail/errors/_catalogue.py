"""The catalogue of codes, which `dovetail explain` prints: every error has one of them.

Entries come from three tables: ours (`_own_codes`), those of the runtime API that are in use, with
QNN's names and numbers (`_api_codes`), and QNN's others (`_sdk_codes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from dovetail.errors._entry import Entry


class Catalogue:
    """Codes by name and by number.

    Args:
        load: Returns the first entries; called once, when a code is first looked up or added.
    """

    def __init__(self, load: Callable[[], Iterable[Entry]]) -> None:
        self._load = load

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for entry in self._load():
            _add(found, entry)
        return found

    def add(self, entry: Entry) -> None:
        """Add a code; a plugin may add its own.

        Raises:
            ValueError: The name is in use.
        """
        _add(self._entries, entry)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def find(self, text: str) -> tuple[Entry, ...]:
        """Return the entries whose name, or QNN number (decimal or 0x hex), is `text`."""
        wanted = text.strip()
        try:
            number = int(wanted, 0) & 0xFFFF
        except ValueError:
            upper = wanted.upper().removeprefix("QNN_")
            return tuple(e for e in self if e.name == upper)
        return tuple(e for e in self if e.number == number)


def _add(entries: dict[str, Entry], entry: Entry) -> None:
    if entry.name in entries:
        raise ValueError(f"duplicate error code {entry.name}")
    entries[entry.name] = entry


def _known() -> tuple[Entry, ...]:
    # imported here: a process without errors needs none of the several hundred entries
    from dovetail.errors._api_codes import API_CODES
    from dovetail.errors._own_codes import OWN_CODES
    from dovetail.errors._sdk_codes import SDK_CODES

    return *OWN_CODES, *API_CODES, *SDK_CODES


CATALOGUE = Catalogue(_known)
