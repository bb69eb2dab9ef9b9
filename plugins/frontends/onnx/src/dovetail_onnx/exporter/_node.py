"""NodeExport: the argument of the functions that export ops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from dovetail.errors import UnsupportedOpError
from dovetail.ir import Array, DType, Node, Shape, Spec, Tensor, dequantize
from dovetail.ops import Op
from dovetail_onnx.exporter._model import Initializer, element_type
from dovetail_onnx.exporter._types import taken_types
from dovetail_onnx.exporter._values import Order, Values, natural
from dovetail_opset.layouts import moved_op
from dovetail_opset.perms import inverse, to_first

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class NodeExport:
    """One node of a graph, and methods to write it as ONNX.

    Attributes:
        node: The node.
        op: Its op with its params, of the class that defines it.
        values: The values of the graph's tensors in the model.
    """

    def __init__(self, node: Node, op: Op, values: Values) -> None:
        self.node = node
        self.op: Any = op  # each op's params are its own class's
        self.values = values
        self.builder = values.builder

    # -- reading ---------------------------------------------------------------------------------

    def has(self, i: int) -> bool:
        """Return whether an input is given."""
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def tensor(self, i: int) -> Tensor:
        """Return a required input."""
        found = self.node.inputs[i]
        if found is None:
            raise AssertionError(f"input {i} is left out")
        return found

    def spec(self, i: int) -> Spec:
        """Return the spec of a required input."""
        return self.tensor(i).spec

    @property
    def out(self) -> Spec:
        """The spec of the first output."""
        return self.node.outputs[0].spec

    def unsupported(self, text: str, hint: str = "") -> UnsupportedOpError:
        """Return the error for an op that ONNX cannot express."""
        return UnsupportedOpError(text, where=self.node.where, hint=hint)

    # -- inputs ----------------------------------------------------------------------------------

    def input(self, i: int, order: Iterable[int] | None = None, shape: Shape | None = None) -> str:
        """Return the real values of an input, reshaped and then transposed by an order."""
        tensor = self.tensor(i)
        rank = len(tensor.shape if shape is None else shape)
        wanted = natural(rank) if order is None else tuple(order)
        return self.values.arranged(tensor, wanted, shape)

    def optional(self, i: int) -> str:
        """Return the real values of an input, empty if it is left out."""
        return self.input(i) if self.has(i) else ""

    def channels_first(self, i: int = 0) -> str:
        """Return an input (n, ..., c) as (n, c, ...)."""
        return self.input(i, self.order_first(i))

    def constant_input(self, i: int, what: str) -> Array:
        """Return the real values of an input that must be a constant in ONNX.

        Raises:
            UnsupportedOpError: It is computed.
        """
        tensor = self.tensor(i)
        if not tensor.kind.is_static:
            raise self.unsupported(f"{what} in[{i}] must be a constant in ONNX, but is computed")
        if tensor.dtype.is_fixed_point and tensor.encoding is not None:
            return dequantize(tensor.stored(), tensor.encoding)
        return tensor.values()

    def layout(self, *indices: int) -> Order:
        """Return the order of axes that the most elements of the inputs are stored in.

        Inputs of another rank than the output's, and constants, do not count.

        Args:
            indices: Indices of the inputs; by default all.
        """
        rank = len(self.out.shape)
        tensors = [self.node.inputs[i] for i in indices or range(len(self.node.inputs))]
        elements: Counter[Order] = Counter()
        for tensor in tensors:
            order = None if tensor is None else self.values.order(tensor)
            if tensor is not None and order is not None and len(order) == rank:
                elements[order] += math.prod(tensor.shape)
        return elements.most_common(1)[0][0] if elements else natural(rank)

    def layout_of(self, i: int) -> Order:
        """Return the order of an input's axes, whatever its rank."""
        tensor = self.tensor(i)
        return self.values.order(tensor) or natural(len(tensor.shape))

    def in_order(self, order: Order) -> tuple[Any, Order]:
        """Return the op for inputs in an order of axes, and the order of its outputs."""
        moved = moved_op(self.node, self.op, inverse(order))
        if moved is None:
            raise AssertionError(f"{self.node.where} depends on the order of axes")
        op, back = moved
        return op, inverse(back)

    def order_first(self, i: int = 0) -> Order:
        """Return the order of an input (n, ..., c) as (n, c, ...)."""
        return to_first(len(self.spec(i).shape))

    def aligned(self, i: int, order: Order) -> str:
        """Return an input that broadcasts to the output's shape, with its axes in an order."""
        shape = self.spec(i).shape
        missing = len(order) - len(shape)
        if missing == 0:
            return self.input(i, order)
        if not shape or order == natural(len(order)):
            return self.input(i)
        return self.input(i, order, (1,) * missing + shape)

    def flat(self, i: int, shape: Shape) -> str:
        """Return an input in another shape, with its elements in the same order."""
        return self.input(i, None, shape)

    # -- nodes -----------------------------------------------------------------------------------

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        made: int | DType | None = None,
        **attributes: Any,
    ) -> str:
        """Add a node of one output and return that.

        Args:
            op_type: The operator.
            inputs: Values, empty for one left out; of a type that the operator does not take, they
                are cast to a wider one first.
            made: The output's element type, by default that of the first input.
            attributes: By name; None leaves one out.
        """
        return self.add_all(op_type, inputs, [made], **attributes)[0]

    def add_all(
        self,
        op_type: str,
        inputs: Sequence[str],
        made: Sequence[int | DType | None],
        **attributes: Any,
    ) -> list[str]:
        """Add a node and return its outputs; see `add`."""
        used = _without_omitted(inputs)
        if op_type != "Cast":
            codes = taken_types(op_type, [self.builder.types[value] for value in used])
            used = [self.cast(v, code) if v else v for v, code in zip(used, codes, strict=True)]
        return self._add("", op_type, used, made, attributes)

    def add_custom(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[str],
        made: Sequence[int | DType | None] = (None,),
        attributes: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Add a node of another domain than ONNX's, with its inputs as they are.

        Args:
            domain: The domain.
            op_type: The operator.
            inputs: Values, empty for one left out.
            made: Element type of each output; None for that of the first input.
            attributes: By name; None leaves one out.

        Returns:
            The outputs.
        """
        return self._add(domain, op_type, _without_omitted(inputs), made, attributes or {})

    def _add(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[str],
        made: Sequence[int | DType | None],
        attributes: Mapping[str, Any],
    ) -> list[str]:
        types = [self._code(inputs, t) for t in made]
        node = self.node
        return self.builder.add(
            op_type,
            inputs,
            types,
            name=node.name,
            where=node.where,
            attributes=attributes,
            domain=domain,
        )

    def constant(self, values: Any, like: str | DType) -> str:
        """Return a constant.

        Args:
            values: Any shape.
            like: Its type, or a value whose type it is to have.
        """
        if isinstance(like, str):
            like = _dtype_of(self.builder.types[like])
        narrow = np.float32 if like is DType.BFLOAT_16 else like.storage
        made = Initializer.of(np.asarray(values).astype(narrow), like)
        return self.builder.constant(f"{self.node.name}/constant", made)

    def integers(self, values: Iterable[int]) -> str:
        """Return a constant (n,) of INT_64."""
        return self.values.shape_constant(tuple(int(v) for v in values))

    def cast(self, value: str, to: int | DType) -> str:
        """Return a value in another element type; itself if it has that."""
        code = self._code([], to)
        return (
            value if self.builder.types[value] == code else self.add("Cast", [value], code, to=code)
        )

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Return a value in another shape."""
        zero = 1 if 0 in shape else None
        return self.add("Reshape", [value, self.integers(shape)], allowzero=zero)

    # -- outputs ---------------------------------------------------------------------------------

    def put(self, value: str, order: Iterable[int] | None = None, i: int = 0) -> None:
        """Make a value an output: the tensor transposed by an order."""
        tensor = self.node.outputs[i]
        wanted = natural(len(tensor.shape)) if order is None else tuple(order)
        self.values.define(tensor, value, wanted, self.node.where)

    def pass_on(self, order: Order) -> None:
        """Make the value of input 0 the output, which has the same elements and encoding.

        Args:
            order: The order in which the value is the output.
        """
        value = self.input(0, self.layout_of(0))
        self.values.pass_on(self.node.outputs[0], value, order)

    def put_first(self, value: str, i: int = 0) -> None:
        """Make a value (n, c, ...) an output (n, ..., c)."""
        self.put(value, to_first(len(self.node.outputs[i].shape)), i)

    def _code(self, inputs: Sequence[str], to: int | DType | None) -> int:
        if to is None:
            return self.builder.types[inputs[0]]
        if isinstance(to, DType):
            code = TensorProto.FLOAT if to.is_fixed_point else element_type(to)
            if code is None:
                raise self.unsupported(f"ONNX has no tensors of {to.name}")
            return int(code)
        return to


def _without_omitted(inputs: Sequence[str]) -> list[str]:
    """Return inputs without the omitted ones at the end."""
    used = list(inputs)
    while used and not used[-1]:
        used.pop()
    return used


def _dtype_of(code: int) -> DType:
    for dtype in DType:
        if not dtype.is_fixed_point and element_type(dtype) == code:
            return dtype
    raise AssertionError(f"no constant has the element type {code}")


OpExporter = Callable[[NodeExport], None]
