"""Op packages from op definitions: ops with a schema and a shape rule, but without code."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, cast

from dovetail.errors import UnsupportedOpError
from dovetail.ir import Array, Spec
from dovetail.ops import REQUIRED, Arrays, DefinedOp, In, OpPackage, Out, ParamField, Port
from dovetail_tools.op_definitions._model import Definitions, Parameter, Tensor
from dovetail_tools.op_definitions._values import default_value


class UncodedOp(DefinedOp):
    """An op of a definition, without code."""

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> list[Array]:
        """Raise: a definition has no code.

        Raises:
            UnsupportedOpError: Always.
        """
        raise UnsupportedOpError(
            f"op '{type(self).__name__}' is defined, but has no code",
            hint="write it: `dovetail op-package-generator --config-path XML` writes the package",
        )


def make_package(definitions: Definitions) -> OpPackage:
    """Return an op package for definitions."""
    package = OpPackage(definitions.package, definitions.version)
    for definition in definitions.ops:
        members: dict[str, Any] = {
            "__doc__": definition.description or definition.name,
            "__module__": __name__,
            "source": f"{definitions.file}:{definition.line}",
            "inputs": tuple(port(In, t) for t in definition.inputs),
            "outputs": tuple(port(Out, t) for t in definition.outputs),
        }
        members |= {p.name: param_field(p) for p in definition.params}
        package.op(definition.name)(type(definition.name, (UncodedOp,), members))
    return package


def port(kind: type[Port], tensor: Tensor) -> Port:
    """Return the port for an input or output of a definition."""
    return kind(
        tensor.name,
        dtypes=tensor.all_dtypes,
        optional=not tensor.is_mandatory,
        variadic=tensor.is_repeated,
        shape=shape_of(tensor),
    )


def shape_of(tensor: Tensor) -> str:
    """Return the shape of a definition as that of a port; prose states only the rank."""
    rule = tensor.shape
    if rule is None:
        return ""
    if rule.dims is not None:
        return str(rule.dims)
    return "" if rule.rank is None else f"{rule.rank}D" if rule.rank else "[]"


def param_field(param: Parameter) -> ParamField[Any]:
    """Return the param for one of a definition."""
    default: Any = REQUIRED if param.is_mandatory and not param.default else None
    if param.default:
        default = default_value(param)
        if not param.is_scalar:
            default = default.astype(param.all_dtypes[0].storage)
    rank = None if param.shape is None else param.shape.rank
    return ParamField(
        param.all_dtypes,
        default,
        is_tensor=not param.is_scalar,
        shape=None if param.is_scalar or rank is None else (None,) * rank,
        choices=choices_of(param),
    )


def choices_of(param: Parameter) -> type[enum.IntEnum] | None:
    """Return the enumeration of a param, numbered from 0; None if it has none."""
    if not param.choices:
        return None
    return cast("type[enum.IntEnum]", enum.IntEnum(param.name, param.choices, start=0))
