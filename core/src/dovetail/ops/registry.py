"""Op packages, and the registry that finds ops by package and name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from dovetail.errors import PluginError, UnsupportedOpError, suggest_name
from dovetail.ops.op import Op
from dovetail.ops.schema import OpSchema, make_schema

OpClass = TypeVar("OpClass", bound=type[Op])


class OpPackage:
    """A named set of ops: what an entry point of `dovetail.op_packages` loads.

    Args:
        name: As nodes name it, `qti.aisw`.
        version: Of the op set.
    """

    def __init__(self, name: str, version: str = "1.0.0") -> None:
        self.name = name
        self.version = version
        self._schemas: dict[str, OpSchema] = {}

    def op(self, name: str) -> Callable[[OpClass], OpClass]:
        """Register the decorated class as the op `name`.

        Raises:
            PluginError: The class does not fit, or the name is taken.
        """

        def register(cls: OpClass) -> OpClass:
            if name in self._schemas:
                raise PluginError(
                    f"op package '{self.name}' defines '{name}' twice",
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
    """Finds op schemas; packages are loaded when first asked for.

    Args:
        load: Gives an op package by name, or None where there is none.
        names: Gives the names of all packages, for suggestions.
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

    @property
    def added(self) -> tuple[OpPackage, ...]:
        """The packages that were added by hand, in order."""
        return tuple(self._added)

    @classmethod
    def of(cls, *packages: OpPackage) -> OpRegistry:
        """Return a registry of these packages only."""
        by_name = {package.name: package for package in packages}
        return cls(by_name.get, lambda: list(by_name))

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
                f"duplicate op package name '{package.name}'",
                code="PLUGIN_CONFLICT",
                hint="add no package that is installed, and none twice",
            )
        if package not in self._added:
            self._added.append(package)
        self._packages[package.name] = package

    def package(self, name: str) -> OpPackage:
        """Return a package.

        Raises:
            UnsupportedOpError: There is none of that name.
        """
        found = self._packages.get(name) or self._load(name)
        if found is None:
            raise UnsupportedOpError(
                f"no op package '{name}' is installed",
                code="BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
                hint=suggest_name(name, [*self._names(), *self._packages]),
            )
        self._packages[name] = found
        return found

    def find(self, package: str, name: str) -> OpSchema:
        """Return an op's schema.

        Raises:
            UnsupportedOpError: There is no such package, or no such op in it.
        """
        schemas = self.package(package).schemas
        if name not in schemas:
            raise UnsupportedOpError(
                f"op package '{package}' has no op '{name}'", hint=suggest_name(name, schemas)
            )
        return schemas[name]

    def __iter__(self) -> Iterator[OpPackage]:
        for name in dict.fromkeys((*self._names(), *self._packages)):
            yield self.package(name)
