"""DefinedOp: an op with the shapes that its ports state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from functools import lru_cache

from msgspec.structs import replace

from dovetail.errors import OpError
from dovetail.ir import DType, Spec
from dovetail.ops.op import Op, Port, Results
from dovetail.ops.params import Specs
from dovetail.ops.shape_text import ShapeText

_RANK = r"(\d{1,2})D"


def infer_stated(op: Op, ins: Specs, outs: Specs) -> list[Spec]:
    """Return the output specs: the shapes that the ports state, else those that the graph declares.

    Raises:
        OpError: A rank or type differs from the definition, or the spec of an output is unknown.
    """
    names: dict[str, int] = {}
    for port, spec in zip(_repeated(op.inputs, len(ins)), ins, strict=False):
        if spec is not None:
            _need_rank(port, spec)
            if not port.optional and (dims := _stated(port.shape)[1]) is not None:
                dims.learn(spec.shape, names)
    last = op.inputs[-1] if op.inputs else None
    if last and last.variadic and not last.optional and len(ins) < len(op.inputs):
        raise OpError(f"missing input '{last.name}'; its definition requires at least one")
    determined = _determined_outputs(op)
    found: list[Spec] = []
    for i, (port, spec) in enumerate(zip(_repeated(op.outputs, len(outs)), outs, strict=False)):
        if spec is None and i >= determined and not port.variadic:
            break  # it is missing, and so are all after it
        found.append(_output(port, spec, ins, names))
    rest = op.outputs[len(found) : determined]
    return found + [_output(port, None, ins, names) for port in rest]


class DefinedOp(Op):
    """An op with the shapes that its ports state; a subclass adds `reference`.

    A name in the shape of a required input is the size of that dimension; its first occurrence
    counts. Shapes of outputs are computed from these names. An output without a stated shape has
    the one that the graph declares; otherwise a subclass has an `infer` of its own.
    """

    infer: Callable[..., Results] = infer_stated


def _determined_outputs(op: Op) -> int:
    """Return the number of outputs up to the last one that the definition determines."""
    stated = (_stated(port.shape)[1] for port in op.inputs if not port.optional)
    names = {name for dims in stated if dims is not None for name in dims.names}
    for count in range(len(op.outputs), 0, -1):
        port = op.outputs[count - 1]
        if not port.optional or _determines(port.shape, names):
            return count
    return 0


def _repeated(ports: Sequence[Port], count: int) -> Iterator[Port]:
    """Yield a port for each of some tensors, repeating the last one if it is variadic."""
    yield from ports
    if ports and ports[-1].variadic:
        for _ in range(len(ports), count):
            yield ports[-1]


def _need_rank(port: Port, spec: Spec) -> None:
    rank, _ = _stated(port.shape)
    if rank is not None and len(spec.shape) != rank:
        raise OpError(f"'{port.name}' has the shape {spec.shape}; its definition requires {rank}D")


def _output(port: Port, declared: Spec | None, ins: Specs, names: dict[str, int]) -> Spec:
    _, dims = _stated(port.shape)
    shape = None if dims is None else dims.shape(names)
    if declared is not None:
        if shape is None:
            _need_rank(port, declared)
        if port.dtypes and declared.dtype not in port.dtypes:
            allowed = ", ".join(dtype.name for dtype in port.dtypes)
            text = f"'{port.name}' is {declared.dtype.name}; the definition allows {allowed}"
            raise OpError(text)
        return declared if shape is None else replace(declared, shape=shape)
    if shape is None:
        raise OpError(
            f"unknown shape of output '{port.name}'",
            hint="state it in the model (value_info), compute it in the op's `infer`, or state it "
            "in the definition as a list of names of the inputs' dimensions: "
            "<Text>[batch, 2 * height, width, channel]</Text>",
        )
    return Spec(_dtype(port, ins), shape)


def _dtype(port: Port, ins: Specs) -> DType:
    """Return the first input's type if it is allowed, else the first allowed type."""
    first = next((s.dtype for s in ins if s is not None), DType.FLOAT_32)
    return first if not port.dtypes or first in port.dtypes else port.dtypes[0]


def _determines(text: str, names: Set[str]) -> bool:
    """Return whether a stated shape is known, given known names."""
    _, dims = _stated(text)
    return dims is not None and dims.wanted <= names


@lru_cache(maxsize=1024)
def _stated(text: str) -> tuple[int | None, ShapeText | None]:
    """Return the rank and the dimensions that a shape states.

    Raises:
        OpError: The text is not a shape.
    """
    if (dims := ShapeText.parse(text)) is not None:
        return len(dims.terms), dims
    rank = re.fullmatch(_RANK, text)
    if text and rank is None:
        raise OpError(f"invalid shape {text!r} of a port", hint="expected as in [n, 2 * c], or 2D")
    return (int(rank[1]) if rank else None), None
