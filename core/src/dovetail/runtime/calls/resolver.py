"""Resolvers: the backends and op packages that records refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dovetail.errors import TraceError
from dovetail.ops import OpPackage, OpRegistry
from dovetail.plugins import load_usable, names
from dovetail.plugins.ops import GROUP as OP_PACKAGES
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import contract
from dovetail.runtime.calls.references import BackendReference, OpsReference, PackageReference
from dovetail.runtime.installed import without_files

Options = Mapping[str, Any]


class Resolver(Protocol):
    """Decides what is used for a reference. Each method raises a TraceError if there is nothing."""

    def backend(
        self, reference: BackendReference, options: Options | None
    ) -> tuple[str | type[contract.Backend], Options | None]:
        """Return the backend to create, and its options, instead of the recorded ones."""

    def op_package(self, reference: PackageReference) -> OpPackage:
        """Return an op package."""

    def ops(self, reference: OpsReference) -> OpRegistry:
        """Return a new op registry."""


class InstalledResolver:
    """Uses what is installed, and what the application gives; never what a record names by path.

    Args:
        backends: Classes that are not installed, by their names.
        packages: Op packages that are not installed.
        writes_files: Whether backends may write files that their options name; not if the options
            are those of a trace.
    """

    def __init__(
        self,
        backends: Mapping[str, type[contract.Backend]] | None = None,
        packages: Sequence[OpPackage] = (),
        *,
        writes_files: bool = False,
    ) -> None:
        self._writes_files = writes_files
        self._backends = dict(backends or {})
        self._packages = {package.name: package for package in packages}

    def backend(
        self, reference: BackendReference, options: Options | None
    ) -> tuple[str | type[contract.Backend], Options | None]:
        """Return the recorded backend and options; an unknown name is an error of the call."""
        name = reference.name
        if name not in self._backends and not self._writes_files:
            options = without_files(name, options)
        return self._backends.get(name, name), options

    def op_package(self, reference: PackageReference) -> OpPackage:
        """Return a given package, else the installed one of the name."""
        name = reference.name
        if name in self._packages:
            return self._packages[name]
        found = load_usable(OP_PACKAGES, name) if name in names(OP_PACKAGES) else None
        if not isinstance(found, OpPackage):
            origin = f"{reference.dist} {reference.dist_version}".strip() or reference.path
            raise TraceError(
                f"op package '{name}' {reference.version} not found",
                hint="install the dist of the op package, or pass it with --op-packages"
                + (f"; the recorded one came from {origin}" if origin else ""),
            )
        return found

    def ops(self, reference: OpsReference) -> OpRegistry:
        """Return a registry of the packages."""
        if reference.only is None:
            registry = installed_ops()
        else:
            registry = OpRegistry.of(*map(self.op_package, reference.only))
        for each in reference.added:
            registry.add(self.op_package(each), replace=True)
        return registry
