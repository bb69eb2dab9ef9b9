"""Requirements on the ops of every package: definitions, cases, quantized runs, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, DType, Node, Param, Scalar, Tensor
from dovetail.ops import (
    Arrays,
    Op,
    OpPackage,
    OpRegistry,
    OpSchema,
    bind_node,
    input_specs,
    node_faults,
    simulate,
)
from dovetail.testing.binding import BoundCase, bind
from dovetail.testing.case import OpCase, typed
from dovetail.testing.comparison import difference
from dovetail.testing.outcome import Failure, Outcome, Unsupported, demand, outcome_of


@dataclass(frozen=True, slots=True)
class OpSubject:
    """An op of a package with its cases."""

    package: OpPackage
    schema: OpSchema
    cases: tuple[OpCase, ...]

    @property
    def ops(self) -> OpRegistry:
        """A registry of the op's package alone."""
        return OpRegistry.of(self.package)


Aspect = Callable[[OpSubject], None]


def subjects(package: OpPackage, cases: Sequence[OpCase]) -> tuple[OpSubject, ...]:
    """Return the ops of a package, each with its cases."""
    return tuple(
        OpSubject(package, schema, tuple(c for c in cases if c.op_name == schema.full_name))
        for schema in package.schemas.values()
    )


def run_aspect(subject: OpSubject, aspect: Aspect) -> Outcome:
    """Check an aspect of an op."""
    return outcome_of(lambda: aspect(subject))


def definition(subject: OpSubject) -> None:
    """Check that the op has its own docstring and source, and at least one case."""
    op = subject.schema.op
    demand((op.__dict__.get("__doc__") or "").strip(), "the op has no docstring")
    demand(op.source, "the op has no `source`")
    demand(subject.cases, "the op has no case")
    names = [case.id for case in subject.cases]
    demand(len(set(names)) == len(names), f"duplicate case names: {sorted(names)}")


def reference(subject: OpSubject) -> None:
    """Check that `infer` and `reference` return what each case expects, and do not write inputs."""
    for case in subject.cases:
        bound = bind(case)
        _demand_answer(subject, bound, f"case {case.id}")


def quantized(subject: OpSubject) -> None:
    """Check that `simulate` runs the op on quantized tensors, as precisely as these allow."""
    narrow = quantized_cases(subject, DType.UFIXED_POINT_8, DType.SFIXED_POINT_16)
    if not narrow:
        raise Unsupported(
            "no case has float inputs and outputs, or the op does not support fixed point"
        )
    for case in narrow:
        _demand_answer(subject, bind(case), f"case {case.id}")


def quantized_cases(subject: OpSubject, *dtypes: DType) -> tuple[OpCase, ...]:
    """Return the cases of an op with float inputs and outputs, stored as fixed-point types.

    Args:
        subject: The op; there are no cases of types that it does not support.
        dtypes: The types.
    """
    found = []
    for case in subject.cases:
        if callable(case.expected) and not (case.outputs or case.dtype or case.later_calls):
            for narrow in typed(case, *dtypes):
                bound = bind(narrow)
                changed = any(a.dtype.is_fixed_point for a in bound.expected)
                if changed and not node_faults(bound.node(subject.schema), subject.ops):
                    found.append(narrow)
    return tuple(found)


def errors(subject: OpSubject) -> None:
    """Check that inconsistent inputs and params raise an OpError and no other exception."""
    for case in subject.cases:
        for what, node in _variants(bind(case).node(subject.schema)):
            try:
                faults = node_faults(node, subject.ops)
            except Exception as error:  # noqa: BLE001 - the accident that this looks for
                text = f"{type(error).__name__}: {error}"
                demand(False, f"case {case.id} with {what}: `infer` raised {text}")
            else:
                demand(all(f.message for f in faults), f"the error for {what} has no message")


ASPECTS: tuple[Aspect, ...] = (definition, reference, quantized, errors)


def _demand_answer(subject: OpSubject, bound: BoundCase, where: str) -> None:
    schema, node = subject.schema, bound.node(subject.schema)
    faults = node_faults(node, subject.ops)
    demand(not faults, f"{where}: rejected: {'; '.join(str(f) for f in faults)}")
    op = bind_node(schema, node)  # the same op for all calls, since it may have state
    for count, call in enumerate((bound, *bound.later_calls), 1):
        place = f"{where}, call {count}" if bound.later_calls else where
        given = [None if x is None else _frozen(x.values) for x in call.inputs]
        found = _simulated(schema, op, node, given, place)
        for i, expected in enumerate(call.expected):
            text = difference(found[i], expected, bound.case)
            demand(not text, f"{place}: out[{i}]: {text}")


def _simulated(
    schema: OpSchema, op: Op, node: Node, given: Arrays, where: str
) -> tuple[Array, ...]:
    """Run a reference; report its two most frequent faults as failures."""
    try:
        return simulate(schema, op, given, input_specs(node), [t.spec for t in node.outputs])
    except AssertionError as error:  # raised by `simulate` if shapes differ
        raise Failure(f"{where}: {error}") from error
    except ValueError as error:
        demand("read-only" not in str(error), f"{where}: the reference writes its inputs: {error}")
        raise


def _frozen(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _variants(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield copies of a valid node with one change each; some of them are valid too."""
    for i, tensor in enumerate(node.inputs):
        if tensor is None:
            continue
        shape = tensor.shape
        for other in {(), (*shape, 2), (2, *shape), shape[1:], *_bent(shape)} - {shape}:
            inputs = list(node.inputs)
            inputs[i] = Tensor(tensor.name, tensor.dtype, other, encoding=None)
            yield f"in[{i}] of shape {other}", _like(node, inputs=inputs)
        for dtype in (DType.BOOL_8, DType.STRING, DType.INT_32, DType.FLOAT_16):
            inputs = list(node.inputs)
            inputs[i] = Tensor(tensor.name, dtype, shape)
            yield f"in[{i}] of type {dtype.name}", _like(node, inputs=inputs)
        yield f"in[{i}] omitted", _like(node, inputs=_without(node, i))
    for i, tensor in enumerate(node.outputs):
        for other in ((), (*tensor.shape, 2)):
            outputs = list(node.outputs)
            outputs[i] = Tensor(tensor.name, tensor.dtype, other)
            yield f"out[{i}] of shape {other}", _like(node, outputs=outputs)
    for name, param in node.params.items():
        for text, changed in _bent_params(param):
            yield f"param {name} {text}", _like(node, params={**node.params, name: changed})
        left = {n: p for n, p in node.params.items() if n != name}
        yield f"param {name} omitted", _like(node, params=left)


def _bent(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield shapes that differ in the size of one axis, or in rank."""
    for axis, size in enumerate(shape):
        for other in (size + 1, 0):
            yield (*shape[:axis], other, *shape[axis + 1 :])


def _bent_params(param: Param) -> Iterator[tuple[str, Param]]:
    if isinstance(param, Scalar):
        if param.dtype.is_int:
            yield from ((f"= {n}", replace(param, value=n)) for n in (0, 1, 1000))
        return
    values = param.values()
    zeros = np.zeros_like(values)
    for text, changed in (
        ("all zero", zeros),
        ("all large", zeros + values.dtype.type(100)),
        ("empty", values[:0] if values.ndim else values),
        ("repeated", np.concatenate([values, values]) if values.ndim else values),
    ):
        yield text, Tensor.static(param.name, changed, param.dtype)


def _without(node: Node, i: int) -> list[Tensor | None]:
    return [None if k == i else t for k, t in enumerate(node.inputs)]


def _like(
    node: Node,
    *,
    inputs: Sequence[Tensor | None] | None = None,
    outputs: Sequence[Tensor] | None = None,
    params: dict[str, Param] | None = None,
) -> Node:
    return Node(
        node.name,
        node.package,
        node.op_type,
        node.inputs if inputs is None else inputs,
        node.outputs if outputs is None else outputs,
        node.params if params is None else params,
    )
