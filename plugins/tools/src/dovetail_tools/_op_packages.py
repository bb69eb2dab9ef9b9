"""Op packages that the command line names: objects of Python modules, by name or by path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import ModuleType

from dovetail.errors import PluginError, suggest_name
from dovetail.ops import OpPackage
from dovetail_tools._errors import usage

_LOG = logging.getLogger("dovetail.tools")
_OPTION = "--op-packages"
_COMPILED = (".so", ".dll", ".dylib")


@dataclass(frozen=True, slots=True)
class Reference:
    """An op package as the command line names it.

    Attributes:
        text: As given.
        module: A module's name, or the path of a Python file or package folder.
        attribute: Of the module; empty for the only OpPackage that it has.
        target: The backend that it is for; empty for all.
    """

    text: str
    module: str
    attribute: str = ""
    target: str = ""

    @property
    def where(self) -> str:
        """The reference in the user's terms."""
        return f"{_OPTION} {self.text}"


def load_op_packages(texts: tuple[str, ...], backend: str | None = None) -> list[OpPackage]:
    """Return op packages that are not installed.

    Args:
        texts: `module[:attribute[:target]]`, or a path instead of the module's name.
        backend: Those for another one are left out; None keeps all.

    Raises:
        ConfigError: A reference does not have this form, or names a compiled library.
        PluginError: A package cannot be loaded, or is none.
    """
    found = []
    for reference in [_parse(text) for text in texts]:
        if backend and reference.target and reference.target.lower() != backend:
            _LOG.info("%s is left out: it is for %s", reference.where, reference.target)
        else:
            found.append(_package(reference))
    return found


def _parse(text: str) -> Reference:
    module, *rest = text.split(":")
    if PurePath(module).suffix.lower() in _COMPILED:
        raise usage(
            "a compiled op package of the vendor's SDK cannot be used here",
            where=f"{_OPTION} {text}",
            hint="write the ops in Python (`dovetail op-package-generator` begins it) and name the "
            "module, as module.path:attribute",
        )
    if not module or len(rest) > 2 or (rest and not rest[0]):
        raise usage(
            f"'{text}' names no op package",
            where=_OPTION,
            hint="say module.path:attribute or path/to/module.py:attribute, maybe with :target",
        )
    return Reference(text, module, *rest)


def _package(reference: Reference) -> OpPackage:
    module = _module(reference)
    packages = {n: v for n, v in vars(module).items() if isinstance(v, OpPackage)}
    if not reference.attribute:
        if len(set(map(id, packages.values()))) == 1:
            return next(iter(packages.values()))
        named = f"it has several: {', '.join(packages)}" if packages else "it has no OpPackage"
        raise PluginError(named, where=reference.where, hint="say module.path:attribute")
    try:
        found = getattr(module, reference.attribute)
    except AttributeError as error:
        raise PluginError(
            f"it cannot be loaded: AttributeError: {error}",
            where=reference.where,
            hint=f"the module is there; {suggest_name(reference.attribute, packages)}",
        ) from error
    if not isinstance(found, OpPackage):
        kind = type(found).__name__
        raise PluginError(f"it is a {kind}, not an OpPackage", where=reference.where)
    return found


def _module(reference: Reference) -> ModuleType:
    try:
        if _is_path(reference.module):
            return _module_at(Path(reference.module))
        with _importable_from(Path.cwd()):
            return importlib.import_module(reference.module)
    except Exception as error:  # a module may raise anything as it is imported
        raise PluginError(
            f"it cannot be loaded: {type(error).__name__}: {error}",
            where=reference.where,
            hint=_hint(error, reference.module),
        ) from error


def _is_path(text: str) -> bool:
    return text.endswith(".py") or "/" in text or "\\" in text


def _module_at(path: Path) -> ModuleType:
    """Import a Python file, or a folder with an `__init__.py`; once for each place.

    Modules beside it can be imported by it, as when it is run.
    """
    file = (path / "__init__.py" if path.is_dir() else path).resolve(strict=True)
    is_package = path.is_dir()
    # a name of its own, so that it hides nothing that is installed
    place = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    name = f"_dovetail_op_package_{place}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(file.parent)] if is_package else None
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
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
    """Modules of a folder can be imported; they shadow none that is installed."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _hint(error: Exception, module: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file; give the path of a Python file or of a package's folder"
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return "the module must be installed, in the working folder, or in one of PYTHONPATH"
    return f"'{module}' was found, but fails as it is imported: correct it"
