"""Models that other tools quantized, made with little; and what becomes of them here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
)
from runtime import peer_session

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import (
    Array,
    Graph,
    Tensor,
)
from dovetail.quantization import Difference, Quantized

RNG = np.random.default_rng(61)
Floats = NDArray[np.float32]
OPSETS = [
    helper.make_opsetid(*each)
    for each in (("", 21), ("com.microsoft", 1), ("org.openvinotoolkit", 1),
                 ("qonnx.custom_op.general", 1), ("org.pytorch.aten", 1))
]  # fmt: skip
ENDS: dict[int, tuple[int, int]] = {
    TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15), TensorProto.INT8: (-128, 127),
    TensorProto.UINT8: (0, 255), TensorProto.INT16: (-32768, 32767),
}  # fmt: skip
NUMBERS = {"s": np.float32(0.05), "z": np.uint8(100)}


def saved(
    path: Path,
    nodes: Sequence[NodeProto],
    shape: Sequence[int],
    initializers: dict[str, Any],
    *,
    x: int = TensorProto.FLOAT,
    y: int = TensorProto.FLOAT,
    opset: int = 21,
) -> Path:
    """A model from "x" to "y"; initializers are arrays or tensors."""
    made = [
        each if isinstance(each, TensorProto) else numpy_helper.from_array(np.asarray(each), name)
        for name, each in initializers.items()
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", x, shape)],
        [helper.make_tensor_value_info("y", y, None)],
        made,
    )
    opsets = [helper.make_opsetid("", opset), *OPSETS[1:]]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    """A node, its inputs' names with spaces between."""
    return helper.make_node(op_type, inputs.split(" "), [output], **attributes)


def pair(x: str, y: str, **attributes: Any) -> list[NodeProto]:
    """x behind a QuantizeLinear and a DequantizeLinear with the scale "s" and zero point "z"."""
    return [
        node("QuantizeLinear", f"{x} s z", f"{y}_stored", **attributes),
        node("DequantizeLinear", f"{y}_stored s z", y, **attributes),
    ]


def drawn(code: int, *shape: int) -> TensorProto:
    """Integers of all sizes, but only even ones in the first row, so that values hide the scale."""
    low, high = ENDS[code]
    values = RNG.integers(low, high + 1, shape)
    values[0] = values[0] // 2 * 2
    return helper.make_tensor("w", code, shape, values.reshape(-1).tolist())


def integers(tensor: TensorProto) -> NDArray[np.int64]:
    return numpy_helper.to_array(tensor).astype(np.int64)


def only_graph(model: dt.Model) -> Graph:
    (graph,) = model.graphs.values()
    return graph


def weights(graph: Graph) -> list[Tensor]:
    """Static tensors of less than 32 bits."""
    return [
        t for t in graph.tensors.values()
        if t.kind.is_static and t.dtype.is_fixed_point and t.dtype.bits < 32
    ]  # fmt: skip


def kinds(made: Quantized) -> dict[str, list[Difference]]:
    """What is listed, by kind."""
    found: dict[str, list[Difference]] = {}
    for each in made.report.differences["net"]:
        found.setdefault(each.kind, []).append(each)
    return found


def converted(path: Path, **options: Any) -> Quantized:
    return quantize_with_report(dt.convert(path, name="net"), **options)


def peer_of(path: Path, *, optimized: bool = False) -> Callable[[Array], Array]:
    """Return a function that runs a model on onnxruntime.

    Args:
        path: The model.
        optimized: Whether it runs at full optimization, where integer kernels are exact on every
            processor; else node by node.
    """
    peer = peer_session(path, optimized=optimized)
    return lambda x: np.asarray(peer.run(None, {"x": x})[0])


def results(model: dt.Model, samples: Floats) -> Floats:
    with dt.Session(model) as session:
        return np.stack([session.run({"x": sample})["y"] for sample in samples])


def scales(*shape: int) -> Floats:
    return RNG.uniform(0.01, 0.1, shape).astype(np.float32)


def ops_of(made: Quantized) -> list[str]:
    return [each.op_type for each in only_graph(made.model).nodes]


def check_against_peer(path: Path, made: Quantized, shape: Sequence[int], step: float) -> None:
    """Both lie on one grid: results may be a step apart where a sum is between two."""
    x = RNG.standard_normal(shape).astype(np.float32)
    steps = results(made.model, x[None])[0] - peer_of(path)(x)
    assert np.abs(steps).max() <= 1.01 * step


class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    """Gives onnxruntime samples of "x" to calibrate with."""

    def __init__(self, samples: Floats) -> None:
        self._samples: Iterator[Floats] = iter(samples)

    def get_next(self) -> dict[str, Floats] | None:
        sample = next(self._samples, None)
        return None if sample is None else {"x": sample}


def network(path: Path) -> Path:
    """What QLinear operators there are for, with a branch, in one small network."""

    def weight(*shape: int) -> Floats:
        made = RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return np.asarray(made, np.float32)

    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p1 w2", "c2", pads=[1, 1, 1, 1]),
        node("Sigmoid", "c2", "g2"),
        node("Mul", "c2 g2", "m2"),
        node("Add", "m2 p1", "a2"),
        node("Conv", "a2 w3", "c3", group=8, pads=[1, 1, 1, 1]),
        node("LeakyRelu", "c3", "l3", alpha=0.1),
        node("Concat", "l3 a2", "j3", axis=1),
        node("GlobalAveragePool", "j3", "p3"),
        node("Reshape", "p3 flat", "f"),
        node("MatMul", "f w4", "h"),
        node("Relu", "h", "r4"),
        node("Gemm", "r4 w5 b5", "y", transB=1),
    ]
    numbers = {
        "w1": weight(8, 3, 3, 3), "b1": weight(8), "w2": weight(8, 8, 3, 3),
        "w3": weight(8, 1, 3, 3), "w4": 2 * weight(16, 12), "w5": weight(5, 12),
        "b5": weight(5), "flat": np.array([1, 16]),
    }  # fmt: skip
    return saved(path, nodes, (1, 3, 8, 8), numbers, opset=17)


def sqnr_db(exact: Floats, near: Floats) -> float:
    wide = np.asarray(exact, np.float64)
    return float(10 * np.log10((wide**2).sum() / ((wide - near) ** 2).sum()))


def shapes_of(graph: Graph) -> list[Any]:
    """Ops and encodings in order, without names."""
    return [
        (
            each.op_type,
            [(t.dtype, t.encoding) for t in each.outputs],
            [(t.dtype, t.encoding, t.stored().tobytes()) for t in each.inputs
             if t is not None and t.kind.is_static],
        )
        for each in graph.nodes
    ]  # fmt: skip
