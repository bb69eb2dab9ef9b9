"""DLC files from end to end: the commands, and the quantizer on encodings that a file states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from dlc_files import float_graph, small_graph, write_dlc

import dovetail
from dovetail.cli import main
from dovetail.errors import ConfigError
from dovetail.ir import DType, Graph, ScaleOffset, Spec

DIGITS = Path(__file__).parents[1] / "examples/digits/digits.onnx"


def stated(graph: Graph) -> Graph:
    """Return the float graph with encodings for all activations."""
    for name, scale, offset in (("x", 0.05, -128), ("y", 0.125, -100), ("z", 0.0625, -16)):
        spec = graph.tensor(name).spec
        encoding = ScaleOffset(scale, offset)
        graph.source_encodings[name] = Spec(DType.UFIXED_POINT_8, spec.shape, encoding)
    return graph


def test_a_float_file_with_encodings_is_quantized_without_samples(tmp_path: Path) -> None:
    path = write_dlc(stated(float_graph()), tmp_path / "net.dlc")
    dovetail.convert(path).save(tmp_path / "net.dvt")
    wanted = {n: s.encoding for n, s in stated(float_graph()).source_encodings.items()}
    for source in (path, tmp_path / "net.dvt"):
        quantized = dovetail.quantize(dovetail.load_model(source))
        graph = quantized.graphs["net"]
        found = {
            t.source: t.encoding
            for t in graph.tensors.values()
            if t.dtype is DType.UFIXED_POINT_8 and t.source in wanted
        }
        assert found == wanted
        assert graph.tensor("w").dtype.is_fixed_point
    x = np.random.default_rng(0).uniform(-5, 5, (2, 8)).astype(np.float32)
    with dovetail.Session(path) as exact, dovetail.Session(quantized, backend="htp") as session:
        expected, found_z = (next(iter(s.run({"x": x}).values())) for s in (exact, session))
    inside = np.abs(expected - 7.5) < 7  # within the stated range
    assert np.abs(found_z - expected)[inside].max() < 0.5  # some steps of y
    assert inside.sum() > 100


@pytest.fixture(scope="module")
def encodings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file with all encodings of the digits network, some of them per channel."""
    folder = tmp_path_factory.mktemp("encodings")
    images = np.random.default_rng(5).uniform(0, 16, (2, 1, 1, 8, 8)).astype(np.float32)
    options = {"bias_bitwidth": 32, "use_per_channel_quantization": True}
    made = dovetail.quantize(DIGITS, list(images), **options)
    (path,) = dovetail.api.quantization.write_encodings(made, folder / "digits.dvt")
    return path


@pytest.mark.parametrize("suffix", ["dlc", "dvt"])
def test_overrides_are_cached_in_a_float_model(
    encodings: Path, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(DIGITS), "-o", f"m.{suffix}", "--quantization-overrides", str(encodings)]
    assert main(["convert", *given, "--cache-overrides"]) == 0
    (cached,) = dovetail.load_model(f"m.{suffix}").graphs.values()
    (plain,) = dovetail.convert(DIGITS).graphs.values()
    assert [t.spec for t in cached.tensors.values()] == [t.spec for t in plain.tensors.values()]
    assert main(["quantize", "-i", f"m.{suffix}", "-o", "q.dvt"]) == 0
    wanted = dovetail.quantize(DIGITS, quantization_overrides=encodings)
    wanted.save("wanted.dvt")
    assert main(["diff", "q.dvt", "wanted.dvt"]) == 0
    assert all(t.dtype.is_fixed_point for t in dovetail.load("q.dvt").graphs["digits"].inputs)


def integer(bits: int) -> list[dict[str, Any]]:
    return [{"bitwidth": bits, "dtype": "int"}]


def real(bits: int) -> list[dict[str, Any]]:
    return [{"bitwidth": bits, "dtype": "float"}]


RANGE = [{"bitwidth": 8, "min": 0.0, "max": 20.0}]
WEIGHTS = [{"bitwidth": 8, "min": -1.0, "max": 1.0, "is_symmetric": "True"}]
# entries of activations and of params
MIXED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a node is float by its result": ({"block1/bn1": real(32)}, {}),
    "a node is float by its weights": ({}, {"block1/conv1/weight": real(16)}),
    "a float node whose result has a range": (
        {"head/conv": RANGE},
        {"head/conv/weight": real(32), "head/conv/bias": real(32)},
    ),
    "bitwidths": (
        {"stem/relu": integer(16), "block1/bn1": integer(8)},
        {"head/gemm/weight": integer(4), "stem/bn.bias": integer(32)},
    ),
    "inputs and outputs": ({"image": real(32), "scores": integer(16)}, {}),
    "a bitwidth, and an encoding of other weights": (
        {"stem/relu": integer(16)},
        {"block1/conv2/weight": WEIGHTS, "head/conv/weight": WEIGHTS},
    ),
    "all of them": (
        {"image": integer(16), "block1/add": RANGE, "head/relu": real(32), "scores": real(32)},
        {"head/gemm/weight": WEIGHTS, "head/gemm/bias": integer(32)},
    ),
}


@pytest.mark.parametrize("suffix", ["dlc", "dvt"])
@pytest.mark.parametrize("case", MIXED)
def test_bitwidths_and_float_tensors_are_cached(
    case: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    activations, params = MIXED[case]
    entries = {"activation_encodings": activations, "param_encodings": params}
    Path("o.json").write_text(json.dumps({"version": "0.5.0", **entries}))
    images = np.random.default_rng(5).uniform(0, 16, (3, 1, 8, 8)).astype("<f4")
    for i, image in enumerate(images):
        image.tofile(f"{i}.raw")
    Path("list.txt").write_text("".join(f"{i}.raw\n" for i in range(3)))
    given = [str(DIGITS), "--quantization-overrides", "o.json"]
    assert main(["convert", *given, "-o", f"m.{suffix}", "--cache-overrides"]) == 0
    assert main(["quantize", "-i", f"m.{suffix}", "-o", "q.dvt", "--input-list", "list.txt"]) == 0
    wanted = [*given, "-o", "wanted.dvt", "--input-list", "list.txt"]
    assert main(["convert", *wanted]) == 0
    assert main(["diff", "q.dvt", "wanted.dvt"]) == 0
    # without them the model is another one
    plain = ["-o", "p.dvt", "--input-list", "list.txt", "--ignore-encodings"]
    assert main(["quantize", "-i", f"m.{suffix}", *plain]) == 0
    assert main(["diff", "p.dvt", "wanted.dvt"]) == 1


def test_what_a_float_model_cannot_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entries = {"scores": [{"bitwidth": 16, "dtype": "float"}]}
    text = {"version": "0.6.1", "activation_encodings": entries, "param_encodings": {}}
    text["activation_bitwidth"] = 8
    Path("o.json").write_text(json.dumps(text))
    given = ["convert", str(DIGITS), "-o", "m.dlc", "--cache-overrides"]
    assert main([*given, "--quantization-overrides", "o.json"]) == 0
    assert "cannot state the file's activation_bitwidth" in capsys.readouterr().err
    for more in ([], ["--quantization-overrides", "o.json", "--act-bitwidth", "16"]):
        assert main([*given, *more]) == 2
        assert "--cache-overrides" in capsys.readouterr().err
    text["activation_encodings"] = {"score": entries["scores"]}
    Path("o.json").write_text(json.dumps(text))
    assert main([*given, "--quantization-overrides", "o.json"]) == 3
    assert "did you mean 'scores'?" in capsys.readouterr().err


FLOATS = ["--float-bitwidth", "16"]
PRECISIONS = {"half": (FLOATS, "FLOAT_16"), "htp": (["--target-backend", "htp"], "FLOAT_32")}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_overrides_are_cached_in_a_model_of_other_floats(
    precision: str, encodings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["convert", str(DIGITS), "--cache-overrides", "--quantization-overrides"]
    options, dtype = PRECISIONS[precision]
    assert main([*given, str(encodings), "-o", "plain.dlc"]) == 0
    assert main([*given, str(encodings), "-o", "m.dlc", *options]) == 0
    (plain,) = dovetail.convert("plain.dlc").graphs.values()
    (made,) = dovetail.convert("m.dlc").graphs.values()
    assert {t.dtype.name for t in made.tensors.values() if not t.dtype.is_int} == {dtype}
    assert made.source_encodings == plain.source_encodings
    assert plain.source_encodings


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nodes_that_quantize_become_encodings_of_other_floats(
    precision: str, encodings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dovetail.export(dovetail.quantize(DIGITS, quantization_overrides=encodings), "q.onnx")
    options, dtype = PRECISIONS[precision]
    given = ["convert", "q.onnx", "--strip-quant-nodes"]
    assert main([*given, "-o", "plain.dlc"]) == 0
    assert main([*given, "-o", "m.dlc", *options]) == 0
    (plain,) = dovetail.convert("plain.dlc").graphs.values()
    (made,) = dovetail.convert("m.dlc").graphs.values()
    assert {t.dtype.name for t in made.tensors.values() if not t.dtype.is_int} == {dtype}
    assert made.source_encodings.keys() == plain.source_encodings.keys()


def test_a_backend_may_ignore_the_encodings_of_a_model(
    encodings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dovetail.export(dovetail.quantize(DIGITS, quantization_overrides=encodings), "q.onnx")
    given = ["convert", "q.onnx", "-o", "m.dvt", "--target-backend", "htp"]
    assert main([*given, "--ignore-encodings"]) == 0
    (made,) = dovetail.load("m.dvt").graphs.values()
    assert not any(t.dtype.is_fixed_point for t in made.tensors.values())
    assert not any(node.op_type == "Quantize" for node in made.nodes)


def test_options_without_effect_on_cached_overrides_may_be_warnings(
    encodings: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["convert", str(DIGITS), "-o", "m.dlc", "--cache-overrides", "--act-bitwidth", "16"]
    given += ["--float-bitwidth", "32", "--quantization-overrides", str(encodings)]
    assert main(given) == 2
    assert main([*given, "--lenient"]) == 0
    assert "no effect of --act-bitwidth, --float-bitwidth" in caplog.text


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, graph in (("a", small_graph("first")), ("b", small_graph("second"))):
        write_dlc(graph, tmp_path / f"{name}.dlc")
    x = np.random.default_rng(1).normal(size=(1, 4, 4, 2)).astype("<f4")
    x.tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    Path("lists.txt").write_text("x.raw\n")
    for line in (
        "dovetail convert --input_network a.dlc -o a.dvt",
        "dovetail net-run --model a.dlc --backend htp --input-list list.txt --output-dir one",
        "dovetail net-run --model libQnnModelDlc.so --dlc-path a.dlc,b.dlc --backend htp "
        "--input-list list.txt,lists.txt --output-dir two",
        "dovetail export a.dvt -o again.dlc --format dlc",
    ):
        done = forked.run(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    with dovetail.Session("again.dlc", backend="htp") as session:
        (expected,) = session.run({"x": x}).values()
    outputs = sorted(Path().glob("*/**/*.raw"))
    assert len(outputs) == 3
    for path in outputs:
        np.testing.assert_array_equal(np.fromfile(path, "<f4"), expected.reshape(-1))


def test_a_session_is_specialized_for_inputs_of_the_file(tmp_path: Path) -> None:
    path = write_dlc(float_graph(), tmp_path / "net.dlc")
    with pytest.raises(ConfigError) as caught:
        dovetail.Session(path, specialize=["xx"])
    assert "input 'xx' not found in the model (did you mean 'x'?)" in str(caught.value)
    x = np.random.default_rng(0).uniform(-5, 5, (5, 8)).astype(np.float32)
    with dovetail.Session(path, specialize=["x"]) as session:
        several = session.run({"x": x})["z"]
        alone = np.concatenate([session.run({"x": row[np.newaxis]})["z"] for row in x])
    np.testing.assert_allclose(several, alone, rtol=1e-6)  # sums in another order
