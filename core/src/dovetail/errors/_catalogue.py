"""The catalogue of codes, which `dovetail explain` prints: every error has one of them.

Entries come from three tables: ours (`_own_codes`), those of the runtime API that are in use, with
QNN's names and numbers (`_api_codes`), and QNN's others (`_sdk_codes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.errors._api_codes import API_CODES
from dovetail.errors._entry import Entry
from dovetail.errors._own_codes import OWN_CODES
from dovetail.errors._sdk_codes import SDK_CODES


class Catalogue:
    """All known codes, by name and by number."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add a code; a plugin may add its own.

        Raises:
            ValueError: The name is in use.
        """
        if entry.name in self._entries:
            raise ValueError(f"duplicate error code {entry.name}")
        self._entries[entry.name] = entry

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


CATALOGUE = Catalogue((*OWN_CODES, *API_CODES, *SDK_CODES))
