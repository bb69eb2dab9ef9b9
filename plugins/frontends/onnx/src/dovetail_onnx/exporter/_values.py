"""The values of a graph's tensors in the model, whose layout changes only if necessary.

A value may hold a tensor with its axes in another order. A convolution, which is channels-first in
ONNX, leaves its result channels-first, and elementwise ops follow. A Transpose node is added only
where an op or an output needs another order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from dovetail.errors import Problem, QuantizationError
from dovetail.ir import Array, DType, Encoding, Graph, ScaleOffset, Shape, Tensor, dequantize
from dovetail_onnx.exporter import _quantized
from dovetail_onnx.exporter._model import PLACEHOLDER, Initializer, ModelBuilder, element_type
from dovetail_onnx.exporter._quantized import Parameters
from dovetail_opset.perms import composed, inverse

Order = Shape


@dataclass(frozen=True, slots=True)
class Value:
    """A real value in the model.

    Attributes:
        name: As the builder gave it.
        order: It is the tensor transposed by this.
    """

    name: str
    order: Order


def natural(rank: int) -> Order:
    """Return the identity order."""
    return tuple(range(rank))


def real_type(dtype: DType) -> int | None:
    """Return the element type that a tensor's real values have in the model, if there is one."""
    if dtype.is_fixed_point:
        return int(TensorProto.FLOAT)
    return element_type(dtype)


def same_elements(order: Order, shape: Shape) -> bool:
    """Return whether transposing a shape by an order leaves the elements where they are."""
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept) or 0 in shape


class Values:
    """The values of a graph's tensors.

    Args:
        graph: The graph of the tensors.
        builder: The model to which nodes and constants are added.
    """

    def __init__(self, graph: Graph, builder: ModelBuilder) -> None:
        self.graph = graph
        self.builder = builder
        self.notes: list[str] = []
        self.problems: list[Problem] = []
        self._values: dict[Tensor, Value] = {}
        self._arranged: dict[tuple[Tensor, Order, Shape], str] = {}

    def add_input(self, tensor: Tensor) -> None:
        """Add an input of the model: real values, quantized next if the tensor is quantized."""
        code = self._real_type(tensor)
        self.builder.add_input(tensor.name, code, tensor.shape)
        order = natural(len(tensor.shape))
        where = f"input '{tensor.name}'"
        self._values[tensor] = Value(self._quantized(tensor, tensor.name, order, where), order)

    def order(self, tensor: Tensor) -> Order | None:
        """Return the order of a computed tensor's axes; None for a constant, which has any."""
        found = self._values.get(tensor)
        return None if found is None else found.order

    def arranged(self, tensor: Tensor, order: Order, shape: Shape | None = None) -> str:
        """Return real values of a tensor.

        Args:
            tensor: Constant, or defined before.
            order: The order of the axes: transposed by this.
            shape: Reshaped to this before; of the tensor's own elements in order.
        """
        shape = tensor.shape if shape is None else shape
        key = tensor, order, shape
        if key not in self._arranged:
            if tensor.kind.is_static:
                self._arranged[key] = self._constant(tensor, order, shape)
            else:
                self._arranged[key] = self._moved(tensor, order, shape)
        return self._arranged[key]

    def define(self, tensor: Tensor, name: str, order: Order, where: str) -> None:
        """Define a computed tensor as a value, cast to the tensor's type.

        Args:
            tensor: An output of a node.
            name: A value that the builder gave.
            order: It is the tensor transposed by this.
            where: The node, for errors.
        """
        code = self._real_type(tensor)
        if self.builder.types[name] != code:
            name = self._node("Cast", [name], code, f"{tensor.name}/cast", where, to=code)
        self._values[tensor] = Value(self._quantized(tensor, name, order, where), order)
        stem = f"{tensor.name}/value" if self.graph.is_output(tensor) else _name(tensor, order)
        self.builder.rename(name, stem)

    def define_real(self, tensor: Tensor, name: str, order: Order, where: str) -> None:
        """Define a fixed-point tensor as the real values of integers; see `define`.

        Args:
            tensor: An output of a node.
            name: The integers.
            order: They are those of the tensor transposed by this.
            where: The node, for errors.
        """
        found = self._stored(tensor, order)
        real = name if found is None else self._dequantize(name, found, tensor.name, where)
        self._values[tensor] = Value(real, order)

    def integers(self, tensor: Tensor, order: Order, where: str) -> str:
        """Return the integers that a fixed-point tensor stores, transposed by an order."""
        real, found = self.arranged(tensor, order), self._stored(tensor, order)
        code = None if found is None else element_type(found.dtype)
        if found is None or code is None:
            return real
        inputs = [real, *self._scales(found)]
        stem = f"{tensor.name}/stored"
        return self._node("QuantizeLinear", inputs, code, stem, where, **found.attributes)

    def _stored(self, tensor: Tensor, order: Order) -> Parameters | None:
        found = _quantized.of_stored(tensor, order)
        if isinstance(found, Parameters) and found.dtype is tensor.dtype:
            return found
        why = found if isinstance(found, str) else f"ONNX stores it as {found.dtype.name}"
        self._add_problem(why, tensor)
        return None

    def pass_on(self, tensor: Tensor, name: str, order: Order) -> None:
        """Define a tensor as the value of another one of the same type and encoding."""
        self._values[tensor] = Value(name, order)

    def forget(self, tensor: Tensor) -> None:
        """Define a placeholder for a tensor that was not computed, to go on with other nodes."""
        self._values[tensor] = Value(self._placeholder(tensor), natural(len(tensor.shape)))

    def note(self, text: str) -> None:
        """Record a difference of the model from the graph, once."""
        if text not in self.notes:
            self.notes.append(text)

    def finish(self) -> list[tuple[str, int, Shape]]:
        """Rename the values of the graph's outputs; return name, type and shape of each."""
        found: list[tuple[str, int, Shape]] = []
        last: list[str] = []
        for tensor in self.graph.outputs:
            name = self.arranged(tensor, natural(len(tensor.shape)))
            code = self.builder.types[name]
            if name in last or name in self.builder.inputs or name in self.builder.constants:
                name = self._node("Identity", [name], code, f"{tensor.name}/output", "")
            self.builder.rename(name, tensor.name, exactly=True)
            last.append(name)
            found.append((tensor.name, code, tensor.shape))
        self.builder.drop_unused(last)
        return found

    def shape_constant(self, shape: Shape) -> str:
        """Return a constant (n,) of INT_64."""
        values = np.array(shape, np.int64).reshape(-1)
        return self.builder.constant("integers", Initializer.of(values, DType.INT_64))

    # -- inside ----------------------------------------------------------------------------------

    def _moved(self, tensor: Tensor, order: Order, shape: Shape) -> str:
        value = self._values[tensor]
        code = self.builder.types[value.name]
        if shape == tensor.shape:
            if order == value.order:
                return value.name
            perm = list(composed(inverse(value.order), order))
            return self._node(
                "Transpose", [value.name], code, f"{tensor.name}/transposed", "", perm=perm
            )
        if same_elements(value.order, tensor.shape):
            source = value.name
        else:
            source = self.arranged(tensor, natural(len(tensor.shape)))
        if same_elements(order, shape):  # the reshape does the transpose too
            shape, order = tuple(shape[axis] for axis in order), natural(len(shape))
        name = self._reshape(tensor, source, code, shape)
        if order == natural(len(shape)):
            return name
        return self._node(
            "Transpose", [name], code, f"{tensor.name}/transposed", "", perm=list(order)
        )

    def _reshape(self, tensor: Tensor, source: str, code: int, shape: Shape) -> str:
        wanted = self.shape_constant(shape)
        zero = 1 if 0 in shape else None
        return self._node(
            "Reshape", [source, wanted], code, f"{tensor.name}/reshaped", "", allowzero=zero
        )

    def _real_type(self, tensor: Tensor) -> int:
        """Return the type of a tensor's real values; FLOAT, with a problem, if ONNX has none."""
        code = real_type(tensor.dtype)
        if code is not None:
            return code
        self._add_problem(f"ONNX has no tensors of {tensor.dtype.name}", tensor)
        return TensorProto.FLOAT

    def _placeholder(self, tensor: Tensor) -> str:
        code = real_type(tensor.dtype) or TensorProto.FLOAT
        return self._node(PLACEHOLDER, [], code, tensor.name, "")

    def _constant(self, tensor: Tensor, order: Order, shape: Shape) -> str:
        if real_type(tensor.dtype) is None:
            self._add_problem(f"ONNX has no tensors of {tensor.dtype.name}", tensor)
            return self._placeholder(tensor)
        if tensor.kind.is_updateable:
            self.note(f"'{tensor.source}' can be updated in the graph, but is a constant in ONNX")
        stem = _name(tensor, order)
        if not tensor.dtype.is_fixed_point:
            values = tensor.values().reshape(shape).transpose(order)
            return self.builder.constant(stem, Initializer.of(values, tensor.dtype))
        if tensor.encoding is None:
            self._add_problem(f"{tensor.dtype.name} without an encoding", tensor)
            return self._placeholder(tensor)
        found = _quantized_constant(tensor, tensor.encoding, order, shape)
        if isinstance(found, str):
            self.note(f"constant '{tensor.source}' is written as float numbers: {found}")
            real = dequantize(tensor.stored(), tensor.encoding).reshape(shape).transpose(order)
            return self.builder.constant(stem, Initializer.of(real, DType.FLOAT_32))
        values, parameters = found
        # not shared: the QNN provider reads the encoding of the first node for all uses of a name
        made = Initializer.of(values, parameters.dtype)
        name = self.builder.constant(stem, made, shared=False)
        # with x64quantprecision ONNX Runtime rewrites zero points in place: no two may share one
        return self._dequantize(name, parameters, stem, f"constant '{tensor.source}'", owned=True)

    def _quantized(self, tensor: Tensor, name: str, order: Order, where: str) -> str:
        """Return a real value rounded to the tensor's type."""
        if not tensor.dtype.is_fixed_point:
            return name
        found = _quantized.of_activation(tensor, order)
        if isinstance(found, str):
            self._add_problem(found, tensor)
            return name
        name = self._narrowed(tensor, name, found, where)
        code = element_type(found.dtype)
        if code is None:
            raise AssertionError(f"ONNX has no {found.dtype.name}")
        stored = self._node(
            "QuantizeLinear",
            [name, *self._scales(found)],
            code,
            f"{tensor.name}/quantize",
            where,
            **found.attributes,
        )
        return self._dequantize(stored, found, tensor.name, where)

    def _narrowed(self, tensor: Tensor, name: str, found: Parameters, where: str) -> str:
        """Return a real value clipped to the range of a bitwidth that no ONNX type has."""
        encoding = tensor.encoding
        bits = None if encoding is None else encoding.bitwidth
        if encoding is None or bits is None or bits == found.dtype.bits:
            return name
        if not isinstance(encoding, ScaleOffset):
            self._add_problem(
                f"ONNX has no integers of {bits} bits for scales along an axis", tensor
            )
            return name
        self.note(f"'{tensor.source}' has {bits} bits, which ONNX lacks: a Clip limits its range")
        low, high = (
            self._scalar((q + encoding.offset) * encoding.scale, DType.FLOAT_32)
            for q in tensor.dtype.stored_range(bits)
        )
        return self._node(
            "Clip", [name, low, high], TensorProto.FLOAT, f"{tensor.name}/narrowed", where
        )

    def _scalar(self, value: float, dtype: DType) -> str:
        """Return a constant of rank 0."""
        made = np.asarray(value, np.float32 if dtype is DType.BFLOAT_16 else dtype.storage)
        return self.builder.constant("scalar", Initializer.of(made, dtype))

    def _dequantize(
        self, name: str, parameters: Parameters, stem: str, where: str, *, owned: bool = False
    ) -> str:
        return self._node(
            "DequantizeLinear",
            [name, *self._scales(parameters, owned=owned)],
            TensorProto.FLOAT,
            f"{stem}/dequantize",
            where,
            **parameters.attributes,
        )

    def _scales(self, parameters: Parameters, *, owned: bool = False) -> list[str]:
        """Return the names of scales and zero points; zero points are not shared if `owned`."""
        scales = Initializer.of(parameters.scales, DType.FLOAT_32)
        names = [self.builder.constant("scale", scales)]
        if parameters.zero_points is not None:
            made = Initializer.of(parameters.zero_points, parameters.dtype)
            names.append(self.builder.constant("zero_point", made, shared=not owned))
        return names

    def _node(
        self,
        op_type: str,
        inputs: list[str],
        code: int,
        name: str,
        where: str,
        **attributes: Array | int | list[int] | None,
    ) -> str:
        (found,) = self.builder.add(
            op_type, inputs, [code], name=name, where=where, attributes=attributes
        )
        return found

    def _add_problem(self, text: str, tensor: Tensor) -> None:
        problem = Problem(text, where=f"tensor '{tensor.source}'")
        if problem not in self.problems:
            self.problems.append(problem)


def _name(tensor: Tensor, order: Order) -> str:
    """Return a name for a tensor in an order: the user's if it has the user's layout."""
    rank, perm = len(order), tensor.source_perm
    if perm is None:
        return tensor.source if order == natural(rank) else tensor.name
    if len(perm) == rank and tuple(perm[axis] for axis in order) == natural(rank):
        return tensor.source
    # a tensor in another layout may have the name of its source
    return tensor.name if tensor.name != tensor.source else f"{tensor.name}/transposed"


def _quantized_constant(
    tensor: Tensor, encoding: Encoding, order: Order, shape: Shape
) -> tuple[Array, Parameters] | str:
    """Return a constant's integers, reshaped and transposed, or why ONNX cannot express them."""
    if shape != tensor.shape:
        try:
            encoding = encoding.reshaped(tensor.shape, shape)
        except QuantizationError as error:
            return error.message
    return _quantized.of_constant(tensor.stored().reshape(shape), encoding, tensor.dtype, order)
