"""Op packages that the command line names: objects of Python modules."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from dovetail.errors import PluginError
from dovetail.ops import OpPackage
from dovetail.runtime import Backend
from dovetail_tools._errors import usage

_LOG = logging.getLogger("dovetail.net-run")
_OPTION = "--op-packages"


def register_op_packages(backend: Backend, references: tuple[str, ...]) -> None:
    """Adds op packages to a backend.

    Args:
        backend: Gets them.
        references: `module.path:attribute`, or with `:target`, the backend that it is for; one
            for another backend is left out.

    Raises:
        ConfigError: A reference does not have this form, or names a compiled library.
        PluginError: A package cannot be loaded, or is none.
        BackendError: The backend runs its own ops only.
    """
    for reference in references:
        module, attribute, target = _parse(reference)
        if target and target.lower() != backend.name:
            _LOG.info("%s %s is left out: it is for %s", _OPTION, reference, target)
            continue
        backend.register_op_package(_load(module, attribute, reference))


def _parse(reference: str) -> tuple[str, str, str]:
    module, _, rest = reference.partition(":")
    attribute, _, target = rest.partition(":")
    if PurePath(module).suffix.lower() in (".so", ".dll"):
        raise usage(
            "a compiled op package of the vendor's SDK cannot be used here",
            where=f"{_OPTION} {reference}",
            hint="write the ops in Python (an OpPackage) and name it as module.path:attribute",
        )
    if not module or not attribute or ":" in target:
        raise usage(
            f"'{reference}' names no op package",
            where=_OPTION,
            hint="say module.path:attribute, or module.path:attribute:target",
        )
    return module, attribute, target


def _load(module: str, attribute: str, reference: str) -> OpPackage:
    where = f"{_OPTION} {reference}"
    try:
        with _working_folder():
            found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module may raise anything as it is imported
        raise PluginError(
            f"it cannot be loaded: {type(error).__name__}: {error}",
            where=where,
            hint=_hint(error, module, attribute),
        ) from error
    if not isinstance(found, OpPackage):
        raise PluginError(f"it is a {type(found).__name__}, not an OpPackage", where=where)
    return found


@contextmanager
def _working_folder() -> Iterator[None]:
    """Modules of the working folder can be imported; they shadow none that is installed."""
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _hint(error: Exception, module: str, attribute: str) -> str:
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return "the module must be installed, in the working folder, or in one of PYTHONPATH"
    if isinstance(error, AttributeError) and error.obj is sys.modules.get(module, error):
        return f"the module is there: name the OpPackage in it instead of '{attribute}'"
    return f"the module '{module}' was found, but fails as it is imported: correct it"
