"""The ONNX model under construction: nodes, constants and the type of every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

import dovetail
from dovetail.ir import Array, DType, Shape, pack
from dovetail_onnx._dtypes import ELEMENT_TYPES

# The first with integers of 4 and 16 bits in QuantizeLinear and with scales by block.
OPSET = 21
IR_VERSION = 10
_DOMAIN_VERSION = 1  # of domains other than ONNX's own
# Replaces a node that cannot be written, so that the nodes after it can be tried.
PLACEHOLDER = "Placeholder"
# Equal constants of up to this size are shared.
_SHARED_BYTES = 64
_STORED_TYPES = {
    DType.SFIXED_POINT_4: TensorProto.INT4,
    DType.UFIXED_POINT_4: TensorProto.UINT4,
    DType.SFIXED_POINT_8: TensorProto.INT8,
    DType.UFIXED_POINT_8: TensorProto.UINT8,
    DType.SFIXED_POINT_16: TensorProto.INT16,
    DType.UFIXED_POINT_16: TensorProto.UINT16,
    DType.SFIXED_POINT_32: TensorProto.INT32,
}


def element_type(dtype: DType) -> int | None:
    """Return ONNX's element type for stored values of a type, if there is one."""
    return ELEMENT_TYPES.get(dtype, _STORED_TYPES.get(dtype))


@dataclass(slots=True)
class OnnxNode:
    """A node under construction.

    Attributes:
        op_type: The operator.
        name: Unique among the nodes.
        inputs: Names of values, empty for one that is left out.
        outputs: Names of values.
        attributes: By name.
        where: The node of the graph that it belongs to, in the user's terms.
        domain: Domain of the operator; empty for ONNX's own.
    """

    op_type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    where: str
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Initializer:
    """A constant: its ONNX element type, its shape, its bytes."""

    element_type: int
    shape: Shape
    data: Array

    @classmethod
    def of(cls, values: Array, dtype: DType) -> Initializer:
        """Create a constant of logical values.

        Args:
            values: Any shape; see `dovetail.ir.pack`.
            dtype: Data type that they are stored as; ONNX must have it.
        """
        code = element_type(dtype)
        if code is None:
            raise AssertionError(f"ONNX has no {dtype.name}")
        return cls(code, values.shape, pack(np.asarray(values), dtype).bytes)

    def proto(self, name: str) -> TensorProto:
        """Return the TensorProto without its bytes, which the writer adds."""
        return TensorProto(name=name, data_type=self.element_type, dims=self.shape)


class ModelBuilder:
    """Collects a model.

    Args:
        name: Name of the graph.
        reserved: Names that only inputs and outputs of the model have.
    """

    def __init__(self, name: str, reserved: Iterable[str]) -> None:
        self.name = name
        self.nodes: list[OnnxNode] = []
        self.constants: dict[str, Initializer] = {}
        self.types: dict[str, int] = {"": TensorProto.UNDEFINED}
        self._taken = {"", *reserved}
        self._node_names: set[str] = set()
        self._shared: dict[tuple[int, Shape, bytes], str] = {}
        self._renamed: dict[str, str] = {}
        self._inputs: list[ValueInfoProto] = []

    @property
    def inputs(self) -> tuple[str, ...]:
        """Name of the model's inputs."""
        return tuple(info.name for info in self._inputs)

    def add_input(self, name: str, code: int, shape: Shape) -> None:
        """Add an input of an element type under a reserved name."""
        self._inputs.append(helper.make_tensor_value_info(name, code, shape))
        self.types[name] = code

    def constant(self, stem: str, made: Initializer, *, shared: bool = True) -> str:
        """Return the name of a constant; with `shared`, equal small constants have one name."""
        if not shared or made.data.nbytes > _SHARED_BYTES:
            return self._new_constant(stem, made)
        key = (made.element_type, made.shape, made.data.tobytes())
        if key not in self._shared:
            self._shared[key] = self._new_constant(stem, made)
        return self._shared[key]

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        types: Sequence[int],
        *,
        name: str,
        where: str,
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> list[str]:
        """Add a node and return its outputs, one for each of their element types."""
        unique = _fresh(name, self._node_names)
        self._node_names.add(unique)
        outputs = [
            self._fresh(f"{unique}.{i}" if len(types) > 1 else unique) for i in range(len(types))
        ]
        self.types.update(zip(outputs, types, strict=True))
        kept = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(OnnxNode(op_type, unique, list(inputs), outputs, kept, where, domain))
        return list(outputs)

    def rename(self, name: str, wanted: str, *, exactly: bool = False) -> None:
        """Rename a node's output in the model.

        Args:
            name: The output, by the name that `add` gave, which stays its name here.
            wanted: The requested name.
            exactly: Whether the name is reserved for this value.
        """
        if not exactly:
            if name in self._renamed or name in self.constants or name in self.inputs:
                return
            wanted = self._fresh(wanted)
        self._renamed[name] = wanted

    def proto(self, outputs: Sequence[tuple[str, int, Shape]]) -> ModelProto:
        """Return the model, the bytes of constants left out.

        Args:
            outputs: Name, element type and shape of each.
        """
        graph = GraphProto(name=self.name)
        domains = sorted({node.domain for node in self.nodes})
        graph.input.extend(self._inputs)
        graph.output.extend(helper.make_tensor_value_info(*output) for output in outputs)
        graph.node.extend(self._node_proto(node) for node in self.nodes)
        graph.initializer.extend(made.proto(name) for name, made in self.constants.items())
        return helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", OPSET),
                *(helper.make_opsetid(domain, _DOMAIN_VERSION) for domain in domains if domain),
            ],
            ir_version=IR_VERSION,
            producer_name="dovetail",
            producer_version=dovetail.__version__,
        )

    def drop_unused(self, outputs: Iterable[str]) -> None:
        """Drop nodes and constants that no output depends on.

        Args:
            outputs: By the names that `add` gave.
        """
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = {n: made for n, made in self.constants.items() if n in needed}

    def _node_proto(self, node: OnnxNode) -> NodeProto:
        inputs = [self._renamed.get(n, n) for n in node.inputs]
        outputs = [self._renamed.get(n, n) for n in node.outputs]
        made = helper.make_node(node.op_type, inputs, outputs, node.name, domain=node.domain)
        given = sorted(node.attributes.items())  # as keywords, some names would be make_node's own
        made.attribute.extend(helper.make_attribute(name, value) for name, value in given)
        return made

    def _new_constant(self, stem: str, made: Initializer) -> str:
        name = self._fresh(stem)
        self.constants[name], self.types[name] = made, made.element_type
        return name

    def _fresh(self, stem: str) -> str:
        name = _fresh(stem, self._taken)
        self._taken.add(name)
        return name


def _fresh(stem: str, taken: set[str]) -> str:
    name, count = stem, 1
    while name in taken:
        name, count = f"{stem}_{count}", count + 1
    return name
