"""Importers of the ops of an op package, one to one.

Attributes become params of the same names, inputs and outputs stay in order. A dist that needs more
registers importers, which take precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail import plugins
from dovetail.errors import OpError, PluginError, suggest_name
from dovetail.ir import Array, DType, Param, Tensor
from dovetail.ops import OpPackage, OpRegistry, OpSchema, ParamField
from dovetail.plugins.ops import GROUP
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer, Importers


class PackageImporters(Importers):
    """Importers of all ops of one package, whatever version the model asks for.

    Functions that are registered, as with any `Importers`, win for their operators.

    Args:
        package: The op package.
        domain: Domain of the operators, if it is not the package's name.
    """

    def __init__(self, package: OpPackage, domain: str = "") -> None:
        super().__init__(domain or package.name)
        self._package = package

    def find(self, op_type: str, version: int) -> Importer | None:
        """Return the importer of an op; None if the package has no such op."""
        if self.versions(op_type):
            return super().find(op_type, version)
        schema = self._package.schemas.get(op_type)
        return (
            None if schema is None else lambda op: _import(op, self._package, schema, self.domain)
        )

    def missing(self, op_type: str) -> tuple[str, str]:
        """Return why an operator cannot be converted, and what to do."""
        near = suggest_name(op_type, self._package.schemas)
        return (
            f"op '{op_type}' not found in op package '{self._package.name}'",
            f"{near}; or {importer_hint(self.domain)}",
        )


def importer_hint(domain: str) -> str:
    """Return the hint for a domain whose operators are not simply ops of a package."""
    return (
        f"pass an op package with --op-packages or its definitions with --op-package-config, or "
        f"install an importer for the domain (group dovetail.importers, entry point "
        f"'onnx:{domain}'; see docs/plugins.md)"
    )


def package_importers(domain: str, ops: OpRegistry) -> Importers | str | None:
    """Return the default importers of a domain, or why they are not available.

    Args:
        domain: Domain of the operators.
        ops: Has the package.

    Returns:
        None if no op package of the domain's name is installed.
    """
    if domain not in plugins.names(GROUP):
        return None
    try:
        return PackageImporters(ops.package(domain))
    except PluginError as error:
        return f"the op package '{domain}' cannot be used: {error.message}"


def _import(op: OpContext, package: OpPackage, schema: OpSchema, domain: str) -> Sequence[Tensor]:
    inputs = [op.optional(i) for i in range(op.count)]
    faults = schema.arity_faults(len(inputs), len(op.node.outputs))
    values: dict[str, Any] = {}
    params: dict[str, Param] = {}
    for name, given in op.attr.plain().items():
        field = schema.params.get(name)
        if field is None:
            faults.append(f"unknown attribute '{name}'; {suggest_name(name, schema.params)}")
            continue
        try:
            values[name] = _value(field, given)
            params[name] = field.param_of(values[name], op.node.name)
        except (TypeError, ValueError, OverflowError) as error:
            faults.append(f"invalid attribute '{name}': {error}")
    if not faults:
        faults += schema.param_faults(params)
    if faults:
        why = f"the node does not match the op {schema.full_name}: {'; '.join(faults)}"
        raise op.unsupported(why, hint=f"correct the node, or {importer_hint(domain)}")
    min_outputs = sum(not port.variadic and not port.optional for port in schema.outputs)
    specs = [op.declared(i) if name else None for i, name in enumerate(op.node.outputs)]
    try:
        return op.emit_all(schema.name, inputs, package=package, min_outputs=min_outputs, **values)
    except OpError:
        if None in specs:
            raise
    # the op cannot infer it, but the model declares it
    return op.emit_all(
        schema.name, inputs, specs=specs, package=package, min_outputs=min_outputs, **values
    )


def _value(field: ParamField[Any], given: Any) -> Any:
    if field.choices is not None and isinstance(given, str):
        try:
            return field.choices[given]
        except KeyError:
            raise ValueError(f"'{given}': {suggest_name(given, _names(field))}") from None
    dtype = field.dtypes[0]
    if field.is_tensor:
        return _exact(given, dtype)
    if dtype is DType.BOOL_8 and given in (0, 1):
        return bool(given)  # ONNX has no attributes that are bools
    if dtype.is_float and isinstance(given, int):
        return float(given)
    return given


def _exact(given: Any, dtype: DType) -> Array:
    values = np.asarray(given)
    stored: Array = values.astype(dtype.storage)
    if not dtype.is_float and not np.array_equal(values, stored):
        raise ValueError(f"{given} does not fit {dtype.name}")
    return stored


def _names(field: ParamField[Any]) -> list[str]:
    return [choice.name for choice in field.choices or ()]
