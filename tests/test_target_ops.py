"""The quantizer and the converter write out what a target backend lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from backend_verdicts import rejected
from onnx import TensorProto, helper, numpy_helper, save

import dovetail as dt
from dovetail.api.quantization import quantize_with_report, write_encodings
from dovetail.container import Model, Producer
from dovetail.errors import UnsupportedOpError
from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, add_all, static


def test_ops_that_the_htp_lacks_are_written_out() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 4, 4, 8), TensorKind.APP_WRITE))
    soft = add(graph, "ElementWiseSoftplus", [x], name="soft")
    energy = add(graph, "ReduceSumSquare", [soft], name="energy", axes=[1, 2], keep_dims=True)
    add(graph, "ElementWiseDivide", [soft, energy], name="y").kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    rng = np.random.default_rng(3)
    images = rng.standard_normal((4, 1, 4, 4, 8)).astype(np.float32)
    assert rejected(quantize_with_report(model, images), "htp:v73")
    made = quantize_with_report(model, images, target_backend="htp:v73", act_bitwidth=16)
    assert rejected(made, "htp:v73") == []
    text = "graph 'net': 1 {} node written out in other ops, since htp:v73 lacks the op"
    wanted = {text.format(op) for op in ("ElementWiseSoftplus", "ReduceSumSquare")}
    assert wanted <= {*made.report.notes}
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        signal, found = (s.run({"x": images[0]})["y"] for s in (exact, emulated))
    noise = np.square(found - signal).sum()
    assert 10 * np.log10(np.square(signal).sum() / noise) > 50


def softplus(graph: Graph, x: Tensor) -> Tensor:
    """An op that an HTP lacks."""
    soft = add(graph, "ElementWiseSoftplus", [x], name="soft")
    return add(graph, "ElementWiseNeg", [soft], name="y")


def normalized(graph: Graph, x: Tensor) -> Tensor:
    """A sum of signed numbers and a norm, which an HTP only takes of unsigned ones."""
    gamma = static(graph, "gamma", np.linspace(0.5, 2, 8, dtype=np.float32))
    norm = add(graph, "LayerNorm", [x, gamma], name="norm", axes=np.array([3], np.uint32))
    return add(graph, "ElementWiseAdd", [x, norm], name="y")


def squared(graph: Graph, x: Tensor) -> Tensor:
    """A product whose second factor is converted to a signed type."""
    return add(graph, "MatMul", [x, x], name="y", transpose_in1=True)


def recurrent(graph: Graph, x: Tensor) -> Tensor:
    """A layer that is written out with many constants, which are all parts of its weights."""
    steps = add(graph, "Reshape", [x], name="steps", spec=Spec(DType.FLOAT_32, (4, 4, 8)))
    shapes = [(12, 8)] * 3 + [(12, 12)] * 3 + [(12,)] * 6
    rng = np.random.default_rng(4)
    weights = [
        static(graph, f"w{i}", (rng.standard_normal(shape) / 2).astype(np.float32))
        for i, shape in enumerate(shapes)
    ]
    return add_all(graph, "Gru", [steps, *weights], name="gru")[0]


def prescribed(graph: Graph, x: Tensor) -> Tensor:
    """A result with the scale that its op prescribes, and a Convert to that of its reader."""
    return add(graph, "Relu", [add(graph, "Sigmoid", [x], name="s")], name="y")


def copied_twice(graph: Graph, x: Tensor) -> Tensor:
    """A tensor that is float for one node, and of another fixed-point type for the next."""
    whole = add(graph, "Cast", [x], name="whole", spec=Spec(DType.INT_32, x.shape))
    real = add(graph, "Cast", [whole], name="real", spec=Spec(DType.FLOAT_32, x.shape))
    limit = static(graph, "limit", np.full((1,), 0.5, np.float32))
    test = add(graph, "ElementWiseNotEqual", [x, limit], name="test")
    return add(graph, "ElementWiseSelect", [test, x, real], name="y")


WIDE = {"act_bitwidth": 16, "weights_bitwidth": 16, "use_dynamic_16_bit_weights": True}


@pytest.mark.parametrize(
    ("net", "options"),
    [
        (softplus, {}),
        (normalized, {"act_quantizer_schema": "symmetric"}),
        (squared, WIDE),
        (prescribed, {"act_bitwidth": 16}),
        (copied_twice, {"act_quantizer_schema": "symmetric"}),
        (recurrent, {"weights_bitwidth": 4, "weights_block_size": 4}),
    ],
)
def test_encodings_for_a_target_give_the_same_graph(
    tmp_path: Path, net: Any, options: dict[str, Any]
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 4, 4, 8), TensorKind.APP_WRITE))
    net(graph, x).kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    images = np.random.default_rng(3).uniform(-2, 5, (4, 1, 4, 4, 8)).astype(np.float32)
    options |= {"target_backend": "htp"}
    first = dt.quantize(model, images, **options)
    (path,) = write_encodings(first, tmp_path / "net.dvt")
    again = dt.quantize(model, quantization_overrides=str(path), **options)
    made, wanted = (m.graphs["net"] for m in (again, first))
    assert [n.name for n in made.nodes] == [n.name for n in wanted.nodes]
    assert {t.name: t.spec for t in made.tensors.values()} == {
        t.name: t.spec for t in wanted.tensors.values()
    }


@pytest.mark.parametrize("interleaved", [False, True])
def test_positions_are_divided_and_turned(interleaved: bool) -> None:
    graph = Graph("net")
    rng = np.random.default_rng(3)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 2, 6, 8), TensorKind.APP_WRITE))
    ids = graph.add_tensor(Tensor("ids", DType.INT_32, (1, 6), TensorKind.APP_WRITE))
    three = static(graph, "three", np.array(3, np.int32))
    rows = add(graph, "ElementWiseFloorDiv", [ids, three], name="rows")
    angles = rng.uniform(-3, 3, (9, 4)).astype(np.float32)
    tables = [static(graph, f.__name__, f(angles)) for f in (np.cos, np.sin)]
    turned = [x, *tables, rows]
    y = add(graph, "RotaryEmbedding", turned, name="y", interleaved=interleaved)
    y.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    samples = [
        {"x": rng.standard_normal(x.shape).astype(np.float32), "ids": given}
        for given in rng.integers(0, 27, (4, 1, 6), np.int32)
    ]
    made = quantize_with_report(model, samples, target_backend="htp", act_bitwidth=16)
    assert rejected(made, "htp") == []
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        wanted, found = (s.run(samples[0])["y"] for s in (exact, emulated))
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_types_of_64_bits_become_narrower() -> None:
    """Numbers of tables in a row, as networks on columns of data have them, and a float64."""
    graph, rng = Graph("net"), np.random.default_rng(3)
    ids = graph.add_tensor(Tensor("ids", DType.INT_32, (1, 3), TensorKind.APP_WRITE))
    wide = add(graph, "Cast", [ids], name="wide", spec=Spec(DType.INT_64, (1, 3)))
    starts = static(graph, "starts", np.array([0, 4, 8]), DType.INT_64)
    rows = add(graph, "ElementWiseAdd", [wide, starts], name="rows")
    rows = add(graph, "Cast", [rows], name="narrow", spec=Spec(DType.INT_32, (1, 3)))
    table = static(graph, "table", rng.standard_normal((12, 5)).astype(np.float32))
    found = add(graph, "Gather", [table, rows], name="found", axis=0)
    exact = add(graph, "Cast", [found], name="exact", spec=Spec(DType.FLOAT_64, (1, 3, 5)))
    tenth = static(graph, "tenth", np.array(0.1), DType.FLOAT_64)
    exact = add(graph, "ElementWiseMultiply", [exact, tenth], name="product")
    y = Tensor("y", DType.FLOAT_32, (1, 3, 5), TensorKind.APP_READ)
    add(graph, "Cast", [exact], name="y", outputs=y, spec=y.spec)
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = [{"ids": rng.integers(0, 4, (1, 3), np.int32)} for _ in range(8)]
    assert rejected(quantize_with_report(model, feeds), "htp:v73")
    made = quantize_with_report(model, feeds, target_backend="htp:v73", act_bitwidth=16)
    assert rejected(made, "htp:v73") == []
    notes = "\n".join(made.report.notes)
    assert "graph 'net': 3 tensors of INT_64 narrowed to INT_32, since htp:v73 lacks" in notes
    assert "graph 'net': 3 tensors of FLOAT_64 narrowed to FLOAT_32" in notes  # for any backend
    with dt.Session(model) as float_one, dt.Session(made.model, backend="htp") as emulated:
        signal, there = (s.run(feeds[0])["y"] for s in (float_one, emulated))
    step = 6 / 65535  # of 16 bits over the table
    np.testing.assert_allclose(there, signal, atol=step)


def test_bools_are_moved_as_numbers() -> None:
    """A mask whose parts choose between tensors, step by step."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (3, 8), TensorKind.APP_WRITE))
    zero = static(graph, "zero", np.zeros((), np.float32))
    mask = add(graph, "ElementWiseGreater", [x, zero], name="mask")
    parts = []
    for i in range(3):
        ranges = [(i, i + 1, 1), (0, 8, 1)]
        chosen = add(graph, "StridedSlice", [mask], name=f"chosen{i}", ranges=ranges)
        row = add(graph, "StridedSlice", [x], name=f"row{i}", ranges=ranges)
        other = parts[-1] if parts else add(graph, "Tanh", [row], name="first")
        parts.append(add(graph, "ElementWiseSelect", [chosen, row, other], name=f"part{i}"))
    add(graph, "Concat", parts, name="y", axis=0).kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = np.random.default_rng(5).standard_normal((8, 3, 8)).astype(np.float32)
    made = quantize_with_report(model, feeds, target_backend="htp:v73", act_bitwidth=16)
    assert rejected(made, "htp:v73") == []
    note = (
        "graph 'net': 3 StridedSlice nodes written out in other ops, since htp:v73 lacks the op "
        "for bools"
    )
    assert note in made.report.notes
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        signal, found = (s.run({"x": feeds[0]})["y"] for s in (exact, emulated))
    step = 6 / 65535  # of 16 bits over the samples
    np.testing.assert_allclose(found, signal, atol=step)


def test_a_mask_of_64_bits_and_tokens_are_read_by_the_htp() -> None:
    """As language models are exported: positions are counted, and the mask is gathered."""
    graph, rng = Graph("net"), np.random.default_rng(6)
    ids, given, _ = (
        graph.add_tensor(Tensor(name, DType.INT_64, (1, 6), TensorKind.APP_WRITE))
        for name in ("ids", "mask", "unread")
    )
    counted = add(graph, "CumulativeSum", [given], name="counted", axis=1)
    mask = add(graph, "Cast", [given], name="bools", spec=Spec(DType.BOOL_8, (1, 6)))
    at = np.stack([np.zeros(6, np.int32), np.arange(6, dtype=np.int32)], -1)
    at = at.reshape(1, 1, 1, 1, 6, 2)
    read = add(graph, "GatherNd", [mask, static(graph, "at", at)], name="read")
    chosen = add(graph, "Reshape", [read], name="chosen", spec=Spec(DType.BOOL_8, (1, 6, 1)))
    table = static(graph, "table", rng.standard_normal((12, 5)).astype(np.float32))
    tokens = [
        add(graph, "Cast", [t], name=f"narrow {t.name}", spec=Spec(DType.INT_32, (1, 6)))
        for t in (ids, counted)
    ]
    found = [add(graph, "Gather", [table, t], name=f"found {t.name}", axis=0) for t in tokens]
    y = add(graph, "ElementWiseSelect", [chosen, *found], name="y")
    y.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = [
        {
            "ids": rng.integers(0, 12, (1, 6)),
            "mask": rng.integers(0, 2, (1, 6)),
            "unread": np.zeros((1, 6), np.int64),
        }
        for _ in range(4)
    ]
    assert rejected(quantize_with_report(model, feeds), "htp:v73")
    made = quantize_with_report(model, feeds, target_backend="htp:v73", act_bitwidth=16)
    assert rejected(made, "htp:v73") == []
    made_graph = made.model.graphs["net"]
    assert [t.dtype for t in made_graph.inputs] == [DType.INT_64] * 3
    assert not made_graph.consumers(made_graph.tensor("unread"))
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        signal, there = (s.run(feeds[0])["y"] for s in (exact, emulated))
    step = 6 / 65535  # of 16 bits over the table
    np.testing.assert_allclose(there, signal, atol=step)


def test_a_gru_runs_on_the_htp() -> None:
    graph, rng = Graph("net"), np.random.default_rng(4)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (5, 2, 8), TensorKind.APP_WRITE))
    shapes = [(6, 8)] * 3 + [(6, 6)] * 3 + [(6,)] * 6
    weights = [
        static(graph, f"w{i}", (rng.standard_normal(shape) / 2).astype(np.float32))
        for i, shape in enumerate(shapes)
    ]
    y, last = add_all(graph, "Gru", [x, *weights], name="gru", linear_before_reset=1)
    y.kind = last.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = rng.standard_normal((8, 5, 2, 8)).astype(np.float32)
    assert rejected(quantize_with_report(model, feeds), "htp:v73")
    made = quantize_with_report(model, feeds, target_backend="htp:v73", act_bitwidth=16)
    assert rejected(made, "htp:v73") == []
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        for name in (y.name, last.name):
            signal, found = (s.run({"x": feeds[0]})[name] for s in (exact, emulated))
            assert 10 * np.log10(np.square(signal).sum() / np.square(found - signal).sum()) > 40


def test_a_float_model_is_converted_for_a_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = np.random.default_rng(2).standard_normal((9, 5)).astype(np.float32)
    nodes = [
        helper.make_node("Add", ["ids", "ids"], ["twice"], "twice"),
        helper.make_node("Gather", ["table", "twice"], ["rows"], "rows"),
        helper.make_node("Softplus", ["rows"], ["y"], "y"),
    ]
    ends = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, (1, 3)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 5)),
    ]
    stored = [numpy_helper.from_array(table, "table")]
    made = helper.make_graph(nodes, "net", ends[:1], ends[1:], stored)
    save(
        helper.make_model(made, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]),
        "net.onnx",
    )
    with pytest.raises(UnsupportedOpError, match="--target-backend htp"):
        dt.Session("net.onnx", backend="htp")
    done = forked.run("dovetail convert net.onnx -o net.dvt --target-backend htp", tmp_path)
    assert done.returncode == 0, done.stderr
    ids = np.array([[4, 0, 2]])
    with dt.Session("net.dvt", backend="htp") as session:
        found = session.run({"ids": ids})["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.logaddexp(table[2 * ids], 0), rtol=1e-5, atol=1e-6)


def test_the_advice_on_an_op_that_is_written_out_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 4), TensorKind.APP_WRITE))
    add(graph, "ElementWiseSoftplus", [x], name="y").kind = TensorKind.APP_READ
    Model.of(graph, producer=Producer("test", "0"), registry=installed_ops()).save("net.dvt")
    with pytest.raises(UnsupportedOpError) as caught:
        dt.Session("net.dvt", backend="htp")
    advice = "--target-backend htp"
    assert advice in str(caught.value)
    done = forked.run(f"dovetail quantize net.dvt -o out.dvt {advice} --float-fallback", tmp_path)
    assert done.returncode == 0, done.stderr
    values = np.array([[-30, -1, 0, 2]], np.float32)
    with dt.Session("out.dvt", backend="htp") as session:
        found = session.run({"x": values})["y"]
    np.testing.assert_allclose(found, np.logaddexp(values, 0), rtol=1e-5, atol=1e-6)
