"""References to backends and op packages, by name and version."""

from __future__ import annotations

import sys

import msgspec

from dovetail.ops import OpPackage, OpRegistry
from dovetail.plugins import list_plugins, load_usable, names
from dovetail.plugins.ops import GROUP as OP_PACKAGES
from dovetail.runtime import contract
from dovetail.runtime.names import backend_name, split_arch

BACKENDS = "dovetail.backends"


class BackendReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A backend.

    Attributes:
        name: As given to `Backend.create`, or the name of a class that is not installed.
        dist, version: The installed dist that provides it; empty if none does.
    """

    name: str
    dist: str = ""
    version: str = ""

    @classmethod
    def of(cls, backend: str | type[contract.Backend]) -> BackendReference:
        """Return the reference of a backend by name, or of a class.

        Raises:
            TypeError: It is a class without a name.
        """
        if not isinstance(backend, str):
            name: object = getattr(backend, "name", None)
            if not isinstance(name, str):
                raise TypeError("a class without a name")
            return cls(name)
        return cls(backend, *_dist(BACKENDS, split_arch(backend_name(backend))[0]))


class PackageReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An op package.

    Attributes:
        name, version: Its name and the version of its op set.
        dist, dist_version: The installed dist that provides it; empty if none does.
        path: The file that defines its ops if it is not installed; information only, nothing is
            loaded from there.
    """

    name: str
    version: str
    dist: str = ""
    dist_version: str = ""
    path: str = ""

    @classmethod
    def of(cls, package: OpPackage) -> PackageReference:
        """Return the reference of a package."""
        if package.name in names(OP_PACKAGES) and load_usable(OP_PACKAGES, package.name) is package:
            return cls(package.name, package.version, *_dist(OP_PACKAGES, package.name))
        schema = next(iter(package.schemas.values()), None)
        module = None if schema is None else sys.modules.get(schema.op.__module__)
        path = getattr(module, "__file__", None) or ""
        return cls(package.name, package.version, path=path)


class OpsReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An op registry.

    Attributes:
        added: Packages that were added.
        only: The other packages if there are no more; None for all installed ones.
    """

    added: tuple[PackageReference, ...] = ()
    only: tuple[PackageReference, ...] | None = None

    @classmethod
    def of(cls, ops: OpRegistry) -> OpsReference:
        """Return the reference of a registry."""
        only = None if ops.only is None else tuple(map(PackageReference.of, ops.only))
        return cls(tuple(map(PackageReference.of, ops.added)), only)


def _dist(group: str, name: str) -> tuple[str, str]:
    found = next((p for p in list_plugins(group) if p.name == name), None)
    return ("", "") if found is None else (found.dist, found.version)
