"""Tables of op exporters: which function writes which op of a package as ONNX."""

from __future__ import annotations

from collections.abc import Callable

from dovetail import plugins
from dovetail.errors import PluginError
from dovetail_onnx.exporter._node import OpExporter
from dovetail_opset import PACKAGE

GROUP = "dovetail.op_exporters"
_FORMAT = "onnx"


class OpExporters:
    """The exporters of one package's ops, which an entry point of `dovetail.op_exporters` loads.

        MINE = OpExporters("com.example")

        @MINE.exports("Wobble")
        def wobble(e: NodeExport) -> None:
            depth = {"depth": e.op.depth}
            e.put(*e.add_custom("com.example", "Wobble", [e.input(0)], attributes=depth))

    The entry point's name is `onnx:` and the package.

    Args:
        package: Name of the op package.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._table: dict[str, OpExporter] = {}

    def exports(self, *op_types: str) -> Callable[[OpExporter], OpExporter]:
        """Register the decorated function for ops.

        Raises:
            PluginError: An op has a function already.
        """

        def register(function: OpExporter) -> OpExporter:
            for op_type in op_types:
                if self._table.setdefault(op_type, function) is not function:
                    raise PluginError(
                        f"two functions export '{op_type}'",
                        code="PLUGIN_CONFLICT",
                        where=f"{GROUP} '{_FORMAT}:{self.package}'",
                    )
            return function

        return register

    def find(self, op_type: str) -> OpExporter | None:
        """Return the function for an op, if there is one."""
        return self._table.get(op_type)

    @property
    def op_types(self) -> frozenset[str]:
        """All ops that can be exported."""
        return frozenset(self._table)


EXPORTERS = OpExporters(PACKAGE.name)
exports = EXPORTERS.exports


def op_exporters(package: str) -> OpExporters | None:
    """Return the exporters of a package's ops; None if none are installed.

    Raises:
        PluginError: They are broken.
    """
    if package == EXPORTERS.package:
        return EXPORTERS
    name = f"{_FORMAT}:{package}"
    if name not in plugins.names(GROUP):
        return None
    found = plugins.load(GROUP, name)
    if not isinstance(found, OpExporters):
        raise PluginError(
            f"expected an OpExporters, got {type(found).__name__}",
            code="PLUGIN_BROKEN",
            where=f"{GROUP} '{name}'",
        )
    return found


def exporters_hint(package: str) -> str:
    """Return the hint for a package whose ops cannot be exported."""
    return (
        f"install exporters for its ops (group {GROUP}, entry point '{_FORMAT}:{package}'; "
        "see docs/plugins.md)"
    )
