"""Print digests of what definitions return, for test_processors.py."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, checked_node
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.tables import FUNCTIONS
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

REGISTRY = OpRegistry.of(PACKAGE)
WORD = DType.UFIXED_POINT_16
# Such params as make a function differ from others.
PARAMS: dict[str, list[dict[str, Any]]] = {
    "ReluMinMax": [{"min_value": -0.5, "max_value": 2.5}],
    "Elu": [{"alpha": 0.7}],
    "ElementWiseNeuron": [
        {"operation": i, **({"min_value": 0.0, "max_value": 1.0} if i == 5 else {})}
        for i in range(9)
    ],
    "ElementWiseUnary": [{"operation": i} for i in range(16)],
}


def digest(op: str, specs: list[Spec], out: Spec, **params: Any) -> str:
    """Return a digest of the result for all 16-bit integers, or for chance ones."""
    graph = Graph("net")
    tensors, values = [], []
    for i, spec in enumerate(specs):
        kind = TensorKind.APP_WRITE
        tensor = Tensor(f"x{i}", spec.dtype, spec.shape, kind, encoding=spec.encoding)
        tensors.append(graph.add_tensor(tensor))
        chance = np.random.default_rng(i).permutation(1 << 16).astype(np.uint16)
        values.append(chance[: int(np.prod(spec.shape))].reshape(spec.shape))
    add(graph, op, tensors, name="n", spec=out, **params)
    view, faults = checked_node(graph.nodes[0], REGISTRY)
    assert view is not None, faults
    definition = DEFINITIONS.of(view)
    assert definition is not None, op
    (found,) = definition.compute(view, values)
    return hashlib.sha256(np.ascontiguousarray(found)).hexdigest()[:16]


def main() -> None:
    """Print one line for each definition."""
    grids = [ScaleOffset(2**-13, -32768), ScaleOffset(1e-4, -1), ScaleOffset(0.003, -20000)]
    outs = [ScaleOffset(2**-15, -32768), ScaleOffset(7e-5, -20000), ScaleOffset(0.01, -1000)]
    shape = (1 << 16,)
    for op in FUNCTIONS:
        for params in PARAMS.get(op, [{}]):
            for grid, target in zip(grids, outs, strict=True):
                kind = DType.BOOL_8 if op in ("IsInf", "IsNan") else WORD
                out = Spec(kind, shape, None if kind is DType.BOOL_8 else target)
                print(op, params, digest(op, [Spec(WORD, shape, grid)], out, **params))
    words = [Spec(WORD, shape, grid) for grid in grids]
    for i in range(20):
        if i != 12:  # MOD is for plain integers
            op = "ElementWiseBinary"
            print(op, i, digest(op, words[:2], Spec(WORD, shape, outs[2]), operation=i))
    image = Spec(WORD, (1, 12, 10, 8), grids[2])
    large = Spec(WORD, (1, 31, 23, 8), outs[2])
    for mode in range(3):
        print("Resize", mode, digest("Resize", [image], large, interpolation_mode=mode))
    places = Spec(WORD, (1, 31, 23, 2), ScaleOffset(2**-15, -32768))
    print("GridSample", digest("GridSample", [image, places], large))
    print("ReduceMean", digest("ReduceMean", [image], Spec(WORD, (8,), outs[2]), axes=[0, 1, 2]))
    for op in ("Softmax", "LogSoftmax"):
        print(op, digest(op, [image], Spec(WORD, image.shape, outs[0]), axis=3))
    print("Lrn", digest("Lrn", [image], image, radius=2, alpha=1e-4, beta=0.6))


if __name__ == "__main__":
    main()
