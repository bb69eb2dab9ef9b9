"""Outputs of a model as outputs of its graph."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from dovetail.ir import Graph, Shape, Tensor, TensorKind
from dovetail_opset import build
from dovetail_opset.importing.inputs import Dims
from dovetail_opset.importing.values import Values

_LOG = logging.getLogger("dovetail.importing")


def finish_graph(values: Values, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Shape]:
    """Make values outputs of the graph, and remove constants that are not used.

    Args:
        values: The values of the model; those of its outputs are known.
        inputs: Names of the graph's inputs, in the model's order.
        outputs: Names of the outputs, in the model's order.

    Returns:
        The shapes of the outputs by the model's names.
    """
    made: list[str] = []
    shapes: dict[str, Shape] = {}
    for name in outputs:
        value = values.get(name)
        if value is None:
            raise AssertionError(f"no importer returned output {name}")
        tensor = values.tensor(value)
        if tensor.name != name or tensor.kind is not TensorKind.NATIVE:
            tensor = _copied(values, tensor, name)
        tensor.kind = TensorKind.APP_READ
        made.append(tensor.name)
        shapes[name] = tensor.shape
    _drop_unread(values.graph)
    values.graph.reorder_interface(list(inputs), made)
    return shapes


def warn_of_shapes(
    inputs: Mapping[str, tuple[Dims, Shape]], outputs: Mapping[str, tuple[Dims, Shape]]
) -> None:
    """Log a warning for each output whose declared shape contradicts the computed one.

    There is no warning if the user gave an input a different shape from the file: the outputs'
    shapes are then expected to differ.

    Args:
        inputs: Declared dimensions and bound shapes of the inputs.
        outputs: Declared dimensions and computed shapes of the outputs.
    """
    if any(_contradict(dims, shape) for dims, shape in inputs.values()):
        return
    for name, (dims, shape) in outputs.items():
        if dims is not None and _contradict(dims, shape):
            _LOG.warning(
                "output '%s' is declared as %s in the model, but its shape is %s",
                name,
                _text(dims),
                _text(shape),
            )


def _copied(values: Values, tensor: Tensor, name: str) -> Tensor:
    # the output is another tensor under a second name, an input or a constant: QNN has no op
    # that does nothing, so a reshape to the same shape replaces it
    output = name
    if tensor.name == name:
        output = values.fresh(f"{name}.out")
        _LOG.warning("output '%s' is an input too; the output gets the name '%s'", name, output)
    return build.add(
        values.graph, "Reshape", [tensor], name=f"{name}.copy", outputs=output, spec=tensor.spec
    )


def _drop_unread(graph: Graph) -> None:
    """Remove constants that became static tensors and are not used."""
    for tensor in list(graph.tensors.values()):
        if tensor.kind.is_static and not graph.is_read(tensor):
            graph.remove_tensor(tensor)


def _contradict(dims: Dims, shape: Shape) -> bool:
    """Return whether two shapes differ in rank or in a size; exporters write 0 for unknown."""
    if dims is None:
        return False
    if len(dims) != len(shape):
        return True
    pairs = zip(dims, shape, strict=True)
    return any(isinstance(dim, int) and dim not in (0, size) for dim, size in pairs)


def _text(dims: tuple[int | str | None, ...]) -> str:
    return "(" + ", ".join("?" if d is None else str(d) for d in dims) + ")"
