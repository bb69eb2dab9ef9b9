"""Lookup of the importer of an operator.

In this order:

1. the op packages that the user passed for this model, by the operator's name alone;
2. the importers of its domain: ONNX's own two, ONNX Runtime's and those of fake quantization, or
   those of the entry point `onnx:DOMAIN`, which may also add operators to all but ONNX's first;
3. the installed op package that has the domain's name.
"""

from __future__ import annotations

from dovetail import plugins
from dovetail.errors import PluginError
from dovetail.ops import OpPackage, OpRegistry
from dovetail_onnx._packages import PackageImporters, package_importers
from dovetail_onnx._registry import GROUP, Importers
from dovetail_onnx.operators import ATEN, BREVITAS, CLASSICAL, MICROSOFT, ONNX, OPENVINO, QONNX

_TABLES = (ONNX, CLASSICAL, MICROSOFT, ATEN, OPENVINO, QONNX, BREVITAS)
_OWN = {table.domain: table for table in _TABLES}


class Tables:
    """The tables of importers for one model.

    Args:
        ops: The op packages.
    """

    def __init__(self, ops: OpRegistry) -> None:
        self._ops = ops
        self._by_domain: dict[str, Importers | str] = {}
        self._by_package = {p.name: PackageImporters(p) for p in ops.added}

    def of(self, domain: str, op_type: str) -> Importers | str:
        """Return the table that an operator is looked up in, or why there is none."""
        brought = [p for p in self._ops.added if op_type in p.schemas]
        if len(brought) > 1:
            return _twice(op_type, brought)
        if brought:
            return self._by_package[brought[0].name]
        own = _OWN.get(domain)
        if own is not None and (domain == "" or own.versions(op_type)):
            return own
        if domain not in self._by_domain:
            self._by_domain[domain] = self._load(domain)
        return self._by_domain[domain]

    def _load(self, domain: str) -> Importers | str:
        name = f"onnx:{domain}"
        try:
            table = plugins.load(GROUP, name)
        except PluginError as error:
            if error.code == "PLUGIN_MISSING":
                found = package_importers(domain, self._ops) or _OWN.get(domain)
                if found is not None:
                    return found
                return f"no importers of the domain '{domain}' are installed (plugin '{name}')"
            return f"the importers of the domain '{domain}' cannot be used: {error.message}"
        if not isinstance(table, Importers):
            return f"the plugin '{name}' loads a {type(table).__name__}, which is not an Importers"
        return table


def _twice(op_type: str, packages: list[OpPackage]) -> str:
    names = " and ".join(f"'{p.name}'" for p in packages)
    return f"the op packages {names} both have an op '{op_type}': pass only one of them"
