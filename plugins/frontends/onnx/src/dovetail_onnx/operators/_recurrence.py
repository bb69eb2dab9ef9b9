"""Shared code of LSTM, GRU and RNN: attributes, states, and outputs by direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext

_DIRECTIONS = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}
_WORDS = ("forward", "reverse")


@dataclass(frozen=True, slots=True)
class Layer:
    """A recurrent operator, checked.

    Attributes:
        op: Its context.
        directions: 1 for each direction in reverse, else 0: QNN's numbers.
        time_major: Whether the steps come before the batch.
        batch, hidden: Sizes.
        weights: Weights of x, (directions, gates * hidden, input size).
        recurrent: Weights of h, (directions, gates * hidden, hidden).
        bias: (directions, 2 * gates * hidden): of x, then of h; None if omitted.
        lengths: Number of steps of each sequence, (batch,), known or computed; None for all steps.
    """

    op: OpContext
    directions: tuple[int, ...]
    time_major: bool
    batch: int
    hidden: int
    weights: Array
    recurrent: Array
    bias: Array | None
    lengths: Array | Tensor | None

    @property
    def dtype(self) -> DType:
        """The type of all tensors."""
        return self.op.spec(0).dtype

    def word(self, direction: int) -> str:
        """Return the word for a direction, for names of ops and tensors."""
        return _WORDS[self.directions[direction]]

    def static(self, direction: int, name: str, values: Array) -> Tensor:
        """Add a static tensor of the layer's type."""
        return self.op.static(f"{self.word(direction)}.{name}", values, self.dtype)

    def state(self, i: int, name: str, direction: int, shape: Shape) -> Tensor | None:
        """Return the state of one direction before the first step; None if it is 0.

        Args:
            i: The input that holds it for all directions.
            name: Its name.
            direction: Index of the direction.
            shape: Its shape.
        """
        op = self.op
        if not op.has(i):
            return None
        axis = 0 if self.time_major else 1
        wanted = self._with_directions((self.batch, self.hidden), axis)
        if op.spec(i).shape != wanted:
            raise op.invalid(f"{name} must have shape {wanted}, got {op.spec(i).shape}")
        known = op.constant(i)
        if known is not None:
            values = known.take(direction, axis).reshape(shape)
            return self.static(direction, name, values) if values.any() else None
        state = op.tensor(i)
        if len(self.directions) > 1:
            ranges = [(0, extent, 1) for extent in wanted]
            ranges[axis] = (direction, direction + 1, 1)
            suffix = f"{self.word(direction)}.{name}"
            state = op.step(suffix, "StridedSlice", [state], ranges=ranges)
        return self.reshaped(f"{self.word(direction)}.{name}.flat", state, shape)

    def sequence(self, output: int, parts: Sequence[Tensor]) -> Tensor | None:
        """Return Y, from the h of all steps in each direction; None if nothing reads it."""
        return self._joined(output, parts, parts[0].shape, 1 if self.time_major else 2)

    def last(self, output: int, parts: Sequence[Tensor]) -> Tensor | None:
        """Return Y_h or Y_c, from the last state in each direction; None if nothing reads it."""
        return self._joined(output, parts, (self.batch, self.hidden), 0 if self.time_major else 1)

    def _joined(
        self, output: int, parts: Sequence[Tensor], shape: Shape, axis: int
    ) -> Tensor | None:
        if not self.op.is_output_used(output):
            return None
        one = (*shape[:axis], 1, *shape[axis:])
        if len(parts) == 1:
            spec = Spec(self.dtype, one)
            return self.op.emit("Reshape", parts, output=output, spec=spec)
        turned = [
            self.reshaped(f"{self.word(d)}.output{output}", part, one)
            for d, part in enumerate(parts)
        ]
        return self.op.emit("Concat", turned, output=output, axis=axis)

    def reshaped(self, suffix: str, x: Tensor, shape: Shape) -> Tensor:
        """Return a tensor in another shape; the tensor itself if it has that shape."""
        if x.shape == shape:
            return x
        return self.op.step(suffix, "Reshape", [x], spec=Spec(x.dtype, shape))

    def _with_directions(self, shape: Shape, axis: int) -> Shape:
        return (*shape[:axis], len(self.directions), *shape[axis:])


def _plain(op: OpContext, i: int, what: str) -> Array:
    return op.need_constant(i, what)


def read_layer(
    op: OpContext,
    gates: int,
    *,
    functions: Sequence[str] = (),
    weights: Callable[[OpContext, int, str], Array] = _plain,
) -> Layer:
    """Read the common inputs and attributes of recurrent operators.

    Args:
        op: The operator.
        gates: Number of gates.
        functions: The activations of one direction that the op requires; empty for any.
        weights: Returns the real weights of an input, in the layout of ONNX's own operators.

    Raises:
        FrontendError: Shapes or attributes do not go together.
        UnsupportedOpError: No op supports an attribute's value.
    """
    word = op.attr.text("direction", "forward")
    if word not in _DIRECTIONS:
        raise op.invalid(
            f"unsupported direction '{word}'; expected one of {', '.join(_DIRECTIONS)}"
        )
    directions = _DIRECTIONS[word]
    x = op.spec(0).shape
    if len(x) != 3:
        raise op.invalid(f"input must have rank 3, got shape {x}")
    time_major = op.attr.integer("layout", 0) == 0
    steps, batch = x[:2] if time_major else (x[1], x[0])
    if functions and not has_functions(op, functions, len(directions)):
        found = ", ".join(op.attr.texts("activations") or ())
        raise op.unsupported(
            f"unsupported activations {found}; expected {', '.join([*functions] * len(directions))}"
        )
    _check_clip(op)
    lengths = _read_lengths(op, steps, batch)
    hidden = op.attr.integer("hidden_size", op.spec(2).shape[-1] if op.spec(2).shape else 0)
    count = len(directions)
    rows = gates * hidden
    return Layer(
        op,
        directions,
        time_major,
        batch,
        hidden,
        _fitting(op, weights(op, 1, "weights W"), "weights W", (count, rows, x[2])),
        _fitting(op, weights(op, 2, "weights R"), "weights R", (count, rows, hidden)),
        _fitting(op, _plain(op, 3, "bias B"), "bias B", (count, 2 * rows)) if op.has(3) else None,
        lengths,
    )


def _fitting(op: OpContext, values: Array, what: str, shape: Shape) -> Array:
    if values.shape != shape:
        raise op.invalid(f"{what} must have shape {shape}, got {values.shape}")
    return values


def has_functions(op: OpContext, functions: Sequence[str], directions: int) -> bool:
    """Return whether each direction has these activations, which are those by default."""
    found = op.attr.texts("activations")
    wanted = [function.lower() for function in functions] * directions
    return not found or [function.lower() for function in found] == wanted


def _check_clip(op: OpContext) -> None:
    if "clip" in op.attr:
        raise op.unsupported(
            f"unsupported attribute clip = {op.attr.number('clip', 0):g}: no op clips the "
            "inputs of the "
            "activations",
            hint="export the model without it, if the sums never become that large",
        )


def _read_lengths(op: OpContext, steps: int, batch: int) -> Array | Tensor | None:
    if not op.has(4):
        return None
    if op.spec(4).shape != (batch,):
        raise op.invalid(
            f"sequence lengths of shape {op.spec(4).shape} do not match a batch of {batch}"
        )
    known = op.constant(4)
    if known is None:
        return op.tensor(4)
    if np.any((known < 0) | (known > steps)):
        raise op.invalid(f"sequence lengths {known.tolist()} exceed the {steps} steps of the input")
    return None if np.all(known == steps) else known
