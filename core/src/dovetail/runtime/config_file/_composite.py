"""Tables of the backends with members: `[placement]` for `hetero`, `[auto]` for `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.runtime.choice.options import AutoOptions
from dovetail.runtime.names import AUTO, HETERO, split_order
from dovetail.runtime.placement.options import HeteroOptions, options_from, order_of, table_type

_OPTIONS: Mapping[str, type[HeteroOptions]] = {HETERO: HeteroOptions, AUTO: AutoOptions}
TABLES = {HETERO: "placement", AUTO: "auto"}


class Composite:
    """A backend with members, as a config file sets it.

    Args:
        backend: Its name, such as `hetero` or `hetero:a,b`.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self.name, _ = split_order(backend)

    @classmethod
    def of(cls, backend: str) -> Composite | None:
        """Return it for its name; None for another backend."""
        return cls(backend) if split_order(backend)[0] in _OPTIONS else None

    def members(self, file: Any) -> tuple[str, ...]:
        """Return the members: those in its order, else all that have options.

        Args:
            file: A decoded file of our own form.
        """
        order = order_of(self._backend, self._table(file))
        if order is None:
            return tuple(file.backend) if self.name == AUTO else ()
        return order

    def options(
        self, sections: Mapping[str, Mapping[str, Any]], file: Any = None
    ) -> dict[str, Any]:
        """Return its options as plain data.

        Args:
            sections: The options of backends, by name.
            file: A decoded file of our own form; None without one.
        """
        return options_from(self._backend, self._table(file), sections)

    def _table(self, file: Any) -> msgspec.Struct:
        given = None if file is None else getattr(file, TABLES[self.name])
        found: msgspec.Struct = table_type(_OPTIONS[self.name])() if given is None else given
        return found


def file_fields() -> list[tuple[str, Any, Any]]:
    """Return the fields of these tables in a file of our own form."""
    return [(TABLES[n], table_type(options) | None, None) for n, options in _OPTIONS.items()]
