"""The work of `dovetail context upgrade`."""

from __future__ import annotations

from pathlib import Path

from dovetail.api.preparation import Recorded
from dovetail.cli.context_report import verdict_data, verdict_text
from dovetail.cli.op_package_option import split_list
from dovetail.cli.output import current_output
from dovetail.container import ContextFile
from dovetail.runtime import backend_name
from dovetail.runtime.names import without_arch
from dovetail_tools._backend import new_preparer
from dovetail_tools._option_values import parse_platform_options


def upgrade_context(
    path: Path,
    output: Path,
    backend: str | None,
    config_file: Path | None,
    platform_options: str | None,
    op_packages: str | None,
) -> None:
    """Prepare the graphs of a context binary again, and write a new one.

    Args:
        path: The context binary.
        output: The new one.
        backend: Name of the backend; None for that of the binary, with its options and device.
        config_file: Config of the backend and its graphs, or None.
        platform_options: Options of the backend, as on the command line.
        op_packages: Op packages that are not installed, as on the command line.

    Raises:
        DovetailError: The binary is damaged or has no models, or a graph cannot be prepared; no
            file is changed.
    """
    file = ContextFile.open(path)
    name = backend_name(file.manifest.backend if backend is None else backend)
    is_same = without_arch(name) == file.manifest.backend
    # another architecture after the backend's name contradicts the device
    device = file.manifest.device if name == file.manifest.backend else {}
    recorded = Recorded(file.manifest.options, device)
    preparer, _ = new_preparer(
        name,
        config_file,
        parse_platform_options(platform_options) or {},
        split_list(op_packages, "--op-packages"),
        recorded if is_same else None,
    )
    with preparer.backend:
        found = preparer.compatibility(file)
        preparer.upgrade(file).save(output)
    nbytes = output.stat().st_size
    text = f"{path}\n{verdict_text(found, name)}\n\n{output}: {nbytes:,} bytes, prepared again"
    data = {"file": str(path), **verdict_data(found, name), "output": str(output), "bytes": nbytes}
    current_output().data(data, text)
