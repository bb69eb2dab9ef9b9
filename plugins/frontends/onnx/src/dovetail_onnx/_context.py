"""The argument of an importer: one ONNX node's inputs and attributes, and methods that emit ops."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import msgspec
from onnx import TensorProto, helper

from dovetail.ir import Spec
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._source import SourceNode
from dovetail_onnx._values import OnnxValues
from dovetail_opset.importing.constant import Constant, Value
from dovetail_opset.importing.context import ImportContext


class OpContext(ImportContext):
    """One node being imported, and the graph that grows.

    Args:
        node: The node of the model.
        version: Version of its operator's schema.
        values: Values of the model's tensors read so far.
        wanted: Names of the tensors that something uses.
        read: Names of those that nodes read.

    Attributes:
        node: As given.
        version: As given.
        attr: The node's attributes.
    """

    node: SourceNode
    _values: OnnxValues

    def __init__(
        self,
        node: SourceNode,
        version: int,
        values: OnnxValues,
        wanted: Set[str],
        read: Set[str],
    ) -> None:
        super().__init__(node, values, wanted, read)
        self.version = version
        self.attr = Attributes(node.proto)

    def declared(self, i: int) -> Spec | None:
        """Return an output's declared type and shape; None if they are incomplete."""
        return self._values.declared.get(self.node.outputs[i])

    def rebatched(self, size: int, given: int) -> int:
        """Return the first size of a constant shape, for data that begin with the batch.

        Models that are exported for one batch have it in the shapes of their nodes, too. Where the
        user gave the inputs another batch, that one replaces it.

        Args:
            size: The size of the first axis in the file.
            given: That of the data.
        """
        if self._values.batch is None or (size, given) != self._values.batch:
            return size
        self._values.rebatched.append(self.node.name)
        return given

    def read_tensor(self, proto: TensorProto) -> Constant:
        """Return the constant in a tensor attribute, under the name of the node's first output."""
        return self._values.reader.read(proto, self.node.outputs[0])

    def part(
        self,
        suffix: str,
        op_type: str,
        version: int,
        inputs: Sequence[Value | None],
        *,
        output: int | None = None,
        **attributes: Any,
    ) -> OpContext:
        """Return the context of one of ONNX's own operators that is a part of this one.

        Args:
            suffix: Names it, after the node's name.
            op_type: The operator.
            version: Version of its schema.
            inputs: Its inputs, None for one that is left out.
            output: Index of the node's output that it writes; None for none.
            attributes: Its attributes; None leaves one out.
        """
        written = "" if output is None else self.node.outputs[output]
        names = tuple("" if value is None else self._named(value) for value in inputs)
        own = self._values.fresh(f"{self.node.name}.{suffix}")
        name = self.node.name if written else own
        outputs = (written or own,)
        # an empty list has no type in Python, and means the same as none
        given = {key: value for key, value in attributes.items() if not _is_none(value)}
        proto = helper.make_node(op_type, names, outputs, name=name, **given)
        node = msgspec.structs.replace(
            self.node,
            name=name,
            op_type=op_type,
            domain="",
            opset=version,
            inputs=names,
            outputs=outputs,
            proto=proto,
        )
        return OpContext(node, version, self._values, self._wanted, self._read)

    def _named(self, value: Value) -> str:
        """Return a name under which a value is known."""
        stem = name = value.name
        count = 1
        while (known := self._values.get(name)) is not None and known is not value:
            name, count = self._values.fresh(f"{stem}_{count}"), count + 1
        self._values.set(name, value)
        return name


def _is_none(value: object) -> bool:
    return value is None or (isinstance(value, list | tuple) and not value)
