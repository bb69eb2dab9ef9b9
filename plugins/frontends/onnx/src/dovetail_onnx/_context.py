"""What an importer is given: one node's inputs and attributes, and the means to emit ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.ir import Array, DType, Graph, Shape, Spec, Tensor
from dovetail.ir.check import MAX_EXTENT
from dovetail.ops import OpPackage
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._budget import Budget
from dovetail_onnx._dtypes import MAX_BYTES, Constant
from dovetail_onnx._refusals import ValueNeededError
from dovetail_onnx._registry import Value
from dovetail_onnx._source import SourceNode
from dovetail_onnx._values import Values
from dovetail_opset import build


class OpContext:
    """One node being imported.

    An importer gives what becomes of the node's outputs, in order: tensors (those that it emitted,
    or inputs passed through), or arrays where the value is known.

    Attributes:
        node: The node of the model.
        version: Of its operator's schema.
        attr: Its attributes.
    """

    def __init__(
        self,
        node: SourceNode,
        version: int,
        values: Values,
        wanted: Set[str],
        read: Set[str],
    ) -> None:
        self.node = node
        self.version = version
        self.attr = Attributes(node.proto)
        self._values = values
        self._wanted = wanted
        self._read = read

    # -- inputs ----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many inputs the node lists, left-out ones in the middle included."""
        return len(self.node.inputs)

    def has(self, i: int) -> bool:
        """Whether an input is given."""
        return i < len(self.node.inputs) and self.node.inputs[i] != ""

    def value(self, i: int) -> Value:
        """Gives an input as it is known.

        Raises:
            FrontendError: The input is left out.
        """
        found = self._values.get(self.node.inputs[i]) if self.has(i) else None
        if found is None:
            raise self.invalid(f"its input {i} is left out, but is not optional")
        return found

    def tensor(self, i: int) -> Tensor:
        """Gives an input as a tensor of the graph."""
        return self._values.tensor(self.value(i))

    def optional(self, i: int) -> Tensor | None:
        """Gives an input as a tensor of the graph, None where it is left out."""
        return self.tensor(i) if self.has(i) else None

    def spec(self, i: int) -> Spec:
        """Gives type and shape of an input."""
        value = self.value(i)
        return Spec(value.dtype, tuple(value.shape))

    def packed(self, i: int) -> int | None:
        """Gives the element type of an input if that is of 4 bits, and kept in bytes; else None."""
        return self._values.packed(self.node.inputs[i]) if self.has(i) else None

    def constant(self, i: int) -> Array | None:
        """Gives the values of an input, None where it is left out or not known at import."""
        value = self.value(i) if self.has(i) else None
        return value.values if isinstance(value, Constant) else None

    def need_constant(self, i: int, what: str) -> Array:
        """Gives the values of an input that must be known at import.

        Args:
            i: The input.
            what: What it is to the operator, for the error.

        Raises:
            UnsupportedOpError: They are not.
        """
        value = self.value(i)
        if not isinstance(value, Constant):
            raise ValueNeededError(
                f"its {what} '{self.node.inputs[i]}' is computed from the model's inputs; it must "
                "be known when the model is converted",
                self.node.inputs[i],
                where=self.node.where,
                hint="export the model with static shapes, or simplify it with fixed input shapes",
            )
        return value.values

    def need_ints(self, i: int, what: str) -> tuple[int, ...]:
        """Gives the values of an integer input that must be known at import, flattened.

        Raises:
            UnsupportedOpError: They are not.
        """
        found = self.need_constant(i, what)
        if not np.isfinite(found).all():  # OneHot's depth may be a float
            raise self.invalid(f"its {what} is not finite")
        return tuple(int(v) for v in found.reshape(-1))

    def need_number(self, i: int, what: str) -> Array:
        """Gives the value, an array of rank 0, of an input that must be known at import.

        Raises:
            FrontendError: It is not one number.
            UnsupportedOpError: It is not known.
        """
        found = self.need_constant(i, what)
        if found.size != 1:
            raise self.invalid(f"its {what} has {found.size} elements; it must be one")
        return found.reshape(())

    def axis(self, axis: int, rank: int) -> int:
        """Gives an axis counted from the front.

        Raises:
            FrontendError: There is no such axis.
        """
        if not -rank <= axis < rank:
            raise self.invalid(f"its axis {axis} is not one of a tensor of rank {rank}")
        return axis % rank

    def check_size(self, shape: Shape) -> None:
        """Refuses a shape that no honest model has.

        Raises:
            FrontendError: It would take more than 512 MiB.
        """
        if math.prod(shape) * 4 > MAX_BYTES:
            raise self.invalid(f"its output has the shape {shape}, which is too large")

    def claim(self, shape: Shape) -> None:
        """Counts a constant that is about to be made, of 4 bytes an element.

        Raises:
            FrontendError: It would take more than 512 MiB, or with all others of the model more
                than the size of its file explains.
        """
        self.check_size(shape)
        if not self.budget.has(math.prod(shape) * 4, 0):
            raise self._excessive(shape)

    def _excessive(self, shape: Shape) -> FrontendError:
        return self.invalid(
            f"a constant of the shape {shape} is made of it, which is too large beside those of "
            "other nodes"
        )

    @property
    def budget(self) -> Budget:
        """What may be computed at import, and what of that is left."""
        return self._values.budget

    def wants(self, i: int) -> bool:
        """Whether anything uses an output."""
        return i < len(self.node.outputs) and self.node.outputs[i] in self._wanted

    def feeds_nodes(self, i: int) -> bool:
        """Whether another node of the model reads an output."""
        return i < len(self.node.outputs) and self.node.outputs[i] in self._read

    def declared(self, i: int) -> Spec | None:
        """Gives what the file says of an output, None where it does not say all of it."""
        return self._values.declared.get(self.node.outputs[i])

    def read_tensor(self, proto: TensorProto) -> Constant:
        """Gives the constant in a tensor attribute, under the name of the node's first output."""
        return self._values.reader.read(proto, self.node.outputs[0])

    @property
    def graph(self) -> Graph:
        """The graph as built so far, for importers that look at what feeds them."""
        return self._values.graph

    # -- parts -----------------------------------------------------------------------------------

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
        """Gives one of ONNX's own operators that this one is made of, for that one's importer.

        Args:
            suffix: Names it, after the node's name.
            op_type: The operator.
            version: Of its schema.
            inputs: What it is given, None for a left-out one.
            output: Which of the node's outputs it writes; None for none.
            attributes: Its attributes; None leaves one out.
        """
        own = self._values.fresh(f"{self.node.name}.{suffix}")
        written = "" if output is None else self.node.outputs[output]
        names = tuple("" if value is None else self._named(value) for value in inputs)
        name = self.node.name if written else own
        outputs = (written or own,)
        given = {key: value for key, value in attributes.items() if value is not None}
        proto = helper.make_node(op_type, names, outputs, name=name, **given)
        node = replace(
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

    def as_tensor(self, value: Value) -> Tensor:
        """Gives a value as a tensor of the graph; the same one for the same constant."""
        return self._values.tensor(value)

    def shared(self, key: Hashable, make: Callable[[], Constant]) -> Constant:
        """Gives a constant that nodes of the graph share, made by the first that asks for it."""
        return self._values.shared(key, make)

    def _named(self, value: Value) -> str:
        """Gives a name that a value is known by."""
        stem = name = value.name
        count = 1
        while (known := self._values.get(name)) is not None and known is not value:
            name, count = self._values.fresh(f"{stem}_{count}"), count + 1
        self._values.set(name, value)
        return name

    # -- emitting --------------------------------------------------------------------------------

    def emit(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        *,
        output: int = 0,
        spec: Spec | None = None,
        package: OpPackage | None = None,
        **params: Any,
    ) -> Tensor:
        """Adds the op that writes one of the node's outputs, and gives that tensor.

        Args:
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            output: Which output, the first one if not said.
            spec: The output's type and shape, for ops that do not infer them.
            package: The op's package, by default `qti.aisw`.
            params: Values by name; None leaves one out.
        """
        written = self.node.outputs[output] or self._values.fresh(self.node.name)
        return self._add(
            op_type, inputs, self.node.name, [written], [spec], package=package, **params
        )[0]

    def emit_all(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        *,
        specs: Sequence[Spec | None] = (),
        package: OpPackage | None = None,
        least: int = 0,
        **params: Any,
    ) -> tuple[Tensor, ...]:
        """Adds the op that writes all of the node's outputs, and gives these tensors.

        Args:
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            specs: The outputs' types and shapes, for ops that do not infer them.
            package: The op's package, by default `qti.aisw`.
            least: How many outputs the op has at least; those that the node leaves out get names.
            params: As in `emit`.
        """
        left_out = ("",) * (least - len(self.node.outputs))
        names = [
            name or self._values.fresh(f"{self.node.name}.{i}")
            for i, name in enumerate((*self.node.outputs, *left_out))
        ]
        return self._add(op_type, inputs, self.node.name, names, specs, package=package, **params)

    def step(
        self,
        suffix: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        *,
        spec: Spec | None = None,
        source: tuple[str, Shape] | None = None,
        **params: Any,
    ) -> Tensor:
        """Adds an op on the way to the node's output, and gives what it writes.

        Args:
            suffix: Names it, after the node's name.
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            spec: As in `emit`.
            source: The ONNX tensor that it holds, and the order of axes in which it does.
            params: As in `emit`.
        """
        name = self._values.fresh(f"{self.node.name}.{suffix}")
        (made,) = self._add(op_type, inputs, name, [name], [spec], **params)
        if source is not None:
            made.source, made.source_perm = source
        return made

    def step_all(
        self,
        suffix: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        names: Sequence[str],
        *,
        specs: Sequence[Spec | None] = (),
        **params: Any,
    ) -> tuple[Tensor, ...]:
        """Adds an op of several outputs on the way to the node's, and gives what it writes.

        Args:
            suffix: Names it, after the node's name.
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            names: Of its outputs, an empty one for one that gets a fresh name.
            specs: As in `emit_all`.
            params: As in `emit`.
        """
        own = self._values.fresh(f"{self.node.name}.{suffix}")
        filled = [name or self._values.fresh(f"{own}.{i}") for i, name in enumerate(names)]
        return self._add(op_type, inputs, own, filled, specs, **params)

    def _add(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        name: str,
        outputs: Sequence[str],
        specs: Sequence[Spec | None],
        **params: Any,
    ) -> tuple[Tensor, ...]:
        if not self.budget.has_op():
            raise self.refuse(
                f"the model becomes more than {self.budget.most_ops} ops, which its "
                "size does not explain",
                hint="convert parts of it, cut with --out-name",
            )
        try:
            made = build.add_all(
                self._values.graph,
                op_type,
                inputs,
                name=name,
                outputs=outputs,
                specs=specs,
                sources=self.node.sources,
                **params,
            )
        except OverflowError as error:  # ONNX's attributes have 64 bits, QNN's params 32
            raise self.invalid(f"one of its attributes does not fit 32 bits: {error}") from error
        for tensor in made:
            if not all(0 <= extent <= MAX_EXTENT for extent in tensor.shape):
                raise self.invalid(f"it gives the shape {tensor.shape}, which is impossible")
        return made

    def static(self, suffix: str, values: Array, dtype: DType, grid: Spec | None = None) -> Tensor:
        """Adds a static tensor of computed values, on a grid if one is given, and gives it.

        Raises:
            FrontendError: It would take, with all others of the model, more than the size of its
                file explains.
        """
        name, made = f"{self.node.name}.{suffix}", np.asarray(values)
        if not self.budget.has(dtype.nbytes(made.shape), made.nbytes):
            raise self._excessive(made.shape)
        return self._values.derived(name, made, dtype, self.node.name, grid)

    def grid(self, i: int) -> Spec | None:
        """Gives what the model stores the real numbers of an input as, None where that is it."""
        value = self.value(i) if self.has(i) else None
        return value.grid if isinstance(value, Constant) else None

    def arranged(self, i: int, perm: Shape) -> Tensor:
        """Gives an input with its axes in another order: at import if it is known then."""
        value = self.value(i)
        if isinstance(value, Constant):
            return self._values.transposed(value, perm)
        name = self.node.inputs[i]
        return self.step(f"input{i}", "Transpose", [value], perm=perm, source=(name, perm))

    # -- refusing --------------------------------------------------------------------------------

    def refuse(self, why: str, hint: str = "") -> UnsupportedOpError:
        """Gives the error for what cannot be converted; raise it."""
        return UnsupportedOpError(why, where=self.node.where, hint=hint)

    def invalid(self, why: str, hint: str = "") -> FrontendError:
        """Gives the error for what the model must not say; raise it."""
        return FrontendError(why, where=self.node.where, hint=hint)
