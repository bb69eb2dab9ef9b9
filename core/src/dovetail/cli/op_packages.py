"""The option `--op-packages`: op packages of Python modules that are not installed."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import ModuleType

from dovetail.cli.output import current_output
from dovetail.errors import ConfigError, PluginError, suggest_name
from dovetail.ops import OpPackage, OpRegistry
from dovetail.plugins import list_plugins
from dovetail.plugins.ops import GROUP, is_replaced

_LOG = logging.getLogger("dovetail.op-packages")
_OPTION = "--op-packages"
_COMPILED = (".so", ".dll", ".dylib")


@dataclass(frozen=True, slots=True)
class Reference:
    """An op package as the command line names it.

    Attributes:
        text: The reference as given.
        module: Name of a module, or path of a Python file or package folder.
        attribute: Attribute of the module; empty for its only OpPackage.
        target: Backend that the package is for; empty for all.
    """

    text: str
    module: str
    attribute: str = ""
    target: str = ""

    @property
    def where(self) -> str:
        """The reference in the user's terms."""
        return f"{_OPTION} {self.text}"


def add_op_packages(ops: OpRegistry, packages: Iterable[OpPackage]) -> None:
    """Add op packages that the command line names; they replace installed ones, with a note.

    Raises:
        PluginError: Two of the packages have one name.
    """
    dists = {p.name: f"dist {p.dist} {p.version}" for p in list_plugins(GROUP)}
    for package in packages:
        ops.add(package, replace=True)
        if is_replaced(package.name, ops):
            current_output().message(
                f"note: op package '{package.name}' of the command line replaces the installed one "
                f"({dists[package.name]}) and its kernels"
            )


def load_op_packages(
    texts: Iterable[str], backends: Collection[str] | None = None
) -> list[OpPackage]:
    """Return op packages that are not installed.

    Args:
        texts: `module[:attribute[:target]]`, or a path instead of the module's name.
        backends: Packages for other backends are left out; None includes all.

    Raises:
        ConfigError: A reference does not have this form, or names a compiled library.
        PluginError: A module cannot be imported, or has no such op package.
    """
    found = []
    for reference in [_parse(text) for text in texts]:
        target = reference.target.lower()
        if backends is not None and target and target not in backends:
            _LOG.info("%s is ignored: it is for %s", reference.where, reference.target)
        else:
            found.append(_package(reference))
    return found


def absolute_reference(text: str) -> str:
    """Return a reference with an absolute path, if it has one, to be used from other folders."""
    module, *rest = text.split(":")
    return ":".join((str(Path(module).absolute()) if _is_path(module) else module, *rest))


def _parse(text: str) -> Reference:
    module, *rest = text.split(":")
    if PurePath(module).suffix.lower() in _COMPILED:
        raise ConfigError(
            "a compiled op package of the vendor's SDK cannot be used here",
            code="USAGE",
            where=f"{_OPTION} {text}",
            hint="write the ops in Python (`dovetail op-package-generator` creates a template) and "
            "pass the module, as module.path:attribute",
        )
    if not module or len(rest) > 2 or (rest and not rest[0]):
        raise ConfigError(
            f"invalid reference '{text}'",
            code="USAGE",
            where=_OPTION,
            hint="expected module.path:attribute or path/to/module.py:attribute, optionally "
            "followed by :target",
        )
    return Reference(text, module, *rest)


def _package(reference: Reference) -> OpPackage:
    module = _module(reference)
    packages = {n: v for n, v in vars(module).items() if isinstance(v, OpPackage)}
    if not reference.attribute:
        if len(set(map(id, packages.values()))) == 1:
            return next(iter(packages.values()))
        several = f"the module has several op packages: {', '.join(packages)}"
        raise PluginError(
            several if packages else "the module has no OpPackage",
            where=reference.where,
            hint="pass module.path:attribute",
        )
    try:
        found = getattr(module, reference.attribute)
    except AttributeError as error:
        raise PluginError(
            f"cannot be loaded: AttributeError: {error}",
            where=reference.where,
            hint=f"the module was imported; {suggest_name(reference.attribute, packages)}",
        ) from error
    if not isinstance(found, OpPackage):
        kind = type(found).__name__
        raise PluginError(f"expected an OpPackage, got a {kind}", where=reference.where)
    return found


def _module(reference: Reference) -> ModuleType:
    try:
        if _is_path(reference.module):
            return _module_at(Path(reference.module))
        with _importable_from(Path.cwd()):
            return importlib.import_module(reference.module)
    except Exception as error:  # a module may raise anything as it is imported
        raise PluginError(
            f"cannot be loaded: {type(error).__name__}: {error}",
            where=reference.where,
            hint=_hint(error, reference.module),
        ) from error


def _is_path(text: str) -> bool:
    return text.endswith(".py") or "/" in text or "\\" in text


def _module_at(path: Path) -> ModuleType:
    """Import a Python file, or a folder with an `__init__.py`, once per path.

    Like a script, it can import the other modules of its folder.
    """
    file = (path / "__init__.py" if path.is_dir() else path).resolve(strict=True)
    is_package = path.is_dir()
    # a unique name, which shadows nothing that is installed
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    name = f"_dovetail_op_package_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(file.parent)] if is_package else None
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importable_from(file.parents[1] if is_package else file.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable_from(folder: Path) -> Iterator[None]:
    """Allow imports from a folder; its modules do not shadow installed ones."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _hint(error: Exception, module: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "pass the path of a Python file or of a package's folder"
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return "the module must be installed, in the working folder or on PYTHONPATH"
    return f"'{module}' was found, but its import fails: correct the module"
