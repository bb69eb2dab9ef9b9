"""Op packages that the command line names: objects of Python modules."""

from __future__ import annotations

import importlib
import logging
from pathlib import PurePath

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
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module may raise anything as it is imported
        raise PluginError(
            f"it cannot be loaded: {type(error).__name__}: {error}",
            where=where,
            hint="the module must be importable: installed, or in a folder of PYTHONPATH",
        ) from error
    if not isinstance(found, OpPackage):
        raise PluginError(f"it is a {type(found).__name__}, not an OpPackage", where=where)
    return found
