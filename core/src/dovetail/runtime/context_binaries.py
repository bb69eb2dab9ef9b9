"""Context binaries and sections that applications pass: opening them, and what they suit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dovetail.container import ContextFile
from dovetail.errors import BackendError, Problem, suggest_name
from dovetail.ir import Array
from dovetail.runtime.compatibility import Compatibility, judge
from dovetail.runtime.config import ContextConfig, DeviceConfig
from dovetail.runtime.plugin_errors import translate_errors

if TYPE_CHECKING:  # backends read binaries
    from dovetail.runtime.backend import Backend
    from dovetail.runtime.device import Device

# Bytes, an array of them, or the path of a file that has them.
Binary = bytes | bytearray | memoryview | Array | str | os.PathLike[str]


def open_binary(binary: Binary, *, is_persistent: bool, section: bool = False) -> ContextFile:
    """Open a binary or section.

    Args:
        binary: Its bytes, or its path.
        is_persistent: Whether the bytes stay unchanged as long as the context lives; otherwise they
            are copied, unless they cannot change.
        section: Whether it is a section.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It is of another kind, has a newer format, or its manifest is damaged.
        BackendError: The bytes are not contiguous.
    """
    if isinstance(binary, str | os.PathLike):
        return ContextFile.open(Path(binary), section=section)
    what = "section" if section else "context binary"
    try:
        array = np.frombuffer(binary, np.uint8)
    except (ValueError, BufferError) as error:
        raise BackendError(
            f"the bytes of the {what} cannot be used: {error}",
            code="CONTEXT_ERROR_INVALID_ARGUMENT",
            hint="pass contiguous bytes",
        ) from error
    if not is_persistent and not _is_immutable(binary):
        array = array.copy()
    return ContextFile.of(array, what, section=section)


def _is_immutable(binary: object) -> bool:
    """Return whether bytes can never change, whoever else has them."""
    while isinstance(binary, np.ndarray | memoryview):
        binary = binary.base if isinstance(binary, np.ndarray) else binary.obj
    return isinstance(binary, bytes)


def enabled_graphs(file: ContextFile, config: ContextConfig) -> list[str]:
    """Return the names of the graphs of a binary that a config enables, in its order.

    Raises:
        BackendError: The binary does not have some of them; all are listed.
    """
    wanted = config.enable_graphs or list(file.graphs)
    if unknown := [name for name in wanted if name not in file.graphs]:
        raise BackendError(
            "graphs to enable are not in the context binary",
            code="CONTEXT_ERROR_INVALID_CONFIG",
            where=file.where,
            problems=[
                Problem(f"graph '{name}' not found", hint=suggest_name(name, file.graphs))
                for name in unknown
            ],
        )
    return list(dict.fromkeys(wanted))


def compatibility_of(file: ContextFile, backend: Backend, device: Device) -> Compatibility:
    """Return the verdict on a binary; only its manifest is read.

    Raises:
        BackendError: The backend cannot state what its graphs depend on.
    """
    return judge(file.manifest.fingerprint, facts_of(backend, device.config))


def facts_of(backend: Backend, device: DeviceConfig) -> Mapping[str, str]:
    """Return all that graphs prepared by a backend depend on besides their models.

    Raises:
        BackendError: The backend cannot state it.
    """
    with translate_errors(backend.name, "`fingerprint` failed", "CONTEXT_ERROR_CREATE_FROM_BINARY"):
        return backend.plugin.fingerprint(device).facts
