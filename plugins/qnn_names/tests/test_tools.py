"""The tables of the tools, and networks that go through the tools."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import dovetail
from dovetail.cli import option_names
from dovetail.errors import ConfigError, PluginError
from dovetail_qnn_names._tools import TOOLS
from dovetail_qnn_names._translation import translated

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))


def run(text: str, folder: Path, code: int = 0) -> str:
    done = forked.run(text, folder)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_each_tool_is_a_program() -> None:
    scripts = PROJECT["project"]["scripts"]
    assert scripts.keys() == TOOLS.keys()
    for name, value in scripts.items():
        assert value == f"dovetail_qnn_names:{name.replace('-', '_')}"


def test_errors_name_the_tool(tmp_path: Path) -> None:
    (tmp_path / "o.json").write_text("{}")
    for given in ("-i a.onnx b.onnx", "-i a.onnx -p x --op_package_config o.xml"):
        assert "error[USAGE]: qairt-converter: " in run(f"qairt-converter {given}", tmp_path, 2)


def options_used() -> Iterator[tuple[str, str]]:
    for tool in TOOLS.values():
        tokens = [t for default in tool.defaults for t in default[:1]]
        for each in tool.implied:
            tokens += [each.by, *each.unless, *each.tokens, *(each.needs or ())[:1]]
        for option in tool.options:
            tokens += [*option.to, *(t for to in option.values.values() for t in to)]
        if tool.output is not None:
            tokens += [tool.output.option, tool.output.short, *tool.output.source]
            tokens += ["--output-format", "--graph-name"] if tool.output.names_graph else []
        tokens += [*tool.superseded, *tool.superseded.values()]
        yield from ((tool.command, token) for token in tokens if token.startswith("-"))


def test_tables_name_options_that_exist() -> None:
    used = set(options_used())
    assert {(c, o) for c, o in used if o not in option_names(c)} == set()


ADDED = (
    "--input-format onnx --legacy-io-layout --op-style 2.27 --lenient --strip-quant-nodes "
    "--c-names --zero-biases --narrow-types"
)
NATIVE = " --use-native-input-files"


def output(name: str, graph: str = "") -> str:
    form = "qnn-cpp" if name.endswith(".cpp") else "dlc"
    named = f" --graph-name {graph}" if graph else ""
    return f"--output-path {name} --output-format {form}{named}"


@pytest.mark.parametrize(
    ("tool", "given", "added", "kept"),
    [
        (
            "qnn-onnx-converter",
            "--input_network a/my-net.onnx",
            f"{ADDED} {output('a/my-net.cpp', 'my_net')}",
            "--input_network a/my-net.onnx",
        ),
        (
            "qnn-onnx-converter",
            "-i 1.onnx -o 8bit --op_style=2.18 --lenient --debug -p qti.aisw",
            "--input-format onnx --legacy-io-layout --strip-quant-nodes --c-names --zero-biases "
            f"--narrow-types {output('8bit.cpp', '_8bit')}",
            "-i 1.onnx --op_style=2.18 --lenient --log-level debug",
        ),
        (
            "qnn-onnx-converter",
            "-i a.onnx -opl x.py:P --dry_run debug --use_native_dtype --debug 0 --graph-name=g",
            f"{ADDED} {output('a.cpp')}",
            "-i a.onnx -opl x.py:P --dry_run debug --use_native_dtype --graph-name=g",
        ),
        (
            "qnn-onnx-converter",
            "-i a.onnx -o b.dlc --output_format dlc",
            f"{ADDED} --output-path b.dlc --graph-name b",
            "-i a.onnx --output_format dlc",
        ),
        *(
            (
                "qnn-onnx-converter",
                f"-i a.onnx --input_list l.txt{kept}",
                f"{ADDED}{native} --quantization-style sdk {output('a.cpp', 'a')}",
                f"-i a.onnx --input_list l.txt{kept}",
            )
            for kept, native in (
                (" --preserve_io layout x", ""),
                (" --preserve_io layout x --preserve_io datatype x", NATIVE),
                (" --preserve_io=datatype", NATIVE),
                (" --preserve_io", NATIVE),
                (" --preserve_io --use_native_input_files", ""),
            )
        ),
        (
            "qairt-converter",
            "--input_network=net.onnx --output_path deep/net.dlc --dry_run",
            "--lenient --strip-quant-nodes --zero-biases --narrow-types "
            + output("deep/net.dlc", "net"),
            "--input_network=net.onnx --dry_run",
        ),
        (
            "qairt-converter",
            "-i a.onnx --quantization_overrides o.json",
            "--lenient --strip-quant-nodes --zero-biases --narrow-types --cache-overrides "
            + output("a.dlc", "a"),
            "-i a.onnx --quantization_overrides o.json",
        ),
        (
            "qairt-converter",
            "-i a.onnx --quantization_overrides o.json --float_fallback",
            "--lenient --strip-quant-nodes --zero-biases --narrow-types --quantization-style sdk "
            + output("a.dlc", "a"),
            "-i a.onnx --quantization_overrides o.json --float_fallback",
        ),
        *(
            (
                "qnn-onnx-converter",
                f"-i a.onnx{file} --float_fallback",
                f"{ADDED} --quantization-style sdk {output('a.cpp', 'a')}",
                f"-i a.onnx{file} --float_fallback",
            )
            for file in ("", " --quantization_overrides o.json")
        ),
        (
            "qairt-quantizer",
            "--input_dlc net.dlc --floatFallback --use_native_output_files",
            "--lenient --quantization-style sdk --output-dlc net.quantized.dlc --output-format dlc",
            "--input_dlc net.dlc --floatFallback",
        ),
        (
            "qnn-net-run",
            "--model=a.so --retrieve_context b.bin --debug",
            "",
            "--retrieve_context b.bin --debug",
        ),
        ("qnn-net-run", "--model a.so --debug", "", "--model a.so --debug"),
        (
            "qnn-net-run",
            "--input_data_type native --output_data_type native_only",
            "",
            "--use-native-input-files --output_data_type native_only",
        ),
        ("qnn-net-run", "--input_data_type=float --model a.so", "", "--model a.so"),
        ("qairt-lora-importer", "--input_dlc a.dlc", "", "--input_dlc a.dlc"),
        ("qnn-op-package-generator", "-p a.xml -cop", "", "-p a.xml"),
        ("qnn-context-binary-generator", "--verbose", "", "--log-level verbose"),
        ("qnn-onnx-converter", "-o a.cpp --version", "", "-o a.cpp --version"),
        (
            "qairt-converter",
            "-i a.onnx -s x 1,3 -q o.json -oss --config io.yaml --target_backend HTP --onnx_summary"
            " --export_format DLC_STRIP_QUANT --target_soc_model SM8650 --expand_lstm_op_structure",
            "--lenient --strip-quant-nodes --zero-biases --narrow-types --cache-overrides "
            + output("a.dlc", "a"),
            "-i a.onnx --input-dim x 1,3 --quantization-overrides o.json --no-simplification "
            "--io-config io.yaml --target-backend htp --ignore-encodings",
        ),
        (
            "qnn-onnx-converter",
            "-i a.onnx -s batch 1 --backend GPU --validate_models --export_format cpp",
            f"{ADDED} {output('a.cpp', 'a')}",
            "-i a.onnx -s batch 1 --target-backend gpu",
        ),
        (
            "qairt-quantizer",
            "-i a.dlc -l l.txt -f -c q.yaml --target_backend LPAI --use_quantize_v2 --preserve x",
            "--lenient --quantization-style sdk --output-dlc a.quantized.dlc --output-format dlc",
            "-i a.dlc --input-list l.txt --float-fallback --config-file q.yaml --target-backend "
            "lpai --preserve-io-datatype x",
        ),
        (
            "qnn-context-binary-generator",
            "--htp_socs sm8750 --vtcm_override=4 --save_backend_op_mapping --dlc_path a.dlc",
            "",
            "--dlc_path a.dlc",
        ),
        ("qnn-net-run", "--device_options device_id:0 --model a", "", "--model a"),
        # options may be cut, as long as only one of the tool's begins so
        (
            "qairt-converter",
            "--input_net=a.onnx --xy b.dlc --output b.dlc",
            f"--lenient --strip-quant-nodes --zero-biases --narrow-types {output('b.dlc', 'b')}",
            "--input-network=a.onnx --xy b.dlc",
        ),
        (
            "qnn-net-run",
            "--set a --output o --act",
            "",
            "--set-output-tensors a --output-dir o --act",
        ),
    ],
)
def test_arguments_become_those_of_the_command(
    tool: str, given: str, added: str, kept: str
) -> None:
    found = translated(TOOLS[tool], given.split())
    assert found == [TOOLS[tool].command, *added.split(), *kept.split()]


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("qnn-onnx-converter", "-i a.onnx -d x:1,3,8,6", "option '-d' takes two values"),
        (
            "qairt-converter",
            "-i a.onnx --quantization_overrides",
            "Option '--quantization-overrides'",
        ),
        ("qnn-onnx-converter", "-i a.onnx -o", "Option '-o'"),
    ],
)
def test_a_last_option_without_its_value_is_named(
    tool: str, given: str, said: str, tmp_path: Path
) -> None:
    assert said in run(f"{tool} {given}", tmp_path, code=2)


@pytest.mark.parametrize("given", ["--input_data_type natve", "--input_data_type=natve"])
def test_a_value_that_becomes_nothing_is_named_with_those_that_do(given: str) -> None:
    with pytest.raises(ConfigError, match=r"'natve' of --input-data-type.*one of float, native"):
        translated(TOOLS["qnn-net-run"], [*given.split(), "--model", "a.so"])
    with pytest.raises(ConfigError, match="'' of --input-data-type"):
        translated(TOOLS["qnn-net-run"], ["--input_data_type"])


def test_an_option_that_several_begin_with_is_ambiguous() -> None:
    with pytest.raises(ConfigError, match=r"ambiguous option --input;.* --input-network"):
        translated(TOOLS["qairt-converter"], ["--input", "a.onnx"])


def test_an_option_without_effect_takes_no_other_option_as_its_value() -> None:
    with pytest.raises(ConfigError, match="--packed-max-seq requires a value"):
        translated(TOOLS["qairt-converter"], ["-i", "a.onnx", "--packed_max_seq", "--debug"])


@pytest.mark.parametrize("model", ["net.pb", "net.pt", "net.tflite", "saved_model"])
def test_missing_frontends_are_named(model: str) -> None:
    with pytest.raises(PluginError, match="is not installed") as caught:
        translated(TOOLS["qairt-converter"], ["-i", model])
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    ("tool", "given", "option"),
    [
        ("qnn-onnx-converter", "", "--input_network"),
        ("qairt-converter", "net.onnx --debug", "--input_network"),  # no tool has arguments
        ("qairt-quantizer", "--input_list list.txt", "--input_dlc"),
    ],
)
def test_a_missing_model_is_named_as_the_tool_spells_it(tool: str, given: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"missing option {option}") as caught:
        translated(TOOLS[tool], given.split())
    assert f"{option} MODEL" in caught.value.hint
    assert caught.value.exit_code == 2


def test_help_lists_what_differs(tmp_path: Path) -> None:
    text = run("qnn-onnx-converter --help", tmp_path)
    assert text.startswith("This is `dovetail convert`")
    assert "-p, --package-name" in text
    assert "--log-level debug; 0, false: nothing\n" in text
    assert "Usage: qnn-onnx-converter" in text
    said = run("qnn-net-run", tmp_path, code=2)
    assert "qnn-net-run: Missing option '--input-list'" in said


def network() -> onnx.ModelProto:
    """Return two convolutions with Relus, of an image that is not square."""
    draw = np.random.default_rng(8)
    weights = {
        "a.weight": draw.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "b.weight": draw.normal(size=(2, 4, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a.weight"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "b.weight"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, n, 6, 8])
        for name, n in (("x", 3), ("y", 2))
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with net.onnx, and an input in both layouts."""
    path = tmp_path_factory.mktemp("net")
    onnx.save(network(), path / "net.onnx")
    x = np.random.default_rng(2).normal(size=(1, 3, 6, 8)).astype("<f4")
    np.save(path / "x.npy", x)
    x.tofile(path / "first.raw")
    x.transpose(0, 2, 3, 1).tofile(path / "last.raw")
    for name in ("first", "last"):
        (path / f"{name}.txt").write_text(f"{name}.raw\n")
    return path


def expected(folder: Path) -> np.ndarray:
    """Return what the ONNX reference computes, channels-first."""
    (y,) = ReferenceEvaluator(network()).run(None, {"x": np.load(folder / "x.npy")})
    return np.asarray(y)


def interface(folder: Path, name: str) -> dict[str, list[int]]:
    tensors = json.loads((folder / name).read_text())["graph"]["tensors"]
    return {n: t["dims"] for n, t in tensors.items() if t["type"] in (0, 1)}


def check_channels_last(folder: Path, model: str) -> None:
    """Run a model whose input and output are channels-last, and compare."""
    run(
        f"qnn-net-run --model {model} --backend libQnnCpu.so --input_list last.txt "
        "--output_dir out",
        folder,
    )
    y = np.fromfile(folder / "out/Result_0/y.raw", "<f4").reshape(1, 6, 8, 2)
    # float32 sums of 27 and of 4 products, in another order
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2), expected(folder), rtol=1e-5, atol=1e-5)


def test_legacy_tools_from_onnx_to_outputs(folder: Path) -> None:
    run("qnn-onnx-converter --input_network net.onnx --output_path old.cpp", folder)
    assert interface(folder, "old_net.json") == {"x": [1, 6, 8, 3], "y": [1, 6, 8, 2]}
    assert 'getQnnGraphConfigFromInfo("old"' in (folder / "old.cpp").read_text()
    run("qnn-model-lib-generator -c old.cpp -b old.bin -t x86_64-linux-clang -o libs", folder)
    check_channels_last(folder, "libs/x86_64-linux-clang/libold.so")


@pytest.mark.parametrize("option", ["-n", "--onnx_no_simplification"])
def test_without_passes_a_model_has_the_ops_of_the_tool_and_runs(folder: Path, option: str) -> None:
    run(f"qnn-onnx-converter -i net.onnx -o plain.cpp {option}", folder)
    nodes = json.loads((folder / "plain_net.json").read_text())["graph"]["nodes"]
    assert "ElementWiseNeuron" in {node["type"] for node in nodes.values()}
    check_channels_last(folder, "plain.cpp")


def test_outputs_have_the_names_of_the_tool(folder: Path) -> None:
    model = network()
    (model.graph.input[0].name, model.graph.output[0].name) = ("in.1", "495")
    (model.graph.node[0].input[0], model.graph.node[3].output[0]) = ("in.1", "495")
    (model.graph.node[0].output[0], model.graph.node[1].input[0]) = ("7", "7")
    onnx.save(model, folder / "numbers.onnx")
    run("qnn-onnx-converter -i numbers.onnx -o numbers.cpp", folder)
    run("qnn-model-lib-generator -c numbers.cpp -b numbers.bin -o numbers -t x86", folder)
    run(
        "qnn-context-binary-generator --model numbers/x86/libnumbers.so --backend libQnnCpu.so "
        "--binary_file numbers --output_dir numbers",
        folder,
    )
    for name in ("in_1", "in.1"):
        (folder / "numbers.txt").write_text(f"{name}:=last.raw\n")
        for source in (
            "--model numbers/x86/libnumbers.so",
            "--retrieve_context numbers/numbers.bin",
        ):
            run(f"qnn-net-run {source} --backend libQnnCpu.so --input_list numbers.txt", folder)
            found = [path.name for path in (folder / "output/Result_0").iterdir()]
            assert found == ["_495.raw"]
    run("qnn-net-run --model numbers.cpp --backend cpu --input_list numbers.txt --debug", folder)
    found = [path.name for path in (folder / "output/Result_0").iterdir()]
    assert sorted(found) == ["_495.raw", "_7.raw", "b.raw", "r.raw"]


def test_layouts_can_be_kept(folder: Path) -> None:
    run("qnn-onnx-converter -i net.onnx -o kept.cpp --preserve_io layout", folder)
    assert interface(folder, "kept_net.json") == {"x": [1, 3, 6, 8], "y": [1, 2, 6, 8]}


def test_quantizer_options_without_samples_are_ignored(folder: Path) -> None:
    said = run("qnn-onnx-converter -i net.onnx -o float.cpp --act_bw 16 --bias_bw 32", folder)
    assert "no effect of --act-bitwidth, --bias-bitwidth" in said
    run("dovetail convert -i net.onnx -o float.dvt --act-bitwidth 16", folder, code=2)


def quantized_network() -> onnx.ModelProto:
    """Return the network with nodes that quantize and dequantize its input and its first Relu."""
    model = network()
    for at, name, scale, zero in ((0, "x", 0.03, 100), (4, "r", 0.05, 0)):
        constants = (np.float32(scale), np.uint8(zero))
        names = [f"{name}.{part}" for part in ("scale", "zero")]
        model.graph.initializer.extend(map(numpy_helper.from_array, constants, names))
        made = [
            helper.make_node("QuantizeLinear", [name, *names], [f"{name}.q"]),
            helper.make_node("DequantizeLinear", [f"{name}.q", *names], [f"{name}.real"]),
        ]
        for node in model.graph.node:
            node.input[:] = [f"{name}.real" if given == name else given for given in node.input]
        for node in reversed(made):
            model.graph.node.insert(at, node)
    onnx.checker.check_model(model)
    return model


def test_convolutions_get_biases_of_zeros(folder: Path) -> None:
    run("qnn-onnx-converter -i net.onnx -o zero.cpp --input_list last.txt --bias_bw 32", folder)
    graph = json.loads((folder / "zero_net.json").read_text())["graph"]
    convolutions = {n: v for n, v in graph["nodes"].items() if v["type"] == "Conv2d"}
    assert len(convolutions) == 2
    for name, node in convolutions.items():
        assert node["input_names"][2:] == [f"{name}_bias"]
        bias = graph["tensors"][f"{name}_bias"]
        # the SDK's own: a range of 1e-4 on either side
        assert bias["quant_params"]["scale_offset"]["scale"] == pytest.approx(4.6566e-14, rel=1e-4)
    run("qairt-converter -i net.onnx -o zero.dlc", folder)
    (found,) = dovetail.load_model(folder / "zero.dlc").graphs.values()
    biases = [node.inputs[2] for node in found.nodes if node.op_type == "Conv2d"]
    assert [tensor.values().tolist() for tensor in biases] == [[0.0] * 4, [0.0] * 2]


def nodes_of(path: Path) -> list[str]:
    return [node["type"] for node in json.loads(path.read_text())["graph"]["nodes"].values()]


def test_nodes_that_quantize_become_encodings(folder: Path) -> None:
    onnx.save(quantized_network(), folder / "qdq.onnx")
    run("qnn-onnx-converter -i qdq.onnx -o kept.cpp --keep_quant_nodes", folder)
    assert nodes_of(folder / "kept_net.json").count("Quantize") == 2
    for option in ("--ignore_encodings", "", "--float_bw 32"):
        run(f"qnn-onnx-converter -i qdq.onnx -o stated.cpp {option}", folder)
        assert nodes_of(folder / "stated_net.json") == ["Conv2d", "ElementWiseNeuron"] * 2
    run("qairt-converter -i qdq.onnx -o stated.dlc", folder)
    graphs = []
    for model in ("qdq.onnx", "stated.cpp", "stated.dlc"):
        # the convolutions have no encodings, nor has an input that only one of them reads
        run(f"dovetail quantize -i {model} -o fixed.dvt --float-fallback", folder)
        (graph,) = dovetail.load(folder / "fixed.dvt").graphs.values()
        graphs.append({t.source: t.encoding for t in graph.tensors.values() if t.encoding})
    assert {"x", "r"} <= graphs[0].keys()
    assert graphs[2] == graphs[0]
    assert graphs[1] == {name: found for name, found in graphs[0].items() if name != "x"}


def test_a_network_with_ids_runs_on_an_htp(folder: Path) -> None:
    """Its inputs are integers of 64 bits, which the processor cannot compute with."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["found"]),
        helper.make_node("Cast", ["mask"], ["real"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["found", "real"], ["y"]),
    ]
    table = np.random.default_rng(6).normal(size=(5, 3)).astype(np.float32)
    infos = [
        helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [4]),
        helper.make_tensor_value_info("mask", onnx.TensorProto.INT64, [4, 1]),
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 3]),
    ]
    constants = [numpy_helper.from_array(table, "table")]
    graph = helper.make_graph(nodes, "ids", infos[:2], infos[2:], constants)
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "ids.onnx")
    ids, mask = np.array([4, 0, -1, 2]), np.array([1, 1, 0, 1])
    ids.tofile(folder / "ids.raw")
    mask.tofile(folder / "mask.raw")
    (folder / "ids.txt").write_text("ids:=ids.raw mask:=mask.raw\n")
    run("qairt-converter -i ids.onnx", folder)
    run(
        "qnn-net-run --model libQnnModelDlc.so --dlc_path ids.dlc --backend libQnnHtp.so "
        "--input_list ids.txt --use_native_input_files --output_dir ids",
        folder,
    )
    y = np.fromfile(folder / "ids/Result_0/y.raw", "<f4").reshape(4, 3)
    np.testing.assert_array_equal(y, table[ids] * mask[:, np.newaxis].astype(np.float32))


def test_files_of_inner_tensors_have_the_names_in_the_json(folder: Path) -> None:
    """Also those of layout changes, which are named after tensors of the user's model."""
    run("qnn-onnx-converter -i net.onnx -o inner.cpp --preserve_io layout", folder)
    tensors = json.loads((folder / "inner_net.json").read_text())["graph"]["tensors"]
    assert "y_channels_last" in tensors
    run("qnn-model-lib-generator -c inner.cpp -b inner.bin -t x86 -o inner", folder)
    run(
        "qnn-net-run --model inner/x86/libinner.so --backend libQnnCpu.so --input_list first.txt "
        "--debug --output_dir inner",
        folder,
    )
    files = {path.stem for path in (folder / "inner/Result_0").iterdir()}
    assert "y_channels_last" in files
    assert files <= tensors.keys()


def test_types_of_some_inputs_and_outputs_are_preserved(folder: Path) -> None:
    run("qairt-converter -i net.onnx -o kept.dlc", folder)
    quantize = "qairt-quantizer -i kept.dlc -l first.txt -o kept8.dlc"
    some = "--preserve_io_datatype x"
    kinds = {"": "--", "--preserve_io_datatype": "xy", some: "x"}
    kinds[f"{some} --preserve_io_datatype"] = "xy"
    for option, real in kinds.items():
        run(f"{quantize} {option}", folder)
        (graph,) = dovetail.convert(folder / "kept8.dlc").graphs.values()
        ends = (*graph.inputs, *graph.outputs)
        assert {t.name for t in ends if t.dtype.is_float} == set(real) - {"-"}
    assert "no input or output 'z'" in run(f"{quantize} --preserve_io_datatype x z", folder, 2)


def test_a_float_model_for_a_backend_is_no_failed_quantization(folder: Path) -> None:
    said = run("qairt-converter -i net.onnx -o aimed.dlc --target_backend HTP", folder)
    assert "float_fallback" not in said


def test_options_without_effect_are_no_errors(folder: Path) -> None:
    quantize = "qairt-quantizer --input_dlc some.dlc --input_list first.txt --output_dlc out.dlc"
    run("qairt-converter -i net.onnx -o some.dlc", folder)
    said = run(f"{quantize} --percentile_calibration_value 99.9 --pack_4_bit_weights", folder)
    assert "note: an option had no effect: percentile_calibration_value requires" in said
    assert "note: an option had no effect: pack_4_bit_weights requires" in said
    said = run(f"{quantize} --export_stripped_dlc", folder)
    assert "note: --export-stripped-dlc has no effect: a DLC has only" in said


def test_graphs_of_files_are_named_after_them(folder: Path) -> None:
    """Parts of a network often have files of one name, in a folder each."""
    for part in ("first.f32", "second"):
        run(f"qairt-converter -i net.onnx -o {part}.dlc", folder)
    quantize = "qairt-quantizer --input_dlc first.f32.dlc --input_list first.txt"
    run(f"{quantize} --output_dlc eight.dlc", folder)
    graphs = [{"graph_names": ["first_f32", "second"], "vtcm_mb": 8}]
    (folder / "htp.json").write_text(json.dumps({"graphs": graphs}))
    run(
        "qnn-context-binary-generator --model libQnnModelDlc.so --dlc_path eight.dlc,second.dlc "
        "--backend libQnnHtp.so --binary_file both --config_file htp.json",
        folder,
    )
    assert set(dovetail.load_model(folder / "eight.dlc").graphs) == {"first_f32"}
    run("qairt-converter -i eight.dlc -o other.dlc", folder)  # which names its graphs
    assert set(dovetail.load_model(folder / "other.dlc").graphs) == {"first_f32"}


def test_outputs_that_the_application_wants_quantized_stay(folder: Path) -> None:
    text = "- IOName: y\n  Datatype: uint8\n  QuantParam: {Scale: 0.02, Offset: 0}\n"
    (folder / "custom_io.yaml").write_text(text)
    said = run("qnn-onnx-converter -i net.onnx -o wanted.cpp --custom_io custom_io.yaml", folder)
    assert nodes_of(folder / "wanted_net.json")[-1] == "Quantize"
    assert "became encodings" not in said


def test_qairt_tools_from_onnx_to_outputs(folder: Path) -> None:
    run("qairt-converter --input_network net.onnx", folder)
    run("qairt-quantizer --input_dlc net.dlc --input_list first.txt --act_bitwidth 16", folder)
    for model, backend in (("net", "Cpu"), ("net.quantized", "Htp")):
        run(
            f"qnn-net-run --model libQnnModelDlc.so --dlc_path {model}.dlc "
            f"--backend sdk/lib/libQnn{backend}.so --input_list first.txt --output_dir {model}",
            folder,
        )
        y = np.fromfile(folder / model / "Result_0/y.raw", "<f4").reshape(1, 2, 6, 8)
        wanted = expected(folder)
        # weights of 8 bits: half a step of each of 27 and of 4, of which errors add up at random
        limit = 1e-5 if model == "net" else 0.02 * float(wanted.max())
        assert np.abs(y - wanted).max() < limit
