"""The quantizer chooses types that a target backend takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_verdicts import rejected
from networks import lstm

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model, Producer
from dovetail.errors import ConfigError, PluginError
from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
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


@pytest.mark.parametrize(
    ("target", "bits"), [("htp:v68", 8), ("htp:v69", 8), ("htp:v73", 16), ("htp:v81", 16)]
)
def test_a_gamma_is_narrow_where_an_older_architecture_takes_no_other(
    target: str, bits: int
) -> None:
    graph, rng = Graph("net"), np.random.default_rng(4)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 3, 8), TensorKind.APP_WRITE))
    gamma, beta = (static(graph, n, rng.random(8, np.float32)) for n in ("gamma", "beta"))
    add(graph, "LayerNorm", [x, gamma, beta], name="y", axes=[2]).kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = rng.standard_normal((8, 1, 3, 8)).astype(np.float32)
    options = {"act_bitwidth": 16, "weights_bitwidth": 16}
    made = quantize_with_report(model, feeds, target_backend=target, **options)
    assert rejected(made, target) == []
    assert made.model.graphs["net"].tensor("gamma").dtype is DType.fixed(bits, signed=False)


@pytest.mark.parametrize("schema", ["symmetric", "unsignedsymmetric"])
@pytest.mark.parametrize("act_bitwidth", [8, 16])
def test_symmetric_grids_become_unsigned_where_no_others_are_taken(
    schema: str, act_bitwidth: int
) -> None:
    """An HTP has no products of signed 16-bit data and no Abs of signed ones, nor converts them."""
    graph, rng = Graph("net"), np.random.default_rng(8)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 3, 4, 4), TensorKind.APP_WRITE))
    last = add(graph, "Transpose", [x], name="last", perm=[0, 2, 3, 1])
    weight = static(graph, "w", rng.standard_normal((1, 1, 3, 6)).astype(np.float32))
    pads = {"stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]}
    conv = add(graph, "Conv2d", [last, weight], name="conv", **pads)
    size = add(graph, "ElementWiseAbs", [conv], name="size")
    part = add(graph, "Relu", [conv], name="part")
    y = add(graph, "ElementWiseAdd", [size, part], name="y")
    y.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    feeds = rng.standard_normal((8, 1, 3, 4, 4)).astype(np.float32)
    options = {"act_bitwidth": act_bitwidth, "act_quantizer_schema": schema, "bias_bitwidth": 32}
    made = quantize_with_report(model, feeds, target_backend="htp", **options)
    assert rejected(made, "htp") == []
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as near:
        for sample in feeds:
            wanted, found = (each.run({"x": sample})["y"] for each in (exact, near))
            # weights of 8 bits: up to 0.11 off
            np.testing.assert_allclose(found, wanted, atol=0.15)


@pytest.mark.parametrize("style", ["dovetail", "sdk"])
@pytest.mark.parametrize("schema", ["symmetric", "unsignedsymmetric"])
@pytest.mark.parametrize("op_type", ["Relu6", "Sigmoid", "ElementWiseNeg"])
def test_grids_inside_interfaces_that_stay_float_become_unsigned_too(
    op_type: str, schema: str, style: str
) -> None:
    """An HTP neither quantizes to signed 16-bit data nor dequantizes them."""
    graph, rng = Graph("net"), np.random.default_rng(8)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 4, 4, 8), TensorKind.APP_WRITE))
    y = add(graph, "Softmax", [add(graph, op_type, [x], name="inner")], name="y", axis=3)
    y.kind = graph.tensor("inner").kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    options = {"act_bitwidth": 16, "act_quantizer_schema": schema, "quantization_style": style}
    feeds = rng.standard_normal((8, 1, 4, 4, 8)).astype(np.float32)
    made = quantize_with_report(
        model, feeds, target_backend="htp", preserve_io_datatype=True, **options
    )
    assert rejected(made, "htp") == []
    with dt.Session(model) as exact, dt.Session(made.model, backend="htp") as near:
        for sample in feeds:
            wanted, found = (each.run({"x": sample}) for each in (exact, near))
            for name, values in wanted.items():
                # about two steps of 16 bits
                np.testing.assert_allclose(found[name], values, atol=2e-4)
