"""`dovetail convert`: what it writes, shows and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail as dt


def make(path: str, *nodes: Any, dims: list[Any], weights: dict[str, Any] | None = None) -> None:
    """Write an ONNX model from input `x` to output `y`."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(w), name) for name, w in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


@pytest.fixture
def steps() -> str:
    """Relu, then two Neg: y = relu(x)."""
    names = ["x", "mid", "neg", "y"]
    ops = ["Relu", "Neg", "Neg"]
    nodes = [
        helper.make_node(op, [a], [b], name=f"n_{b}")
        for op, a, b in zip(ops, names, names[1:], strict=False)
    ]
    make("steps.onnx", *nodes, dims=["batch", "width"])
    return "steps.onnx"


@pytest.fixture
def strange() -> str:
    """A model with operators that nothing converts."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="fine"),
        helper.make_node("Unique", ["a"], ["b"], name="first"),
        helper.make_node("StringNormalizer", ["b"], ["y"], name="second"),
    ]
    make("strange.onnx", *nodes, dims=[1, 2])
    return "strange.onnx"


def shape(path: str, tensor: str = "x") -> tuple[int, ...]:
    (graph,) = dt.load(path).graphs.values()
    return graph.tensor(tensor).shape


def test_the_dvt_goes_beside_the_model(run: Any, steps: str) -> None:
    Path("models").mkdir()
    Path(steps).rename("models/steps.onnx")
    done = run("convert", "-i", "models/steps.onnx", "-d", "x", "1,4")
    assert (done.code, done.out) == (0, ""), done.err
    assert {p.name for p in Path("models").iterdir()} == {"steps.onnx", "steps.dvt"}
    line = done.err.splitlines()[-1]
    assert line.startswith(
        "models/steps.onnx -> models/steps.dvt: 3 nodes in, 3 nodes out, 0.00 MB"
    )
    (name,) = dt.load("models/steps.dvt").graphs
    assert name == "steps"


def test_missing_folders_are_created_for_what_can_be_written(
    run: Any, steps: str, entries: Any
) -> None:
    shape = ("-d", "x", "1,4")
    before = entries()
    refused = run("convert", "-i", steps, *shape, "--overwrite-model-prefix", "-o", "a/b/c.dvt")
    assert refused.code != 0
    assert entries() == before
    assert run("convert", "-i", steps, *shape, "-o", "a/b/steps.dvt").code == 0
    assert run("quantize", "a/b/steps.dvt", "--float-fallback", "-o", "c/d.dvt").code == 0
    assert Path("c/d.dvt").is_file()


def test_what_is_converted_runs(run: Any, raw: Any, listing: Any, result: Any, steps: str) -> None:
    assert run("convert", "-i", steps, "-s", "width", "4", "-o", "out.dvt").code == 0
    x = raw("a.raw", [-1.0, 2.0, -3.0, 4.0])
    listing("a.raw")
    assert run("net-run", "--model", "out.dvt", "--input-list", "list.txt").code == 0
    np.testing.assert_array_equal(result("y.raw"), np.maximum(x, 0))


def test_models_that_quantize_say_how_they_run_on_integers(run: Any) -> None:
    ends = [["x", "q"], ["q", "y"]]
    nodes = [
        helper.make_node(f"{op}Linear", [given, "scale", "zero"], [made])
        for op, (given, made) in zip(("Quantize", "Dequantize"), ends, strict=True)
    ]
    weights = {"scale": np.float32(0.1), "zero": np.uint8(3)}
    make("pair.onnx", *nodes, dims=[1, 4], weights=weights)
    done = run("convert", "-i", "pair.onnx")
    assert done.code == 0, done.err
    note = done.err.splitlines()[-1]
    assert note.startswith("note: the model quantizes by 1 Quantize op, and computes in float")
    assert "`dovetail quantize pair.dvt`" in note
    assert run("quantize", "pair.dvt", "-o", "integers.dvt").code == 0
    assert shape("integers.dvt", "y") == (1, 4)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["-d", "x", "2,5"], (2, 5)),
        (["--input-dim", "x", "2,5"], (2, 5)),
        (["--input_dim=x", "2,5"], (2, 5)),
        (["--desired_input_shape", "x", "2,5"], (2, 5)),
        (["--define_symbol", "width", "3", "--onnx-define-symbol", "batch", "7"], (7, 3)),
        (["-s", "width", "3", "--batch", "6"], (6, 3)),
        (["-s", "width", "3", "--onnx_batch", "6"], (6, 3)),
    ],
)
def test_shapes(run: Any, steps: str, args: list[str], expected: tuple[int, ...]) -> None:
    done = run("convert", "-i", steps, *args)
    assert done.code == 0, done.err
    assert shape("steps.dvt") == expected


@pytest.mark.parametrize(("value", "expected"), [("[3,2]", (3, 2)), ("[-1]", (6,))])
def test_values_of_inputs(run: Any, value: str, expected: tuple[int, ...]) -> None:
    declare = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "to"], ["y"])],
        "shaped",
        [declare("x", TensorProto.FLOAT, [6]), declare("to", TensorProto.INT64, [None])],
        [declare("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "shaped.onnx")
    done = run("convert", "-i", "shaped.onnx", "--input-value", "to", value)
    assert done.code == 0, done.err
    (found,) = dt.load("shaped.dvt").graphs.values()
    assert [t.name for t in found.inputs] == ["x"]
    assert found.outputs[0].shape == expected


@pytest.mark.parametrize("option", ["--out-node", "--out_name", "--out-tensor-node"])
def test_the_model_is_cut_at_out_nodes(run: Any, steps: str, option: str) -> None:
    args = ["-d", "x", "1,4", option, "mid", option, "neg"]
    assert run("convert", "-i", steps, *args).code == 0
    (graph,) = dt.load("steps.dvt").graphs.values()
    assert {t.name for t in graph.outputs} == {"mid", "neg"}
    assert "y" not in graph.tensors


@pytest.mark.parametrize("option", ["-n", "--no-simplification", "--onnx_no_simplification"])
def test_no_simplification_leaves_the_nodes(run: Any, option: str) -> None:
    weights = {
        "w": np.ones((2, 1, 1, 1), "f4"),
        **{name: np.ones(2, "f4") for name in ("s", "b", "m", "v")},
    }
    conv = helper.make_node("Conv", ["x", "w"], ["c"], name="conv")
    norm = helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"], name="bn")
    make("bn.onnx", conv, norm, dims=[1, 1, 3, 3], weights=weights)
    ops = {}
    for args in ([], [option]):
        assert run("convert", "-i", "bn.onnx", *args).code == 0
        (graph,) = dt.load("bn.dvt").graphs.values()
        ops[bool(args)] = [node.op_type for node in graph.nodes]
    assert "Batchnorm" not in ops[False]
    assert "Batchnorm" in ops[True]


def test_models_of_one_file_run_together_under_two_graph_names(
    run: Any, steps: str, raw: Any, listing: Any
) -> None:
    dims = ["-d", "x", "1,2"]
    for name in ("one", "two"):
        path = f"{name}.dvt"
        assert run("convert", "-i", steps, *dims, "-o", path, "--graph-name", name).code == 0
        assert list(dt.load(path).graphs) == [name]
    raw("x.raw", [1.0, -1.0])
    listing("x.raw")
    lists = ["--input-list", "list.txt,list.txt"]
    assert run("net-run", "--model", "one.dvt,two.dvt", *lists).code == 0
    assert all(Path("output", name, "Result_0", "y.raw").exists() for name in ("one", "two"))
    same = run("net-run", "--model", "one.dvt,one.dvt", *lists)
    assert same.code == 3
    assert "--graph-name" in same.err


def test_samples_of_several_graphs(run: Any, steps: str, raw: Any) -> None:
    raw("x.raw", [1.0, -1.0])
    raw("y.raw", [1.0, -1.0, 3.0])
    for name in ("x", "y"):
        Path(f"{name}.txt").write_text(f"{name}.raw\n")
    command = ["convert", steps, "-d", "x", "1,2", "-d", "x", "1,3", "--input-list"]
    assert run(*command, "x.txt, y.txt").code == 0
    for name in ("x", "y"):
        Path(f"{name}.txt").write_text(f"no{name}.raw\n")
    done = run(*command, "x.txt, y.txt")
    assert done.code == 3
    assert all(f"{n}.txt:1: input 'x': no{n}.raw does not exist" in done.err for n in ("x", "y"))


def test_faults_of_all_kinds_of_options_are_reported_at_once(run: Any, steps: str) -> None:
    given = ["-d", "x", "a,2", "--input-type", "x", "movie", "--op-style", "1"]
    quantizer = ["--input-list", "list.txt", "--act-bitwidth", "7", "--algorithms", "cel"]
    done = run("convert", steps, *given, *quantizer)
    assert done.code == 2
    for fault in ("got 'a'", "'movie'", "--op-style", "act_bitwidth cannot be 7"):
        assert fault in done.err
    assert run("convert", steps, "-d", "x", "1,2", "--lenient", "--act-bitwidth", "7").code == 0


def test_json(run: Any) -> None:
    weights = {"w": np.ones((4, 3), "f4")}
    make("m.onnx", helper.make_node("MatMul", ["x", "w"], ["y"]), dims=[1, 4], weights=weights)
    done = run("convert", "-i", "m.onnx", "--json")
    data = done.data
    assert data["weight_bytes"] == 48
    assert data["file_bytes"] == Path("m.dvt").stat().st_size
    assert (data["model"], data["graphs"], data["source_nodes"]) == ("m.dvt", ["m"], 1)


def test_several_shapes_of_an_input_give_graphs_that_share_weights(run: Any) -> None:
    weights = np.arange(3 * 4 * 9, dtype=np.float32).reshape(4, 3, 3, 3)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    path = "net.onnx"
    make(path, conv, dims=[1, 3, "h", "w"], weights={"w": weights})
    done = run("--json", "convert", path, "-d", "x", "1,3,8,8", "--input_dim", "x", "1,3,16,12")
    assert done.code == 0, done.err
    assert done.data["graphs"] == ["net_1x3x8x8", "net_1x3x16x12"]
    model = dt.load("net.dvt")
    assert json.loads(model.producer.options["shapes"]) == {"x": [[1, 3, 8, 8], [1, 3, 16, 12]]}
    one, other = model.graphs.values()
    assert [t.shape for t in (*one.outputs, *other.outputs)] == [(1, 4, 8, 8), (1, 4, 16, 12)]
    assert one.tensor("w").data is other.tensor("w").data
    alone = run("--json", "convert", path, "-d", "x", "1,3,8,8", "-o", "one.dvt").data
    assert done.data["weight_bytes"] == alone["weight_bytes"] > weights.nbytes - 1
    x = np.random.default_rng(0).normal(size=(1, 3, 16, 12)).astype(np.float32)
    run("convert", path, "-d", "x", "1,3,16,12", "-o", "two.dvt")
    with dt.Session("net.dvt") as both, dt.Session("two.dvt") as single:
        found = both.run({"x": x}, graph="net_1x3x16x12")["y"]
        np.testing.assert_array_equal(found, single.run({"x": x})["y"])
    seen = run("--json", "convert", path, "-d", "x", "1,3,8,8", "-d", "x", "1,3,9,9", "--dry-run")
    assert seen.data["becomes"]["qti.aisw::Conv2d"] == 2


# -- dry run ---------------------------------------------------------------------------------------


def test_dry_run_of_a_good_model(run: Any, steps: str, entries: Any) -> None:
    before = entries()
    done = run("--json", "convert", "-i", steps, "--dry_run", "-d", "x", "1,4")
    assert done.code == 0, done.err
    assert entries() == before
    data = done.data
    assert data["convertible"] is True
    assert data["problems"] == []
    uses = {use["op_type"]: (use["count"], use["supported"]) for use in data["operators"]}
    assert uses == {"Relu": (1, True), "Neg": (2, True)}
    assert data["becomes"] == {"qti.aisw::ElementWiseNeg": 2, "qti.aisw::Relu": 1}
    names = [step["name"] for step in data["passes"]]
    assert names.index("channels-last") < names.index("fold-batchnorm")
    assert {step["dist"] for step in data["passes"]} == {"dovetail-opset"}
    text = run("convert", "-i", steps, "--dry-run", "-d", "x", "1,4").out
    assert "channels-last" in text
    assert "steps.onnx can be converted" in text
    without = run("--json", "convert", "-i", steps, "--dry-run", "-d", "x", "1,4", "-n").data
    assert without["passes"] == []


def test_detailed_dry_run(run: Any, steps: str, entries: Any) -> None:
    """Messages in place of tables; another word after the option is the model."""
    line = ["convert", "-i", steps, "-d", "x", "1,4"]
    detailed = run("--json", *line, "--dry-run", "debug").data
    plain = run("--json", *line, "--dry_run=info").data
    assert {k: v for k, v in detailed.items() if k != "nodes"} == plain
    text = run(*line, "--dry_run", "debug").out
    for name, ops in detailed["nodes"].items():
        assert f"{name}: becomes {', '.join(ops)}\n" in text
    assert "passes, in order" not in text
    found = run("convert", "--dry-run", steps, "-d", "x", "1,4")
    assert "passes, in order" in found.out
    wrong = run(*line, "--dry-run=all")
    assert (wrong.code, "expected info, debug or no value" in wrong.err) == (2, True)
    assert entries() == {steps}


def test_chosen_passes_in_a_dry_run(run: Any, steps: str) -> None:
    line = ["--json", "convert", "-i", steps, "--dry-run", "-d", "x", "1,4"]
    names = [step["name"] for step in run(*line).data["passes"]]
    left = [s["name"] for s in run(*line, "--passes=-fuse-bias,-channels-last").data["passes"]]
    assert left == [name for name in names if name not in ("fuse-bias", "channels-last")]
    assert len(left) == len(names) - 3


def test_unknown_passes_are_all_named_and_nothing_is_written(run: Any, steps: str) -> None:
    before = set(Path().iterdir())
    done = run("convert", steps, "-d", "x", "1,4", "--passes=-fuse-bais,+channels-last{limit=1}")
    assert done.code == 2
    assert "did you mean 'fuse-bias'?" in done.err
    assert "option 'limit' of pass 'channels-last' not found" in done.err
    assert set(Path().iterdir()) == before


def test_options_of_the_frontend_by_name(run: Any, steps: str) -> None:
    done = run(
        "convert", steps, "-d", "x", "1,4", "--frontend-option", "dropout=off", "-o", "m.dvt"
    )
    assert done.code == 0, done.err
    assert dt.load("m.dvt").producer.options["dropout"] == '"off"'
    wrong = ("dropuot=off", "dropout=of", "batch=3", "dropout")
    given = [word for text in wrong for word in ("--frontend-option", text)]
    done = run("convert", steps, "-d", "x", "1,4", *given)
    assert done.code == 2
    for part in (
        "has no option 'dropuot'",
        "did you mean 'dropout'?",
        "--frontend-option dropout: unsupported value",
        "--frontend-option batch: the option has a spelling of its own",
        "expected NAME=VALUE, got 'dropout'",
    ):
        assert part in done.err


def test_dry_run_of_an_unsupported_model(run: Any, strange: str, entries: Any) -> None:
    before = entries()
    done = run("--json", "convert", "-i", strange, "--dry-run")
    assert done.code == 4
    data = json.loads(done.out)
    assert data["convertible"] is False
    supported = {use["op_type"]: use["supported"] for use in data["operators"]}
    assert supported == {"Relu": True, "Unique": False, "StringNormalizer": False}
    told = " ".join(f"{p['where']} {p['message']}" for p in data["problems"])
    assert "first" in told
    assert "second" in told
    text = run("convert", "-i", strange, "--dry-run")
    assert text.code == 4
    assert "not supported" in text.out
    assert "cannot be converted: 2 problems" in text.err
    assert entries() == before


def test_dry_run_of_a_model_without_shapes(run: Any, steps: str) -> None:
    done = run("convert", "-i", steps, "--dry-run")
    assert done.code == 3
    assert "--define-symbol width" in done.out


def test_dry_run_shows_unused_inputs(run: Any) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "idle")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "idle.onnx")
    assert run("--json", "convert", "-i", "idle.onnx", "--dry-run").data["unused_inputs"] == [
        "idle"
    ]
    assert "idle" in run("convert", "-i", "idle.onnx", "--dry-run").out


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        ([], 3, "--define-symbol width"),
        (["-d", "x", "1,a"], 2, "expected an integer, got 'a'"),
        (["-s", "width", "4.5"], 2, "expected an integer, got '4.5'"),
        (["-s", "width", "4", "-s", "width", "8"], 2, "4 and 8 (for a graph of each shape, repeat"),
        (["-d", "x"], 2, "takes two values"),
        (["--input-value", "x", "[[1],[2,3]]"], 2, "got '[[1],[2,3]]'"),
        (["--input-value", "x", "one"], 2, "expected a number or an array of numbers, got 'one'"),
        (["--input-value", "x", "2"], 2, "shape is (), but the model declares"),
        (["--input-value", "z", "2"], 2, "input 'z' not found in the model"),
        (["-d", "x", "1,4", "-d", "x", "1,5", "-d", "x", "1,4"], 2, "given twice: 1x4"),
        (["-d", "z", "1,4"], 2, "--input-dim z: input 'z' not found in the model"),
        (["-s", "widht", "4"], 2, "did you mean 'width'?"),
        (["-d", "x", "1,4", "--out-node", "mud"], 2, "mid"),
        (["-d", "x", "1,4", "-o", "model.xyz"], 2, "--output-path model.dvt"),
        (["-d", "x", "1,4", "-o", "a.onnx", "--output-format", "onxn"], 6, "not installed"),
        (["-d", "x", "1,4", "-o", "a.dvt", "--output-format", "onnx"], 2, "a.onnx"),
        (["-d", "x", "1,4", "-o", "steps.onnx/a/model.dvt"], 3, "Not a directory"),
        (["-d", "x", "1,4", "-o", "folder.dvt"], 3, "Is a directory"),
        (["-d", "x", "1,4", "--copyright-file", "c.txt"], 3, "c.txt"),
        (["-d", "x", "1,4", "--package-nam", "c"], 2, "package-nam"),
    ],
)
def test_refusals_leave_nothing(
    run: Any, steps: str, entries: Any, args: list[str], code: int, part: str
) -> None:
    Path("folder.dvt").mkdir()
    before = entries()
    done = run("convert", "-i", steps, *args)
    assert done.code == code, done.err
    assert part in done.err
    assert entries() == before


@pytest.mark.parametrize(
    ("name", "content", "code", "name_of_error"),
    [
        ("none.onnx", None, 3, "FILE_UNREADABLE"),
        ("text.txt", b"hello", 3, "MODEL_FORMAT_UNKNOWN"),
        ("bad.onnx", b"not protobuf at all", 3, "MODEL_INVALID"),
        ("model.so", b"\x7fELF", 3, "MODEL_FOREIGN"),
    ],
)
def test_files_that_are_no_models(
    run: Any, entries: Any, name: str, content: bytes | None, code: int, name_of_error: str
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    before = entries()
    for args in ([], ["--dry-run"]):
        done = run("--json", "convert", "-i", name, *args)
        assert (done.code, done.error["code"]) == (code, name_of_error)
    assert entries() == before


def test_an_unsupported_model_leaves_the_old_dvt(run: Any, strange: str) -> None:
    Path("strange.dvt").write_bytes(b"old")
    done = run("--json", "convert", "-i", strange)
    assert (done.code, done.error["code"]) == (4, "OP_UNSUPPORTED")
    assert len(done.error["problems"]) == 2
    assert Path("strange.dvt").read_bytes() == b"old"
    assert {p.name for p in Path.cwd().iterdir()} == {"strange.dvt", "strange.onnx"}


@pytest.mark.parametrize(
    ("output", "better"),
    [(".", "NAME.dvt"), ("..", "../NAME.dvt"), ("out.xyz", "out.dvt"), ("/", "/NAME.dvt")],
)
def test_an_output_of_an_unknown_format_is_refused(
    run: Any, steps: str, output: str, better: str
) -> None:
    done = run("--json", "convert", "-i", steps, "-d", "x", "1,4", "-o", output)
    assert done.code == 2
    assert done.error["hint"] == f"use --output-path {better}"


def test_what_quantize_shows_convert_shows(run: Any, raw: Any, listing: Any, steps: str) -> None:
    raw("a.raw", [-1.0, 2.0, -3.0, 4.0])
    listing("a.raw")
    shape, lists = ["-d", "x", "1,4"], ["--input-list", "list.txt"]
    both = ["--report", "--dump_encoding_json"]
    done = run("convert", "-i", steps, *shape, *lists, *both, "-o", "whole.dvt")
    assert done.code == 0, done.err
    assert run("convert", "-i", steps, *shape, "-o", "float.dvt").code == 0
    after = run("quantize", "-i", "float.dvt", *lists, *both, "-o", "two.dvt")
    assert after.code == 0, after.err
    assert done.out == after.out
    assert "UFIXED_POINT_8" in done.out
    written = [Path(f"{name}_steps.encodings").read_text() for name in ("whole", "two")]
    assert written[0] == written[1]
    data = run("--json", "convert", "-i", steps, *shape, *lists, "-o", "whole.dvt").data
    assert data["encodings"] == []
    assert data["report"]["samples"] == {"steps": 1}


def test_a_report_needs_a_quantized_model(run: Any, steps: str) -> None:
    done = run("--json", "convert", "-i", steps, "-d", "x", "1,4", "--report")
    assert done.code == 2
    assert "no effect of --report" in done.error["message"]


def test_the_model_as_an_argument(run: Any, steps: str) -> None:
    sizes = ["--input-dim", "x", "2,3"]
    assert run("convert", steps, *sizes, "-o", "a.dvt", "--no-simplification", "true").code == 0
    assert run("convert", *sizes, "-o", "b.dvt", "--no-simplification", steps).code == 0
    assert run("convert", steps, "-i", steps, *sizes, "-o", "c.dvt").code == 0
    assert shape("a.dvt") == shape("b.dvt") == shape("c.dvt")


@pytest.mark.parametrize(
    ("words", "message"),
    [(["a.onnx", "-i", "b.onnx"], "two models: 'a.onnx' and"), ([], "missing model")],
)
def test_one_model_is_required(run: Any, words: list[str], message: str) -> None:
    done = run("convert", *words)
    assert done.code == 2
    assert message in done.err
    assert list(Path().glob("*.dvt")) == []
