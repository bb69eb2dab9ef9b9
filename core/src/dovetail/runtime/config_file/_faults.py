"""Checking the parts of a config, with one error for all their faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.plugins import names
from dovetail.runtime.config_file._composite import TABLES
from dovetail.runtime.config_file._run_config import GraphSettings
from dovetail.runtime.contract import Configs, Options
from dovetail.runtime.names import split_order
from dovetail.typed import convert, without_faults

S = TypeVar("S", bound=msgspec.Struct)


class Faults:
    """Collects the faults of a config, so that one error lists all of them.

    Args:
        where: Name of the file.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._errors: list[ConfigError] = []

    @property
    def is_empty(self) -> bool:
        """True if there are no faults so far."""
        return not self._errors

    def convert(self, data: Mapping[str, Any], to: type[S], where: str = "") -> S:
        """Return data as a Struct, and record their faults; parts with faults have defaults.

        Args:
            data: The data.
            to: The Struct's class.
            where: Name of the file; by default that of the config.

        Raises:
            ConfigError: The Struct cannot be built without parts with faults.
        """
        try:
            return convert(dict(data), to, where=where or self._where)
        except ConfigError as error:
            self._errors.append(error)
        try:
            return msgspec.convert(without_faults(dict(data), to), to)
        except msgspec.ValidationError:
            self.raise_all()
            raise

    def check_installed(self, name: str, backend: str) -> None:
        """Record a fault if options are for a backend that is not installed."""
        installed = {*names("dovetail.backends"), split_order(backend)[0]} - {*TABLES}
        if name in TABLES:
            error = ConfigError(
                f"the options of backend '{name}' are in [{TABLES[name]}]",
                where=f"{self._where}: $.backend.{name}",
                hint="and those of its members in [backend.NAME]",
            )
            self._errors.append(error)
        elif name not in installed:
            error = ConfigError(
                f"options of a backend '{name}', which is not installed",
                where=f"{self._where}: $.backend.{name}",
                hint=suggest_name(name, installed),
            )
            self._errors.append(error)

    def check_options(
        self, options: Mapping[str, Any], configs: Configs, where: str, path: str
    ) -> None:
        """Record the faults in the options of a backend that runs."""
        if configs.backend is not Options:
            self._check(options, configs.backend, where, path)

    def check_member(self, file: Any, name: str, configs: Configs) -> None:
        """Record the faults in what a file sets for one member of `hetero` or `auto` alone."""
        tables = [
            (file.device, configs.device, "$.device"),
            (file.context, configs.context, "$.context"),
        ]
        tables += ((table, configs.graph, f"$.graph[{i}]") for i, table in enumerate(file.graph))
        for table, to, path in tables:
            self._check(table.members.get(name, {}), to, self._where, f"{path}.members.{name}")

    def _check(
        self, data: Mapping[str, Any], to: type[msgspec.Struct], where: str, path: str
    ) -> None:
        try:
            convert(dict(data), to, where=where, path=path)
        except ConfigError as error:
            self._errors.append(error)

    def graphs(
        self, tables: Sequence[Any], configs: Configs, path: str
    ) -> tuple[GraphSettings, ...]:
        """Return the settings of graphs; record those for no graph."""
        found = []
        for i, table in enumerate(tables):
            names = (*filter(None, (table.graph_name,)), *table.graph_names)
            self.check_names(names, f"{self._where}: {path}[{i}]")
            own = configs.graph.__struct_fields__
            config = configs.graph(**{name: getattr(table, name) for name in own})
            found.append(GraphSettings(names, config))
        return tuple(found)

    def check_names(self, names: Sequence[str], where: str) -> None:
        """Record a fault if settings are for no graph, unless their names have faults already."""
        key = f"{where.removeprefix(self._prefix)}.graph_name"
        if not names and not any(p.where.startswith(key) for p in self._problems()):
            hint = "add graph_name or graph_names"
            self._errors.append(ConfigError("settings of no graph", where=where, hint=hint))

    def read(self, read: Callable[[Path], dict[str, Any]], file: Path) -> dict[str, Any] | None:
        """Return the content of a further file; None, and a fault, if it cannot be read."""
        try:
            return read(file)
        except ConfigError as error:
            self._errors.append(error)
            return None

    def raise_all(self) -> None:
        """Raise one error for all faults; do nothing if there are none.

        Raises:
            ConfigError: There are faults.
        """
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            codes = {error.code for error in self._errors}
            raise ConfigError(
                "the config has several faults",
                code=codes.pop() if len(codes) == 1 else None,
                where=self._where,
                problems=self._problems(),
            )

    @property
    def _prefix(self) -> str:
        return f"{self._where}: "

    def _problems(self) -> list[Problem]:
        return [p for error in self._errors for p in self._problems_of(error)]

    def _problems_of(self, error: ConfigError) -> Iterable[Problem]:
        if not error.problems:
            return (error.as_problem(error.where.removeprefix(self._prefix)),)
        if error.where == self._where:
            return error.problems
        return (Problem(p.message, f"{error.where}: {p.where}", p.hint) for p in error.problems)
