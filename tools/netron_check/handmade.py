"""Graphs with what is rare, and with what Netron does not support."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Graph,
    Node,
    Param,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)

STANDARD, CUSTOM = "qti.aisw", "my.package"


def forms() -> Graph:
    """Return a graph with what is rare: types, ranks, params, omitted inputs and odd names."""
    draw = np.random.default_rng(3)
    graph = Graph("forms")
    x = graph.add_tensor(Tensor("/in/x:0", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    constants = [graph.add_tensor(tensor) for tensor in _constants(draw)]
    inner = graph.add_tensor(Tensor("0", DType.FLOAT_16, (2, 3)))
    scaled = ScaleOffset(0.03125, -7)
    q8 = DType.UFIXED_POINT_8
    wide = graph.add_tensor(Tensor("<b>ü</b>", q8, (1, 2, 3, 4, 5), encoding=scaled))
    y = graph.add_tensor(Tensor("y", q8, (), TensorKind.APP_READ, encoding=scaled))
    z = graph.add_tensor(Tensor("z", DType.INT_64, (0, 2), TensorKind.APP_READ))
    graph.add_node(Node("1", CUSTOM, "Mine", [x, None, *constants], [inner], _scalars()))
    graph.add_node(Node("a b", CUSTOM, "AnOpWithAVeryLongTypeName", [inner], [wide], _tensors()))
    graph.add_node(Node("&amp;", STANDARD, "ElementWiseAdd", [wide, wide], [y]))
    graph.add_node(Node("last", "x.y", "Two", [y, inner, None], [z]))
    return graph


def _constants(draw: np.random.Generator) -> Iterator[Tensor]:
    for dtype in DType:
        if dtype.is_int or dtype in (DType.FLOAT_16, DType.FLOAT_32):
            values = draw.uniform(0, 100, (2, 3)).astype(dtype.storage)
            yield Tensor.static(f"constant {dtype.name}", values, dtype)
        elif dtype.is_fixed_point:
            low, high = dtype.stored_range(8 if dtype.bits > 8 else None)
            values = draw.integers(low, high, (2, 3), np.int64).astype(dtype.storage)
            yield Tensor.static(f"tensor {dtype.name}", values, dtype, encoding=ScaleOffset(0.5))
            scales = np.array([0.5, 0.25, 1], np.float32)
            axis = AxisScaleOffset(1, scales)
            yield Tensor.static(f"axis {dtype.name}", values, dtype, encoding=axis)
    yield Tensor.static("bools", np.array([True, False]))
    yield Tensor.static("scalar", np.array(2.5, np.float32))
    yield Tensor.static("long/name/" * 10, np.array([1.5], np.float32))
    yield Tensor.static("not finite", np.array([np.inf, -np.inf, np.nan, 1e-7], np.float32))


def _scalars() -> dict[str, Param]:
    """Return a param for each type of which Netron reads scalars in a DLC."""
    return {
        "int": Scalar(DType.INT_32, -5),
        "byte": Scalar(DType.UINT_8, 200),
        "uint": Scalar(DType.UINT_32, 7),
        "real": Scalar(DType.FLOAT_32, 0.1),
        "infinite": Scalar(DType.FLOAT_32, float("-inf")),
        "yes": Scalar(DType.BOOL_8, True),
        "no": Scalar(DType.BOOL_8, False),
        "text": Scalar(DType.STRING, 'ä <i>"text"</i> & more'),
    }


def _tensors() -> dict[str, Param]:
    """Return params of several types and ranks."""
    arrays: dict[str, Array] = {
        "scalar": np.array(-3, np.int32),
        "row": np.array([0.5, -1e-7, 1e20], np.float32),
        "pairs": np.array([[1, 2], [3, 4]], np.uint32),
        "cube": np.arange(8, dtype=np.int32).reshape(2, 2, 2),
        "deep": np.arange(6, dtype=np.float32).reshape(1, 3, 1, 2),
        "wide": np.array([2**40, -1], np.int64),
        "bools": np.array([True, False, True]),
    }
    texts = Tensor.static("p texts", np.array(["a", "b c"]), DType.STRING)
    return {"texts": texts, **{n: Tensor.static(f"p {n}", v) for n, v in arrays.items()}}


def unsupported() -> Iterator[tuple[str, Graph, str, str]]:
    """Yield what Netron rejects: a name, a graph, the format, and Netron's message."""

    def graph(dtype: DType, kind: TensorKind, params: dict[str, Param]) -> Graph:
        made = Graph("rejected")
        x = made.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
        y = made.add_tensor(Tensor("y", dtype, (2,), kind))
        made.add_node(Node("n", CUSTOM, "Mine", [x], [y], params))
        return made

    read = TensorKind.APP_READ
    for dtype in (DType.FLOAT_64, DType.BFLOAT_16):
        for format_ in ("json", "dlc"):
            message = f"Unsupported data type '{int(dtype)}'."
            yield dtype.name, graph(dtype, read, {}), format_, message
    both = TensorKind.APP_READWRITE
    yield "APP_READWRITE", graph(DType.FLOAT_32, both, {}), "json", "Unsupported tensor type '2'."
    wide: dict[str, Param] = {"wide": Scalar(DType.INT_64, 1)}
    message = "Unknown attribute value kind '100'."
    yield "INT_64 scalar", graph(DType.FLOAT_32, read, wide), "dlc", message
