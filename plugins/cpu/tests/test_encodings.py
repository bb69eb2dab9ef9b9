"""Every encoding that core can convert, on tensors of several ops; the others are refused."""

import numpy as np
import pytest

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import UnsupportedOpError
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DataFormat,
    DType,
    EncodingMapping,
    FloatBlock,
    Graph,
    Mapped,
    MemoryType,
    ScaleOffset,
    Tensor,
    TensorKind,
    Vector,
    dequantize,
    quantize,
)
from dovetail.ops import OpRegistry
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

OPS = OpRegistry.of(PACKAGE)
S8 = DType.SFIXED_POINT_8
HALVES = EncodingMapping.LINEAR_SYMMETRIC_EXCLUDE_ZERO
SCALES = np.float32([0.25, 0.5, 1, 0.125])
GRID = np.float32([[0.25, 0.5], [1, 0.125]])
PER_AXIS = AxisScaleOffset(1, SCALES, None, 4)
# of tensors of the shape (4, 4)
ENCODINGS = {
    "mapped axis": Mapped(PER_AXIS, HALVES),
    "mapped block": Mapped(Block((2, 2), GRID, None, 4), HALVES),
    "mapped expansion": Mapped(
        BlockwiseExpansion(0, SCALES, np.uint8([[1, 2], [3, 1], [2, 2], [1, 4]])), HALVES
    ),
    "standard": Mapped(PER_AXIS, EncodingMapping.STANDARD_SYMMETRIC),
    "float block": FloatBlock((2, 2), GRID, np.float32([[0.5, -1.25], [0, 3]])),
    "narrow float block": FloatBlock((4, 2), GRID[:1], GRID[:1], 6),
}


def graph_of(op, encoding, *, where):
    """Return op(x, w) whose tensor `where` has the encoding; the others have an ordinary one."""
    graph = Graph("net")
    encodings = {"x": ScaleOffset(0.25), "w": ScaleOffset(0.25), "y": ScaleOffset(0.5)}
    encodings[where] = encoding
    values = np.random.default_rng(1).integers(-8, 8, (4, 4))
    graph.add_tensor(Tensor("x", S8, (4, 4), TensorKind.APP_WRITE, encoding=encodings["x"]))
    graph.add_tensor(Tensor.static("w", values, S8, encoding=encodings["w"]))
    y = Tensor("y", S8, (4, 4), TensorKind.APP_READ, encoding=encodings["y"])
    add(graph, op, [graph.tensor("x"), graph.tensor("w")], name="n", outputs=y)
    return graph


def run(graph, x):
    model = Model.of(graph, producer=Producer("test", "1"), registry=OPS)
    with runtime.Backend.create("cpu", ops=OPS) as backend:
        (handle,) = backend.create_context().compose(model)
        handle.finalize()
        return handle.execute({"x": x})["y"]


@pytest.mark.parametrize("where", ["x", "w", "y"])
@pytest.mark.parametrize("op", ["ElementWiseAdd", "ElementWiseMultiply", "MatMul"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_values_are_the_real_ones(name, op, where):
    graph = graph_of(op, ENCODINGS[name], where=where)
    x, w, y = (graph.tensor(n) for n in ("x", "w", "y"))
    given = quantize(np.random.default_rng(2).normal(0, 2, (4, 4)), x.encoding, S8)
    functions = {"ElementWiseAdd": np.add, "ElementWiseMultiply": np.multiply, "MatMul": np.matmul}
    real = functions[op](dequantize(given, x.encoding), dequantize(w.values(), w.encoding))
    difference = run(graph, given).astype(int) - quantize(real, y.encoding, S8)
    assert np.abs(difference).max() <= 1  # sums in another order may round elsewhere


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        (Vector(PER_AXIS, 4, 4, 2, 1, 6), "tensor 'x'.encoding is VECTOR; allowed: SCALE_OFFSET"),
        (Mapped(PER_AXIS, EncodingMapping.ASYMMETRIC_PLUS_ONE), "ASYMMETRIC_PLUS_ONE"),
    ],
)
def test_encodings_without_known_values_are_refused(encoding, text):
    with pytest.raises(UnsupportedOpError) as caught:
        run(graph_of("ElementWiseAdd", encoding, where="x"), np.zeros((4, 4), np.int8))
    (problem,) = caught.value.problems
    assert "n" in problem.where
    assert text in problem.message


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"dynamic": (True, False)}, "tensor 'x'.shape is [<=4, 4]"),
        ({"data_format": DataFormat.MX}, "tensor 'x'.data_format is MX; allowed: DENSE"),
        ({"memory_type": MemoryType.RETRIEVE_RAW}, "is RETRIEVE_RAW; allowed: RAW, MEMHANDLE"),
    ],
)
def test_other_storage_is_refused(how, text):
    graph = graph_of("ElementWiseAdd", ScaleOffset(1.0), where="x")
    for name, value in how.items():
        setattr(graph.tensor("x"), name, value)
    with pytest.raises(UnsupportedOpError) as caught:
        run(graph, np.zeros((4, 4), np.int8))
    assert text in caught.value.problems[0].message


def test_registered_memory_is_accepted():
    graph = graph_of("ElementWiseAdd", ScaleOffset(1.0), where="x")
    graph.tensor("x").memory_type = MemoryType.MEMHANDLE
    wanted = quantize(3 + graph.tensor("w").values() / 4, ScaleOffset(0.5), S8)
    np.testing.assert_array_equal(run(graph, np.full((4, 4), 3, np.int8)), wanted)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("quantized", ["integer", "simulate"])
@pytest.mark.parametrize("weights", [ScaleOffset(0.5), AxisScaleOffset(0, np.float32([0.5, 0.25]))])
@pytest.mark.parametrize("encoding", [None, ScaleOffset(0.0)])
@pytest.mark.parametrize("dtype", [DType.SFIXED_POINT_32, DType.INT_32])
def test_a_bias_without_a_scale_is_in_steps_of_the_products(
    engine, quantized, weights, encoding, dtype
):
    graph = Graph("net")
    u8, x = DType.UFIXED_POINT_8, np.full((1, 4), 10, np.uint8)
    graph.add_tensor(Tensor("x", u8, (1, 4), TensorKind.APP_WRITE, encoding=ScaleOffset(0.01)))
    graph.add_tensor(Tensor.static("w", np.ones((2, 4)), S8, encoding=weights))
    known = None if dtype is DType.INT_32 else encoding
    graph.add_tensor(Tensor.static("b", np.array([100, 200]), dtype, encoding=known))
    y = Tensor("y", u8, (1, 2), TensorKind.APP_READ, encoding=ScaleOffset(0.01))
    ins = [graph.tensor(name) for name in "xwb"]
    add(graph, "FullyConnected", ins, name="n", outputs=y)
    model = Model.of(graph, producer=Producer("test", "1"), registry=OPS)
    options = {"engine": engine, "quantized": quantized}
    with runtime.Backend.create("cpu", options, ops=OPS) as backend:
        (handle,) = backend.create_context().compose(model)
        handle.finalize()
        found = handle.execute({"x": x})["y"]
    steps = np.broadcast_to(weights.scales_and_offsets((2, 1))[0].reshape(-1), 2)
    np.testing.assert_array_equal(found, [np.rint((40 + np.array([100, 200])) * steps)])
