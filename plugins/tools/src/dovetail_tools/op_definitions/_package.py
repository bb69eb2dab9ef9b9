"""Op packages from op definitions: ops with a schema and a shape rule, but without code."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any, ClassVar, cast

from dovetail.errors import OpError, UnsupportedOpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import REQUIRED, In, Op, OpPackage, Out, ParamField, Port
from dovetail.ops.op import Arrays
from dovetail_tools.op_definitions._model import (
    Definitions,
    OpDefinition,
    Parameter,
    ShapeRule,
    Tensor,
)
from dovetail_tools.op_definitions._values import default_value


class DefinedOp(Op):
    """An op of a definition, with its schema and the shapes that the definition states."""

    definition: ClassVar[OpDefinition]

    def infer(self, ins: Sequence[Spec | None], outs: Sequence[Spec | None]) -> list[Spec]:
        """Return the output specs: those of the definition, else those that the graph declares.

        Raises:
            OpError: A rank differs from the definition, or the spec of an output is unknown.
        """
        inputs, outputs = self.definition.inputs, self.definition.outputs
        names: dict[str, int] = {}
        for tensor, spec in zip(_repeated(inputs, len(ins)), ins, strict=False):
            if spec is not None:
                _need_rank(tensor, spec)
                if tensor.is_mandatory and tensor.shape is not None and tensor.shape.dims:
                    tensor.shape.dims.learn(spec.shape, names)
        if inputs and inputs[-1].is_repeated and inputs[-1].is_mandatory and len(ins) < len(inputs):
            raise OpError(
                f"missing input '{inputs[-1].name}'; its definition requires at least one"
            )
        sure = self._count_of_sure()
        found = []
        for i, (tensor, spec) in enumerate(zip(_repeated(outputs, len(outs)), outs, strict=False)):
            if spec is None and i >= sure and not tensor.is_repeated:
                break  # it is missing, and so are all after it
            found.append(_output(tensor, spec, ins, names))
        return found + [_output(tensor, None, ins, names) for tensor in outputs[len(found) : sure]]

    def _count_of_sure(self) -> int:
        """Return the number of outputs up to the last one that the definition determines."""
        inputs = (t.shape for t in self.definition.inputs if t.is_mandatory)
        names = {name for rule in inputs if rule and rule.dims for name in rule.dims.names}
        outputs = self.definition.outputs
        for count in range(len(outputs), 0, -1):
            rule = outputs[count - 1].shape
            if outputs[count - 1].is_mandatory or _says(rule, names):
                return count
        return 0

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> list[Array]:
        """Raise: a definition has no code.

        Raises:
            UnsupportedOpError: Always.
        """
        raise UnsupportedOpError(
            f"op '{self.definition.name}' is defined, but has no code",
            hint="write it: `dovetail op-package-generator --config-path XML` writes the package",
        )


def make_package(definitions: Definitions) -> OpPackage:
    """Return an op package for definitions."""
    package = OpPackage(definitions.package, definitions.version)
    for definition in definitions.ops:
        members: dict[str, Any] = {
            "__doc__": definition.description or definition.name,
            "__module__": __name__,
            "definition": definition,
            "source": f"{definitions.file}:{definition.line}",
            "inputs": tuple(port(In, t) for t in definition.inputs),
            "outputs": tuple(port(Out, t) for t in definition.outputs),
        }
        members |= {p.name: param_field(p) for p in definition.params}
        package.op(definition.name)(type(definition.name, (DefinedOp,), members))
    return package


def port(kind: type[Port], tensor: Tensor) -> Port:
    """Return the port for an input or output of a definition."""
    return kind(
        tensor.name,
        dtypes=tensor.all_dtypes,
        optional=not tensor.is_mandatory,
        variadic=tensor.is_repeated,
    )


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


def _repeated(tensors: Sequence[Tensor], count: int) -> Iterator[Tensor]:
    """Return a definition for each of some tensors, repeating the last one if repeatable."""
    yield from tensors
    if tensors and tensors[-1].is_repeated:
        for _ in range(len(tensors), count):
            yield tensors[-1]


def _need_rank(tensor: Tensor, spec: Spec) -> None:
    rank = None if tensor.shape is None else tensor.shape.rank
    if rank is not None and len(spec.shape) != rank:
        raise OpError(
            f"'{tensor.name}' has the shape {spec.shape}; its definition requires {rank}D"
        )


def _output(
    tensor: Tensor, declared: Spec | None, ins: Sequence[Spec | None], names: dict[str, int]
) -> Spec:
    shape = _said(tensor.shape, names)
    if declared is not None:
        if shape is None:
            _need_rank(tensor, declared)
        if tensor.all_dtypes and declared.dtype not in tensor.all_dtypes:
            raise OpError(f"'{tensor.name}' is {declared.dtype.name}; {_allowed(tensor)}")
        return declared if shape is None else replace(declared, shape=shape)
    if shape is None:
        raise OpError(
            f"unknown shape of output '{tensor.name}'",
            hint="state it in the model (value_info), or in the definition as a list of names of "
            "the inputs' dimensions: <Text>[batch, 2 * height, width, channel]</Text>",
        )
    return Spec(_dtype(tensor, ins), shape)


def _says(rule: ShapeRule | None, names: Set[str]) -> bool:
    """Return whether a rule determines a shape, given known names."""
    if rule is None or rule.dims is None:
        return rule is not None and rule.rank == 0
    return rule.dims.wanted <= names


def _said(rule: ShapeRule | None, names: dict[str, int]) -> tuple[int, ...] | None:
    if rule is None or rule.dims is None:
        return () if rule is not None and rule.rank == 0 else None
    return rule.dims.shape(names)


def _dtype(tensor: Tensor, ins: Sequence[Spec | None]) -> DType:
    """Return the first input's type if it is allowed, else the first allowed type."""
    first = next((s.dtype for s in ins if s is not None), DType.FLOAT_32)
    allowed = tensor.all_dtypes
    return first if not allowed or first in allowed else allowed[0]


def _allowed(tensor: Tensor) -> str:
    return f"the definition allows {', '.join(d.name for d in tensor.all_dtypes)}"
