"""The quantizer chooses types that a target backend takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from networks import lstm
from onnx import TensorProto, helper, numpy_helper, save

import dovetail as dt
from dovetail import runtime
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model, Producer
from dovetail.errors import ConfigError, PluginError, UnsupportedOpError
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import Quantized
from dovetail_opset.build import add, add_all, static

ROOT = Path(__file__).parents[1]
STEPS, FEATURES = 6, 8


@pytest.fixture(name="network", scope="module")
def fixture_network(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("models") / "lstm.onnx"
    made = lstm(steps=STEPS, features=FEATURES, width=16, classes=4)
    path.write_bytes(made.SerializeToString())
    return dt.convert(path)


def samples(count: int) -> Any:
    rng = np.random.default_rng(3)
    return rng.standard_normal((count, STEPS, 1, FEATURES)).astype(np.float32)


def rejected(made: Quantized, backend: str) -> list[str]:
    (graph,) = made.model.graphs.values()
    with runtime.Backend.create(backend) as handle:
        verdicts = {node.name: handle.validate_op(node) for node in graph.nodes}
    return [f"{name}: {verdict}" for name, verdict in verdicts.items() if not verdict.ok]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias_bitwidth": 32},
    {"bias_bitwidth": 32, "use_per_row_quantization": True},
    {"act_bitwidth": 16, "bias_bitwidth": 32},
    {"act_bitwidth": 16, "weights_bitwidth": 16},
    {"act_quantizer_schema": "symmetric"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_lstm_gets_types_of_the_htp(network: Model, options: dict[str, Any]) -> None:
    assert rejected(quantize_with_report(network, samples(4), **options), "htp:v73")
    made = quantize_with_report(network, samples(4), target_backend="htp:v73", **options)
    assert not rejected(made, "htp:v73")
    (graph,) = made.model.graphs.values()
    cells = [n.outputs[1].dtype for n in graph.nodes if n.op_type == "Lstm"]
    assert cells == [DType.SFIXED_POINT_16] * 3
    assert any("htp:v73 takes SFIXED_POINT_16 instead of" in note for note in made.report.notes)
    assert not any("does not support" in note for note in made.report.notes)


def test_it_runs_there_as_accurately_as_in_simulation(network: Model) -> None:
    given = {"use_per_row_quantization": True, "bias_bitwidth": 32}
    made = quantize_with_report(network, samples(16), target_backend="htp:v73", **given)
    plain = dt.quantize(network, samples(16), **given)
    simulated = {"backend": {"cpu": {"quantized": "simulate"}}}
    sessions = (
        dt.Session(network, backend="cpu"),
        dt.Session(made.model, backend="htp:v73"),
        dt.Session(plain, backend="cpu", config=simulated),
    )
    real, emulated, simulation = (
        np.concatenate([session.run({"x": x})["logits:0"] for x in samples(16)])
        for session in sessions
    )
    errors = [np.square(found - real).mean() for found in (emulated, simulation)]
    assert errors[0] < 2 * errors[1]
    assert errors[0] < 0.05 * np.square(real).mean()


@pytest.mark.parametrize("seed", range(3))
def test_cells_that_shrink_in_the_last_steps_do_not_saturate(seed: int) -> None:
    """The grid of c is from all steps; that of the last one would be several times too small."""
    rng = np.random.default_rng(seed)
    graph, ports = Graph("net"), [None] * 25
    ports[0] = graph.add_tensor(Tensor("x", DType.FLOAT_32, (12, 1, 4), TensorKind.APP_WRITE))
    shapes = dict.fromkeys((1, 2, 3, 16), (8, 4)) | dict.fromkeys((4, 5, 6, 17), (8, 8))
    for i, shape in (shapes | dict.fromkeys((7, 8, 9, 21), (8,))).items():
        drawn = rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
        ports[i] = static(graph, f"w{i}", drawn)
    for tensor in add_all(graph, "Lstm", ports, name="layer", outputs=["y", "c", "h"]):
        tensor.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    fading = np.array([4.0] * 6 + [0.0] * 6).reshape(-1, 1, 1)
    given = [(rng.random((12, 1, 4)) * fading).astype(np.float32) for _ in range(8)]
    made = dt.quantize(model, given, target_backend="htp:v73", bias_bitwidth=32)

    def states(model: Model, backend: str, **more: Any) -> Any:
        with dt.Session(model, backend=backend, **more) as session:
            return np.array([session.run({"x": x})["y"] for x in given])

    real = states(model, "cpu")
    simulated = states(made, "cpu", options={"quantized": "simulate"})
    emulated = states(made, "htp:v73")
    errors = [np.sqrt(np.square(found - real).mean()) for found in (emulated, simulated)]
    assert errors[0] < 1.5 * errors[1]


def test_given_encodings_stay_and_the_rejected_node_is_named(
    network: Model, tmp_path: Path
) -> None:
    (graph,) = network.graphs.values()
    cell = next(n.outputs[1] for n in graph.nodes if n.op_type == "Lstm")
    entry = [{"bitwidth": 8, "min": -1.0, "max": 1.0, "is_symmetric": "False"}]
    path = tmp_path / "given.json"
    path.write_text(
        json.dumps({"activation_encodings": {cell.source: entry}, "param_encodings": {}})
    )
    made = quantize_with_report(
        network,
        samples(4),
        target_backend="htp:v73",
        bias_bitwidth=32,
        quantization_overrides=str(path),
    )
    (quantized,) = made.model.graphs.values()
    assert quantized.tensor(cell.name).dtype is DType.UFIXED_POINT_8
    (node,) = rejected(made, "htp:v73")
    (note,) = (n for n in made.report.notes if "does not support" in n)
    assert note.startswith("htp:v73 does not support 1 of 7 nodes: Lstm node")
    assert node.split(":")[0] in note


@pytest.mark.parametrize("family", ["htp", "htp:v68", "dsp", "hta", "lpai"])
@pytest.mark.parametrize(
    "options", [{}, {"act_bitwidth": 16}, {"use_per_channel_quantization": True}], ids=str
)
def test_products_get_types_of_each_processor(family: str, options: dict[str, Any]) -> None:
    model = dt.convert(ROOT / "examples" / "digits" / "digits.onnx")
    images = np.load(ROOT / "examples" / "trained" / "calibration.npz")["images"][:8] / 16
    made = quantize_with_report(
        model, images.reshape(-1, 1, 1, 8, 8), target_backend=family, **options
    )
    assert not rejected(made, family)


def test_a_move_of_a_changed_type_shares_it() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (5, 1, 3), TensorKind.APP_WRITE))
    rng = np.random.default_rng(5)

    def weight(name: str, *shape: int) -> Tensor:
        return static(graph, name, rng.normal(0, 0.5, shape).astype(np.float32))

    gates = [weight(f"w{i}", 4, 3 if i < 3 else 4) for i in range(6)]
    biases = [weight(f"b{i}", 4) for i in range(3)]
    rest = [weight("wi", 4, 3), weight("ri", 4, 4), None, None, None, weight("bi", 4)]
    ins = [x, *gates, *biases, None, None, None, None, None, None, *rest]
    names = ["states", "cell", "last"]
    made, cell, _ = add_all(graph, "Lstm", ins, name="lstm", outputs=names, time_major=True)
    moved = add(graph, "Transpose", [cell], name="moved", perm=(1, 0))
    for tensor in (moved, made):
        tensor.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    data = rng.standard_normal((8, 5, 1, 3)).astype(np.float32)
    found = quantize_with_report(model, data, target_backend="htp:v73", bias_bitwidth=32)
    assert not rejected(found, "htp:v73")
    quantized = found.model.graphs["net"]
    assert quantized.tensor(moved.name).spec.dtype is DType.SFIXED_POINT_16
    assert quantized.tensor(moved.name).encoding == quantized.tensor(cell.name).encoding


@pytest.mark.parametrize("options", [{}, {"act_bitwidth": 16}], ids=str)
def test_one_tensor_may_have_both_states_of_an_lstm(options: dict[str, Any]) -> None:
    """The HTP converts no signed 16-bit cell: all that it is joined with becomes one, or is not."""
    rng, graph, size = np.random.default_rng(1), Graph("net"), 8
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 1, 4), TensorKind.APP_WRITE))
    before = graph.add_tensor(Tensor("before", DType.FLOAT_32, (2, 1, size), TensorKind.APP_WRITE))
    ports: list[Tensor | None] = [x, *[None] * 24]
    shapes = dict.fromkeys((1, 2, 3, 16), (size, 4)) | dict.fromkeys((4, 5, 6, 17), (size, size))
    for i, shape in (shapes | dict.fromkeys((7, 8, 9, 21), (size,))).items():
        ports[i] = static(graph, f"w{i}", rng.normal(0, 0.4, shape).astype(np.float32))
    for i in range(2):
        ranges = [[i, i + 1, 1], [0, 1, 1], [0, size, 1]]
        ports[10 + i] = add(
            graph, "StridedSlice", [before], name=f"s{i}", ranges=ranges, shrink_axes=1
        )
    y, c, h = add_all(graph, "Lstm", ports, name="layer", outputs=["y", "c", "h"])
    one = Spec(DType.FLOAT_32, (1, 1, size))
    rows = [add(graph, "Reshape", [t], name=f"row{i}", spec=one) for i, t in enumerate((h, c))]
    after = add(graph, "Concat", rows, name="after", axis=0)
    zero = static(graph, "zero", np.zeros((), np.float32))
    add(graph, "ElementWiseAdd", [after, zero], name="sum").kind = TensorKind.APP_READ
    add(graph, "Tanh", [y], name="result").kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    given = [
        {
            "x": rng.normal(0, 1, (1, 1, 4)).astype(np.float32),
            "before": rng.normal(0, 0.5, (2, 1, size)).astype(np.float32),
        }
        for _ in range(8)
    ]
    made = quantize_with_report(model, given, target_backend="htp:v73", **options)
    assert not rejected(made, "htp:v73")
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp:v73") as near:
        for sample in given:
            wanted, found = (each.run(sample) for each in (exact, near))
            for name in ("sum", "result"):
                np.testing.assert_allclose(found[name], wanted[name], atol=0.06)


@pytest.mark.parametrize(
    ("name", "error"), [("nonesuch", PluginError), ("htp:v99", ConfigError)], ids=str
)
def test_an_unknown_target_is_an_error_before_any_sample_is_read(
    network: Model, name: str, error: type[Exception]
) -> None:
    def never() -> Any:
        raise AssertionError("a sample was read")
        yield

    with pytest.raises(error, match=name.rpartition(":")[2]):
        dt.quantize(network, never(), target_backend=name)


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
    text = "graph 'net': 1 {} are written out in other ops, since htp:v73 lacks the op"
    wanted = {text.format(op) for op in ("ElementWiseSoftplus", "ReduceSumSquare")}
    assert wanted <= {*made.report.notes}
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        signal, found = (s.run({"x": images[0]})["y"] for s in (exact, emulated))
    noise = np.square(found - signal).sum()
    assert 10 * np.log10(np.square(signal).sum() / noise) > 50


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
    assert "graph 'net': 3 tensors of INT_64 become INT_32, since htp:v73 lacks the type" in notes
    assert "graph 'net': 3 tensors of FLOAT_64 become FLOAT_32" in notes  # for any backend
    with dt.Session(model) as float_one, dt.Session(made.model, backend="htp") as emulated:
        signal, there = (s.run(feeds[0])["y"] for s in (float_one, emulated))
    np.testing.assert_allclose(there, signal, atol=1e-4)


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
        "graph 'net': 3 StridedSlice are written out in other ops, since htp:v73 lacks the op "
        "for bools"
    )
    assert note in made.report.notes
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        signal, found = (s.run({"x": feeds[0]})["y"] for s in (exact, emulated))
    np.testing.assert_allclose(found, signal, atol=1e-3)


def test_a_mask_of_64_bits_and_tokens_are_read_by_the_htp() -> None:
    """As language models are exported: positions are counted, and the mask is gathered."""
    graph, rng = Graph("net"), np.random.default_rng(6)
    ids, given = (
        graph.add_tensor(Tensor(name, DType.INT_64, (1, 6), TensorKind.APP_WRITE))
        for name in ("ids", "mask")
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
        {"ids": rng.integers(0, 12, (1, 6)), "mask": rng.integers(0, 2, (1, 6))} for _ in range(4)
    ]
    assert rejected(quantize_with_report(model, feeds), "htp:v73")
    made = quantize_with_report(model, feeds, target_backend="htp:v73", act_bitwidth=16)
    assert rejected(made, "htp:v73") == []
    assert [t.dtype for t in made.model.graphs["net"].inputs] == [DType.INT_64] * 2
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as emulated:
        signal, there = (s.run(feeds[0])["y"] for s in (exact, emulated))
    np.testing.assert_allclose(there, signal, atol=1e-3)


@pytest.mark.parametrize("bias_bitwidth", [8, 32])
def test_a_beta_has_the_type_that_the_processor_takes(bias_bitwidth: int) -> None:
    graph, rng = Graph("net"), np.random.default_rng(4)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 3, 8), TensorKind.APP_WRITE))
    gamma, beta = (static(graph, n, rng.random(8, np.float32)) for n in ("gamma", "beta"))
    y = add(graph, "RmsNorm", [x, gamma, beta], name="y", axes=[2])
    y.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = rng.standard_normal((8, 1, 3, 8)).astype(np.float32)
    options = {"act_bitwidth": 16, "bias_bitwidth": bias_bitwidth}
    made = quantize_with_report(model, feeds, target_backend="htp:v73", **options)
    assert rejected(made, "htp:v73") == []


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


def given(graph: Graph, x: Tensor, dtype: DType, scale: float, offset: int = 0) -> Tensor:
    """x behind a Quantize and a Dequantize."""
    spec = Spec(dtype, x.shape, ScaleOffset(scale, offset))
    stored = add(graph, "Quantize", [x], name=f"{x.name}.stored", spec=spec)
    return add(graph, "Dequantize", [stored], name=f"{x.name}.real")


S8, U8 = DType.SFIXED_POINT_8, DType.UFIXED_POINT_8
S16, U16 = DType.SFIXED_POINT_16, DType.UFIXED_POINT_16


def prelu(graph: Graph, x: Tensor) -> Tensor:
    slopes = static(graph, "slopes", np.array([-0.25, 0.5, 0.25, 0.125], np.float32))
    return given(graph, add(graph, "Prelu", [x, slopes], name="y"), U8, 0.02, -50)


def softmax(graph: Graph, x: Tensor) -> Tensor:
    scores = given(graph, add(graph, "ElementWiseNeg", [x], name="scores"), S8, 0.025)
    return given(graph, add(graph, "Softmax", [scores], name="y"), U8, 1 / 256)


def layer_norm(graph: Graph, x: Tensor) -> Tensor:
    gain = static(graph, "gain", np.array([0.5, 1, 1.5, 1], np.float32))
    return given(graph, add(graph, "LayerNorm", [x, gain], name="y", axes=[1]), S8, 0.025)


def wide_sum(graph: Graph, x: Tensor) -> Tensor:
    fine = given(graph, add(graph, "ElementWiseNeg", [x], name="fine"), U16, 0.0001, -32768)
    coarse = given(graph, add(graph, "ElementWiseAbs", [x], name="coarse"), U8, 0.015)
    return given(graph, add(graph, "ElementWiseAdd", [fine, coarse], name="y"), U8, 0.025)


def sigmoid(graph: Graph, x: Tensor) -> Tensor:
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), U16, 0.0001, -32768)
    y = given(graph, add(graph, "Sigmoid", [x], name="sigmoid"), U16, 1 / 65535)
    return given(graph, add(graph, "ElementWiseMultiply", [x, y], name="y"), U16, 0.0001, -32768)


def dense(graph: Graph, x: Tensor) -> Tensor:
    """Integers that an HTP does not convert, moved and then multiplied."""
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), S16, 0.0001)
    x = given(graph, add(graph, "Transpose", [x], name="turned", perm=[1, 0]), S16, 0.0001)
    x = given(graph, add(graph, "Transpose", [x], name="again", perm=[1, 0]), S16, 0.0001)
    weight = static(graph, "weight", np.eye(4, dtype=np.float32))
    y = add(graph, "FullyConnected", [x, weight], name="y")
    return given(graph, y, U16, 0.0001, -32768)


def clipped(graph: Graph, x: Tensor) -> Tensor:
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), S16, 0.0001)
    return given(graph, add(graph, "Relu", [x], name="y"), U8, 0.015)


def joined(graph: Graph, x: Tensor) -> Tensor:
    """The inputs are first converted to the signed type of the result, which then changes."""
    x = given(graph, add(graph, "Concat", [x, x], name="both", axis=1), S16, 0.0001)
    x = given(graph, x, U8, 0.02, -120)
    return given(graph, add(graph, "ElementWiseNeg", [x], name="y"), U8, 0.02, -136)


def split(graph: Graph, x: Tensor) -> Tensor:
    """Two results with unlike encodings: the input has neither."""
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), U16, 0.0001, -32768)
    a, b = add_all(graph, "Split", [x], name="parts", axis=1, split_index=[2])
    given(graph, a, U8, 0.01).kind = TensorKind.APP_READ
    return given(graph, b, U8, 0.025, -128)


@pytest.mark.parametrize(
    "net", [prelu, softmax, layer_norm, wide_sum, sigmoid, dense, clipped, joined, split]
)
def test_given_encodings_get_types_of_the_htp(net: Any) -> None:
    """Constants and results are counted otherwise; other inputs of a node are converted."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 4), TensorKind.APP_WRITE))
    made = net(graph, given(graph, x, U8, 0.025, -128))
    made.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    quantized = quantize_with_report(model, None, target_backend="htp")
    assert rejected(quantize_with_report(model, None), "htp")
    assert not rejected(quantized, "htp")
    rng = np.random.default_rng(8)
    sample = {"x": rng.normal(0, 1, (2, 4)).astype(np.float32)}
    found = []
    for each, backend in ((model, "cpu"), (quantized.model, "htp")):
        with dt.Session(each, backend=backend) as session:
            found.append(session.run(sample))
    for name, values in found[0].items():
        # one step of the result, which is 0.025 at most, for sums that are rounded otherwise
        np.testing.assert_allclose(found[1][name], values, atol=0.026)
