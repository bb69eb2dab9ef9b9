"""A case with concrete types: stored inputs, declared outputs and stored expected outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from dovetail.errors import counted
from dovetail.ir import Array, DType, Graph, Node, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, OpSchema, from_real, to_real
from dovetail.testing.case import Encoded, OpCase


class BoundCase(msgspec.Struct, frozen=True):
    """A case with concrete types.

    Attributes:
        case: The case.
        inputs: Stored inputs; None for omitted ones.
        expected: Stored expected outputs.
        later_calls: Later calls of the same node.
    """

    case: OpCase
    inputs: tuple[Encoded | None, ...]
    expected: tuple[Encoded, ...]
    later_calls: tuple[BoundCase, ...] = ()

    def node(self, schema: OpSchema, name: str = "node") -> Node:
        """Return a node with new tensors, which is not in a graph yet."""
        case = self.case
        inputs = [
            None if given is None else self._input(i, given) for i, given in enumerate(self.inputs)
        ]
        outputs = [
            Tensor(f"y{i}", a.dtype, a.spec.shape, TensorKind.APP_READ, encoding=a.encoding)
            for i, a in enumerate(self.expected)
        ]
        params = {
            key: schema.params[key].param_of(value, name)
            for key, value in case.params.items()
            if value is not None
        }
        return Node(name, case.package, case.op_type, inputs, outputs, params)

    def graph(self, schema: OpSchema, name: str = "case") -> Graph:
        """Return a graph of this one node."""
        graph, node = Graph(name), self.node(schema)
        for tensor in (*node.inputs, *node.outputs):
            if tensor is not None:
                graph.add_tensor(tensor)
        graph.add_node(node)
        return graph

    def feeds(self) -> dict[str, Array]:
        """Return the inputs that the application writes, by tensor name, read-only."""
        fed = {}
        for i, given in enumerate(self.inputs):
            if given is not None and i not in self.case.static:
                fed[f"x{i}"] = array = given.values.copy()
                array.flags.writeable = False
        return fed

    def _input(self, i: int, given: Encoded) -> Tensor:
        if i not in self.case.static:
            shape, kind = given.values.shape, TensorKind.APP_WRITE
            return Tensor(f"x{i}", given.dtype, shape, kind, encoding=given.encoding)
        logical = to_real(given.values, given.spec) if _is_bfloat(given) else given.values
        return Tensor.static(f"x{i}", logical, given.dtype, encoding=given.encoding)


def bind(case: OpCase) -> BoundCase:
    """Determine the types of a case and compute its expected outputs.

    Raises:
        ValueError: The number or shapes of the declared outputs differ from the expected ones, or a
            later call has other types or shapes than the first.
    """
    inputs = tuple(None if x is None else _stored_input(x, case.dtype) for x in case.inputs)
    values = _expected(case, inputs)
    if case.outputs and len(case.outputs) != len(values):
        raise ValueError(
            f"case {case.id}: {counted(len(case.outputs), 'output')}, {len(values)} expected"
        )
    floats = [x.dtype for x in inputs if x is not None and x.dtype.is_float]
    default = case.dtype or (floats[0] if floats else DType.FLOAT_32)
    made = []
    for i, expected in enumerate(values):
        spec = case.outputs[i] if case.outputs else _spec_of(expected, default)
        if spec.shape != expected.shape:
            raise ValueError(
                f"case {case.id}: out[{i}] declared {spec.shape}, expected {expected.shape}"
            )
        made.append(Encoded(_stored(expected, spec), spec.dtype, spec.encoding))
    outputs = tuple(expected.spec for expected in made)
    later = (
        bind(
            replace(
                case, inputs=call.inputs, expected=call.expected, outputs=outputs, later_calls=()
            )
        )
        for call in case.later_calls
    )
    bound = BoundCase(case, inputs, tuple(made), tuple(later))
    for call in bound.later_calls:
        if [_spec(x) for x in call.inputs] != [_spec(x) for x in inputs]:
            raise ValueError(f"case {case.id}: a later call has other types than the first")
    return bound


def schema_of(case: OpCase, ops: OpRegistry) -> OpSchema:
    """Return the schema of a case's op.

    Raises:
        UnsupportedOpError: The op is unknown.
    """
    return ops.find(case.package, case.op_type)


def encoding_of(values: Array, dtype: DType) -> ScaleOffset:
    """Return an encoding that covers the values and zero; symmetric for signed types."""
    low = min(0.0, float(values.min(initial=0.0, where=np.isfinite(values))))
    high = max(0.0, float(values.max(initial=0.0, where=np.isfinite(values))))
    lowest, highest = dtype.stored_range()
    if dtype.is_signed:
        return ScaleOffset(max(-low, high) / highest or 1.0, 0)
    scale = (high - low) / (highest - lowest) or 1.0
    return ScaleOffset(scale, round(low / scale))


def _spec(given: Encoded | None) -> Spec | None:
    return None if given is None else given.spec


def _is_bfloat(given: Encoded) -> bool:
    return given.dtype is DType.BFLOAT_16


def _expected(case: OpCase, inputs: Sequence[Encoded | None]) -> tuple[Array, ...]:
    found: Any = case.expected
    if callable(found):
        real = [None if x is None else to_real(x.values, x.spec) for x in inputs]
        with np.errstate(all="ignore"):  # inf and NaN are valid results
            found = found(*real)
    return tuple(np.asarray(a) for a in (found if isinstance(found, tuple | list) else (found,)))


def _spec_of(expected: Array, default: DType) -> Spec:
    if expected.dtype.kind != "f":
        return Spec(DType.of(expected.dtype), expected.shape)
    return Spec(default, expected.shape, _encoding(expected, default))


def _encoding(values: Array, dtype: DType) -> ScaleOffset | None:
    return encoding_of(values, dtype) if dtype.is_fixed_point else None


def _stored_input(given: Array | Encoded, dtype: DType | None) -> Encoded:
    if isinstance(given, Encoded):
        return given
    given = np.asarray(given)  # NumPy scalars have rank 0
    own = DType.of(given.dtype)
    if dtype is None or not own.is_float:
        return Encoded(given, own)
    spec = Spec(dtype, given.shape, _encoding(given, dtype))
    return Encoded(_stored(given, spec), dtype, spec.encoding)


def _stored(real: Array, spec: Spec) -> Array:
    """Return the stored form of real values; integers are stored values already."""
    if spec.dtype.is_fixed_point and real.dtype.kind != "f":
        return real.astype(spec.dtype.storage)
    return np.asarray(from_real(real, spec), spec.dtype.storage)
