"""The backend of a command that prepares graphs, and the level of its profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.api.preparation import Preparer, Recorded
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.errors import BackendError
from dovetail.ops import OpRegistry
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import Backend, ProfileLevel, backend_name
from dovetail.runtime.names import members_of
from dovetail_tools._net_run.request import Profiling


def new_preparer(
    backend: str,
    config_file: Path | None,
    options: Mapping[str, Any],
    op_packages: Sequence[str],
    recorded: Recorded | None = None,
) -> tuple[Preparer, OpRegistry]:
    """Return a backend with its config, and the ops.

    Args:
        backend: Name of the backend, or the SDK's library for it.
        config_file: Config of the backend and its graphs, or None.
        options: Options of the backend, which replace those of the config.
        op_packages: Op packages that are not installed, as the command line names them.
        recorded: Options and device of a context binary's preparation, see `Preparer`.

    Raises:
        DovetailError: The config is wrong, an op package cannot be loaded, or the backend cannot
            be created.
    """
    name = backend_name(backend)
    packages = load_op_packages(op_packages, members_of(name))
    ops = installed_ops()
    add_op_packages(ops, packages)
    preparer = Preparer(name, config_file, options, ops, packages, recorded)
    return preparer, ops


def profile_level(backend: Backend, profiling: Profiling | None) -> int:
    """Return the level of profiles; basic without profiling.

    Raises:
        BackendError: The backend does not have the level.
    """
    if profiling is Profiling.DETAILED:
        backend.require("watch", "PROFILE_ERROR_UNSUPPORTED")
        return ProfileLevel.DETAILED
    if profiling is not Profiling.BACKEND:
        return ProfileLevel.BASIC
    if not backend.capabilities.profile_levels:
        raise BackendError(
            f"backend '{backend.name}' has no profiling level of its own",
            code="PROFILE_ERROR_UNSUPPORTED",
            where="--profiling-level backend",
            hint="use basic or detailed",
        )
    return backend.capabilities.profile_levels[0]
