"""What a backend says of a quantized model."""

from __future__ import annotations

from dovetail import runtime
from dovetail.quantization import Quantized


def rejected(made: Quantized, backend: str) -> list[str]:
    """Return the nodes that a backend rejects, with its verdicts."""
    (graph,) = made.model.graphs.values()
    with runtime.Backend.create(backend) as handle:
        verdicts = {node.name: handle.validate_op(node) for node in graph.nodes}
    return [f"{name}: {verdict}" for name, verdict in verdicts.items() if not verdict.ok]
