"""Whole networks on `hetero`: on `cpu` and a `cpu` that refuses ops, beside `cpu` alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networks
import numpy as np
import onnx
import pytest
from picky_cpu import picky_installed

import dovetail as dt
from dovetail.cli import main
from dovetail.container import Producer
from dovetail.errors import BackendError, ConfigError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import EVERYTHING, NOTHING, CheckedGraph, Observed, check_ops
from dovetail.runtime import Backend
from dovetail.runtime.contract import Image, Prepared, PrepareRequest, RunControl
from dovetail.testing.preparing import open_context
from dovetail_opset.build import add

BACKEND = "hetero:picky,cpu"
# Seams end fusions and layouts, so that oneDNN adds in another order.
RELATIVE = 1e-4
NETWORKS = {
    "MobileNetV3": lambda: networks.mobilenet_v3(size=64),
    "U-Net": networks.unet,
    "LSTM": networks.lstm,
    "transformer encoder": networks.encoder,
}
REFUSED = {
    "MobileNetV3": ("ElementWiseAdd", "PoolAvg2d", "HardSwish"),
    "U-Net": ("PoolMax2d", "Concat"),
    "LSTM": ("Transpose", "FullyConnected"),
    "transformer encoder": ("Softmax", "Gelu"),
}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The backend `picky`, installed."""
    with picky_installed(tmp_path, monkeypatch):
        yield


def config(refuse: tuple[str, ...], **options: Any) -> dict[str, Any]:
    return {"backend": {"picky": {"refuse": refuse, **options}, "cpu": options}}


def converted(name: str) -> dt.Model:
    onnx.save(NETWORKS[name](), "net.onnx")
    return dt.convert("net.onnx")


def inputs_of(session: dt.Session) -> dict[str, Array]:
    (graph,) = session.graphs.values()
    rng = np.random.default_rng(0)
    return {t.name: rng.normal(0, 1, t.shape).astype(np.float32) for t in graph.inputs}


def compared(
    model: dt.Model, refuse: tuple[str, ...], observed: Observed = NOTHING, **options: Any
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the outputs of `hetero` and of `cpu`; parts must be on both members."""
    own = {"backend": {"cpu": options}}
    with dt.Session(model, "cpu", own, observed=observed) as session:
        inputs = inputs_of(session)
        alone = session.run(inputs, native=False)
    both = config(refuse, **options)
    with dt.Session(model, BACKEND, both, observed=observed) as session:
        (graph,) = session.graphs.values()
        assert graph.placement is not None
        assert all(share.parts for share in graph.placement.shares)
        placed = session.run(inputs)
        again = session.run(inputs)
    for name, array in placed.items():
        np.testing.assert_array_equal(array, again[name])
    return placed, alone


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_kernels_give_the_same_bits(name: str) -> None:
    placed, alone = compared(converted(name), REFUSED[name], EVERYTHING, engine="numpy")
    for output, array in alone.items():
        np.testing.assert_array_equal(placed[output], array)


@pytest.mark.parametrize("name", NETWORKS)
def test_other_fusions_give_the_same_but_for_rounding(name: str) -> None:
    placed, alone = compared(converted(name), REFUSED[name])
    for output, array in alone.items():
        assert np.abs(placed[output] - array).max() <= RELATIVE * np.abs(array).max()


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_quantized_networks_give_the_same_bits(engine: str) -> None:
    model = converted("U-Net")
    with dt.Session(model) as session:
        samples = [inputs_of(session)]
    quantized = dt.quantize(model, samples)
    placed, alone = compared(quantized, REFUSED["U-Net"], EVERYTHING, engine=engine)
    for output, array in alone.items():
        np.testing.assert_array_equal(placed[output], array)


def test_quantized_nodes_stay_where_their_arithmetic_is_defined() -> None:
    """`cpu` simulates 16 bits. Moving the product there would save the bytes of its result."""
    graph, rng = Graph("net"), np.random.default_rng(5)
    grid = DType.UFIXED_POINT_16, ScaleOffset(3e-5, -30011)
    x = graph.add_tensor(Tensor("x", grid[0], (1, 8, 1), TensorKind.APP_WRITE, encoding=grid[1]))
    factors = rng.integers(0, 1 << 16, (1, 8, 96)).astype(np.uint16)
    factor = graph.add_tensor(Tensor.static("f", factors, grid[0], encoding=ScaleOffset(7e-5, -9)))
    product = add(graph, "ElementWiseMultiply", [x, factor], name="product")
    y = add(graph, "ReduceSumSquare", [product], name="y", axes=np.array([2], np.uint32))
    for tensor, scale in ((product, 2e-5), (y, 1e-3)):
        tensor.dtype, tensor.encoding = grid[0], ScaleOffset(scale, -30000)
    y.kind = TensorKind.APP_READ
    model = dt.Model({"net": graph}, Producer("test", "1"), {})
    with dt.Session(model, "hetero:htp,cpu") as session:
        (handle,) = session.graphs.values()
        assert handle.placement is not None
        assert [moved.node for moved in handle.placement.moved] == ["ReduceSumSquare node 'y'"]


def test_macs_are_counted_and_nodes_that_multiply_stay() -> None:
    model = converted("U-Net")
    with dt.Session(model, BACKEND, config(REFUSED["U-Net"])) as session:
        (graph,) = session.graphs.values()
        assert graph.placement is not None
        picky, cpu = graph.placement.shares
        assert picky.macs > 1e6
        assert cpu.macs == 0
        reasons = {moved.reason for moved in graph.placement.moved}
        assert "op: type is PoolMax2d; use another op" in reasons


@pytest.mark.parametrize("has_model", [True, False])
@pytest.mark.parametrize("name", ["MobileNetV3", "U-Net"])
def test_networks_are_restored_from_bytes(name: str, has_model: bool) -> None:
    (graph,) = converted(name).graphs.values()
    options = {"members": {"picky": {"refuse": REFUSED[name]}}}
    found = []
    with Backend.create(BACKEND, options) as backend:
        checked = check_ops(graph, backend.ops)
        context = open_context(backend.plugin)
        prepared = context.prepare(checked, PrepareRequest())
        assert prepared.placement is not None
        assert all(share.parts for share in prepared.placement.shares)
        data = context.image({"net": prepared}).to_bytes()
        found.append(outputs_of(prepared, checked))
    with Backend.create(BACKEND, options) as backend:
        context = open_context(backend.plugin)
        image, model = Image.from_bytes(data), (lambda _: checked) if has_model else None
        restored = context.restore(image, model, lambda _: PrepareRequest())["net"]
        assert list(restored.interface.inputs) == [t.name for t in checked.inputs]
        assert restored.prepared.placement == prepared.placement
        found.append(outputs_of(restored.prepared, checked))
    for output, array in found[0].items():
        np.testing.assert_array_equal(found[1][output], array)


def test_late_graphs_know_their_placement() -> None:
    with Backend.create(BACKEND, {"members": {"picky": {"refuse": REFUSED["U-Net"]}}}) as backend:
        made = backend.create_context().compose(converted("U-Net"))[0]
        made.finalize()
        binary = made.context.get_binary()
        late = backend.create_context_from_binary(binary, config={"memory_limit_hint": 0})
        assert late.retrieve_graph(made.name).placement == made.placement


def outputs_of(prepared: Prepared, graph: CheckedGraph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.normal(0, 1, t.shape).astype(np.float32) for t in graph.inputs}
    outputs = {t.name: np.full(t.shape, np.nan, np.float32) for t in graph.outputs}
    prepared.run(inputs, outputs, RunControl())
    return outputs


# -- net-run ---------------------------------------------------------------------------------------


@pytest.fixture
def model(installed: None) -> dt.Model:
    """`net.dvt`, `list.txt`, and `net.toml` with the members' options."""
    made = converted("transformer encoder")
    made.save("net.dvt")
    with dt.Session(made) as session:
        (array,) = inputs_of(session).values()
    array.tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    write_config()
    return made


def write_config(*lines: str) -> None:
    text = ['[backend.picky]\nrefuse = ["Softmax"]', "[placement]", *lines]
    Path("net.toml").write_text("\n".join(text) + "\n")


def net_run(*options: str) -> int:
    given = ["--model", "net.dvt", "--input-list", "list.txt", "--config-file", "net.toml"]
    return main([*options[:1], "net-run", *given, *options[1:]])


def test_net_run_prints_the_placement(model: dt.Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert net_run("--json", "--backend", BACKEND) == 0
    (graph,) = json.loads(capsys.readouterr().out)["graphs"]
    first, second = graph["placement"]["shares"]
    assert (first["backend"], second["backend"]) == ("picky", "cpu")
    assert first["nodes"] > second["nodes"] >= 1
    write_config('order = ["picky", "cpu"]')
    assert net_run("--log-level=error", "--backend", "hetero") == 0
    shown = capsys.readouterr().err
    assert f"  picky: {first['nodes']} nodes" in shown
    assert "op: type is Softmax; use another op" in shown


@pytest.mark.parametrize(
    ("line", "code", "parts"),
    [
        ("min_fraction = 1.0", 1, ["min_fraction is 100.00%", "on 'cpu': op: type is Softmax"]),
        ('forbid = ["cpu"]', 1, ["would run on forbidden backend 'cpu'"]),
        ('forbid = ["cpx"]', 2, ["backend 'cpx' is not in the order", "did you mean 'cpu'?"]),
        ("min_fractoin = 1.0", 2, ["did you mean 'min_fraction'?", "net.toml"]),
        ('pin = { nowhere = "cpu" }', 2, ["node 'nowhere' not found"]),
    ],
)
def test_broken_contracts_and_configs(
    model: dt.Model,
    line: str,
    code: int,
    parts: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_config(line)
    assert net_run("--log-level=error", "--backend", BACKEND) == code
    shown = capsys.readouterr().err
    for part in parts:
        assert part in shown
    assert not Path("output").exists()


def test_options_of_the_call_and_sections_without_effect(
    model: dt.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BackendError) as caught:
        dt.Session("net.dvt", BACKEND, "net.toml", options={"min_fraction": 1.0})
    assert caught.value.code == "PLACEMENT_CHECK_FAILED"
    write_config("min_fraction = 1.0")
    warned: list[str] = []
    log = "dovetail.runtime.config_file._own_form.log.warning"
    monkeypatch.setattr(log, lambda text, *parts: warned.append(text % parts))
    with dt.Session("net.dvt", "cpu", "net.toml"):
        assert "net.toml: [placement] is not used by 'cpu', but by the backend hetero" in warned
    Path("net.toml").write_text('[backend.hetero]\norder = ["cpu"]\n[backend.cpu]\nengin = 1\n')
    with pytest.raises(ConfigError) as wrong:
        dt.Session("net.dvt", BACKEND, "net.toml")
    assert "the options of backend 'hetero' are in [placement]" in str(wrong.value)
    assert "did you mean 'engine'?" in str(wrong.value)
