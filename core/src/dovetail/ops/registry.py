"""Op packages, and the registry that finds ops by package and name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from dovetail.errors import PluginError, UnsupportedOpError, suggest_name
from dovetail.ops.op import Op
from dovetail.ops.schema import OpSchema, make_schema

OpClass = TypeVar("OpClass", bound=type[Op])


class OpPackage:
    """A named set of ops, which an entry point of `dovetail.op_packages` loads.

    Args:
        name: Name that nodes refer to, such as `qti.aisw`.
        version: Version of the op set.
    """

    def __init__(self, name: str, version: str = "1.0.0") -> None:
        self.name = name
        self.version = version
        self._schemas: dict[str, OpSchema] = {}

    def op(self, name: str) -> Callable[[OpClass], OpClass]:
        """Register the decorated class as the op `name`.

        Raises:
            PluginError: The class does not meet the contract, or the name is taken.
        """

        def register(cls: OpClass) -> OpClass:
            if name in self._schemas:
                raise PluginError(
                    f"duplicate op '{name}' in op package '{self.name}'",
                    code="PLUGIN_CONFLICT",
                    where=f"{cls.__module__}.{cls.__qualname__}",
                )
            self._schemas[name] = make_schema(self.name, name, cls)
            return cls

        return register

    @property
    def schemas(self) -> Mapping[str, OpSchema]:
        """All ops by name."""
        return self._schemas


class OpRegistry:
    """Finds op schemas; packages are loaded when they are first needed.

    Args:
        load: Returns an op package by name, or None if it does not exist.
        names: Returns the names of all packages, for suggestions.
    """

    def __init__(
        self,
        load: Callable[[str], OpPackage | None],
        names: Callable[[], list[str]],
    ) -> None:
        self._load = load
        self._names = names
        self._packages: dict[str, OpPackage] = {}
        self._added: list[OpPackage] = []
        self._only: tuple[OpPackage, ...] | None = None

    @property
    def added(self) -> tuple[OpPackage, ...]:
        """The packages that were added explicitly, in order."""
        return tuple(self._added)

    @property
    def only(self) -> tuple[OpPackage, ...] | None:
        """The packages of a registry made with `of`; None if it finds others by their names."""
        return self._only

    @classmethod
    def of(cls, *packages: OpPackage) -> OpRegistry:
        """Return a registry of these packages only."""
        by_name = {package.name: package for package in packages}
        registry = cls(by_name.get, lambda: list(by_name))
        registry._only = packages
        return registry

    def add(self, package: OpPackage, *, replace: bool = False) -> None:
        """Add a package that is not installed.

        Args:
            package: The package.
            replace: Whether it replaces an installed package of its name.

        Raises:
            PluginError: Another package of its name was added before, or is installed.
        """
        known = next((p for p in self._added if p.name == package.name), None)
        if known is None and not replace:
            known = self._packages.get(package.name) or self._load(package.name)
        if known is not None and known is not package:
            raise PluginError(
                f"duplicate op package '{package.name}'",
                code="PLUGIN_CONFLICT",
                hint="add each package once, and do not add installed packages",
            )
        if package not in self._added:
            self._added.append(package)
        self._packages[package.name] = package

    def package(self, name: str) -> OpPackage:
        """Return a package.

        Raises:
            UnsupportedOpError: The name is unknown.
        """
        found = self._packages.get(name)
        if found is None:
            found = self._load(name)
            if found is None:
                raise UnsupportedOpError(
                    f"op package '{name}' not found",
                    code="BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
                    hint=suggest_name(name, [*self._names(), *self._packages]),
                )
            self._packages[name] = found
        return found

    def find(self, package: str, name: str) -> OpSchema:
        """Return an op's schema.

        Raises:
            UnsupportedOpError: The package or the op is unknown.
        """
        schemas = self.package(package).schemas
        if name not in schemas:
            raise UnsupportedOpError(
                f"op '{name}' not found in op package '{package}'", hint=suggest_name(name, schemas)
            )
        return schemas[name]

    def __iter__(self) -> Iterator[OpPackage]:
        for name in dict.fromkeys((*self._names(), *self._packages)):
            yield self.package(name)
