"""Networks exported as ONNX: what ONNX Runtime makes of them, and what converting them gives."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import forked
import networks
import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper
from runtime import peer_session

import dovetail
from dovetail.ir import Graph
from dovetail.plugins import load
from dovetail_onnx.exporter import OnnxExportOptions

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import export_table  # noqa: E402 - a script, which lies in no dist

# Float32 sums of a few hundred products, in another order, through some fifty layers.
RELATIVE = 1e-5
# Each with how many Transpose nodes its export may have: those that the network's own ops are.
CASES: dict[str, tuple[Callable[[], ModelProto], int]] = {
    "MobileNetV2": (functools.partial(networks.mobilenet_v2, size=32), 0),
    "MobileNetV3": (functools.partial(networks.mobilenet_v3, size=32), 0),
    "U-Net": (functools.partial(networks.unet, size=32, width=8), 0),
    "LSTM": (networks.lstm, 0),
    "transformer encoder": (networks.encoder, 8),
    "squeezenet": (functools.partial(networks.light, "squeezenet", seed=1, logits=True), 0),
    "shufflenet": (functools.partial(networks.light, "shufflenet", seed=2, logits=True), 16),
    "inception v1": (functools.partial(networks.light, "inception_v1", seed=2, logits=True), 0),
}


def export(graph: Graph, path: Path) -> tuple[str, ...]:
    notes: tuple[str, ...] = load("dovetail.exporters", "onnx-qdq")().export(
        graph, path, OnnxExportOptions()
    )
    onnx.checker.check_model(str(path), full_check=True)
    return notes


def reference(
    path: Path, feeds: dict[str, np.ndarray], *, optimized: bool = True
) -> dict[str, np.ndarray]:
    session = peer_session(path, optimized=optimized)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def drawn(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.normal(0, 1, t.shape).astype(np.float32) for t in graph.inputs}


def assert_close(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, want in wanted.items():
        assert np.abs(want).max() > 0, "a network that gives zeros shows nothing"
        assert np.abs(found[name] - want).max() <= RELATIVE * np.abs(want).max()


@pytest.mark.parametrize("case", CASES)
def test_a_float_network_goes_out_and_comes_back(case: str, tmp_path: Path) -> None:
    make, transposes = CASES[case]
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    onnx.save(make(), first)
    model = dovetail.convert(first)
    (graph,) = model.graphs.values()
    notes = export(graph, second)
    # a MatMul with a bias; all else is one operator an op
    assert bool(notes) is (case == "transformer encoder"), notes
    feeds = drawn(graph, 3)
    assert_close(reference(second, feeds), reference(first, feeds))
    kinds = Counter(node.op_type for node in onnx.load(second).graph.node)
    assert kinds["Transpose"] == transposes

    assert len(shared_names(first, second)) >= 0.5 * len(graph.nodes)

    back = dovetail.convert(second)
    (again,) = back.graphs.values()
    assert ops_of(again) == ops_of(graph)
    with dovetail.Session(model) as ours, dovetail.Session(back) as theirs:
        assert_close(theirs.run(feeds), ours.run(feeds))


def shared_names(first: Path, second: Path) -> set[str]:
    """Return the values that have one name in both models: encodings and errors speak of them."""
    one, two = ({o for n in onnx.load(p).graph.node for o in n.output} for p in (first, second))
    return one & two


def ops_of(graph: Graph) -> Counter[str]:
    return Counter(node.op_type for node in graph.nodes)


@functools.cache
def converted(case: str) -> dovetail.Model:
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(CASES[case][0](), Path(folder) / "float.onnx")
        return dovetail.convert(Path(folder) / "float.onnx")


@pytest.mark.parametrize(
    "options",
    [
        {"use_per_channel_quantization": True, "bias_bitwidth": 32},
        {"act_bitwidth": 16, "bias_bitwidth": 32},
        {"weights_bitwidth": 4, "use_per_channel_quantization": True, "bias_bitwidth": 32},
        {"act_bitwidth": 16, "weights_bitwidth": 4, "bias_bitwidth": 8},
    ],
    ids=str,
)
@pytest.mark.parametrize("case", ["squeezenet", "U-Net", "LSTM"])
@pytest.mark.parametrize("optimized", [False, True])
def test_a_quantized_network_gives_what_ours_gives(
    case: str, options: dict[str, int | bool], optimized: bool, tmp_path: Path
) -> None:
    """Within 1 % of the output, and far closer than the float network is.

    Bits cannot agree through a whole network: what lies half-way between two steps goes either way,
    and such a step grows from layer to layer. In the deep MobileNets with drawn weights it grows to
    a tenth of the output, in ours with another order of sums too, so they tell nothing here.
    """
    floats = converted(case)
    (graph,) = floats.graphs.values()
    *samples, feeds = (drawn(graph, seed) for seed in range(3))
    model = dovetail.quantize(floats, calibration=samples, **options)
    export(next(iter(model.graphs.values())), tmp_path / "quantized.onnx")
    kinds = Counter(node.op_type for node in onnx.load(tmp_path / "quantized.onnx").graph.node)
    assert kinds["Transpose"] == CASES[case][1]
    assert kinds["QuantizeLinear"] >= len(graph.nodes) / 2
    with dovetail.Session(model) as session, dovetail.Session(floats) as exact:
        (ours,), (real,) = session.run(feeds).values(), exact.run(feeds).values()
    (found,) = reference(tmp_path / "quantized.onnx", feeds, optimized=optimized).values()
    distance = np.linalg.norm(found - ours)
    assert distance <= 0.01 * np.linalg.norm(ours)
    assert distance <= 0.5 * np.linalg.norm(ours - real)


def run_command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return forked.run(["dovetail", *map(str, words)], Path.cwd())


def test_constants_with_equal_integers_and_other_scales_have_names_of_their_own(
    tmp_path: Path,
) -> None:
    """ONNX Runtime's QNN provider uses one encoding for all readers of an initializer."""
    numbers = {"small": np.float32(0.4343), "large": np.float32(10)}
    nodes = [helper.make_node("Mul", pair, [out]) for pair, out in
             ((["x", "small"], "h"), (["h", "large"], "y"))]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (2, 8)) for n in "xy"]
    constants = [numpy_helper.from_array(np.array(v), n) for n, v in numbers.items()]
    net = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(net, opset_imports=opsets, ir_version=10), tmp_path / "net.onnx")
    samples = np.random.default_rng(3).normal(0, 1, (4, 2, 8)).astype(np.float32)
    model = dovetail.quantize(dovetail.convert(tmp_path / "net.onnx"), samples)
    dovetail.export(model, tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx").graph
    integers = {i.name: numpy_helper.to_array(i).item() for i in written.initializer
                if not i.dims and i.data_type == onnx.TensorProto.UINT8}  # fmt: skip
    read = [n.input[0] for n in written.node
            if n.op_type == "DequantizeLinear" and n.input[0] in integers]  # fmt: skip
    assert [integers[name] for name in read] == [255, 255]
    assert len(set(read)) == 2


def test_the_command_writes_a_model_that_runs(tmp_path: Path) -> None:
    source = ROOT / "examples" / "digits" / "digits.onnx"
    target = tmp_path / "out.onnx"
    done = run_command("--json", "export", source, "-o", target)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["notes"] == []
    assert said["file_bytes"] == target.stat().st_size
    images = np.load(source.with_name("heldout.npz"))["images"].astype(np.float32)[:20, None] / 16
    for image in images:
        feeds = {"image": image[None]}
        assert_close(reference(target, feeds), reference(source, feeds))


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["-o", "out.tflite"], 2, "has the suffix '.tflite'"),
        (["-o", "out.tflite", "--format", "onnx-qdq"], 2, "onnx-qdq writes .onnx files"),
        (["-o", "."], 2, "use --output-path NAME.onnx"),
        (["-o", ".."], 2, "use --output-path ../NAME.onnx"),
        (["-o", "out.onnx", "--format", "onnx-qda"], 6, "did you mean 'onnx-qdq'?"),
        (["-o", "out.onnx", "--graph", "digit"], 2, "did you mean 'digits'?"),
        (["-o", str(ROOT / "examples/digits/digits.onnx")], 2, "would overwrite its source"),
    ],
)
def test_the_command_refuses(words: list[str], code: int, text: str) -> None:
    done = run_command("export", ROOT / "examples" / "digits" / "digits.onnx", *words)
    assert done.returncode == code
    assert text in done.stderr
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("quantize -i a.cpp -o a_net.json --float-fallback", "a_net.json"),
        ("convert a_net.json -o a.cpp", "a.cpp"),
        ("convert a.cpp -o a.json --float-bitwidth 16", "a.bin"),
        ("export a.cpp -o a_net.json", "a_net.json"),
        ("export a.onnx -o a.onnx", "a.onnx"),
    ],
)
def test_no_file_of_the_source_is_replaced(command: str, named: str, tmp_path: Path) -> None:
    network = ROOT / "examples" / "digits" / "digits.onnx"
    shutil.copy(network, tmp_path / "a.onnx")
    done = forked.run("dovetail convert a.onnx -o a.cpp", tmp_path)
    assert done.returncode == 0, done.stderr
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = forked.run(f"dovetail {command}", tmp_path)
    assert done.returncode == 2
    assert "would overwrite its source" in done.stderr
    assert named in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_table_in_the_document_is_what_the_exporter_does() -> None:
    text = export_table.TARGET.read_text("utf-8")
    assert export_table.table() in text, "run `python tools/export_table.py`"
