"""The sample commands of QNN's public documents, as they are printed there.

Each has the document and the line. Placeholders in angle brackets get the values of PLACEHOLDERS;
`adds` is what a document leaves out (`....`). A line that is cut off in the text ends as others of
its document do. Samples of other tools and for other machines are in docs/qnn_names.md.
"""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath

import forked
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

PLACEHOLDERS = {
    "<path>": ".",
    "<network_input_name>": "input",
    "<network_output_name>": "output",
    "<dims>": "1,3,8,8",
    "<optional_output_path>": "out.cpp",
    "<optional_package_name>": "qti.aisw",
    "<path_to_model_library>": "libraries",
    "<path_to_JSON_file.json>": "extensions.json",
    "<path_to_input_list.txt>": "input_data.txt",
    "<output_dir_for_result>": "results",
    "<output_dir_for_result_and_qnngraph_serialized_binary>": "serialized",
    "<path/to/YAML/file>": "custom_io.yaml",
    "<output_folder>": ".",
    "<space separated list of names of inputs and outputs of the graph>": "input output",
    "<overrides.json>": "quantization_config.json",
    "./model_net.json": "m/model_net.json",
    "./model.bin": "m/model.bin",
    "<model-A.so>": "libraries/libQnnModel.so",
    "<model-B.so>": "libraries/libother.so",
    "${QNN_SDK_ROOT}/examples/Models/InceptionV3/tensorflow": ".",
    "${QNN_SDK_ROOT}": "sdk",
}
GUIDE, SUITE, QMEM, SHARING = "reference guide", "tutorial", "shared buffers", "weight sharing"
CPP = ("model.cpp", "model.bin", "model_net.json")
CHECK = (
    "qnn-architecture-checker --input_json ./model_net.json --bin ./model.bin "
    "--output_path ./archCheckerOutput"
)
CHECKED = "archCheckerOutput/model_architecture_checker.csv"
ONNX = "${QNN_SDK_ROOT}/bin/x86_64-linux-clang/qnn-onnx-converter"
MODEL = "--input_network model.onnx"
# The tutorial's quantization_config.json.
CONFIG = """// quantization_config.json
{
  "activation_encodings": {
    "conv1/Relu:0": {"bitwidth": 8, "max": 6.0, "min": 0.0, "scale": 0.023529, "offset": 0}
  },
  "param_encodings": {
    "conv1.weight": {"bitwidth": 8, "max": 2.5, "min": -2.5, "scale": 0.019608, "offset": 127}
  },
  "activation_bitwidth": 8,
  "param_bitwidth": 8,
  "bias_bitwidth": 32
}
"""
NAMES = "<space separated list of names of inputs and outputs of the graph>"


@dataclass(frozen=True)
class Sample:
    """A command, what it writes, and how it ends."""

    document: str
    line: int
    text: str
    writes: tuple[str, ...] = ()
    code: int = 0
    says: str = ""
    adds: str = ""


SAMPLES = (
    Sample(GUIDE, 2867, CHECK, (CHECKED,)),
    Sample(GUIDE, 2887, f"{CHECK} --modify", (CHECKED,), says="MODIFICATION"),
    Sample(GUIDE, 2893, f"{CHECK} --modify show", (CHECKED,), says="MODIFICATION"),
    Sample(GUIDE, 2900, f"{CHECK} --modify all", (CHECKED,), says="nothing to modify"),
    Sample(
        GUIDE,
        2906,
        f"{CHECK} --modify apply=prelu,elwisediv",
        (CHECKED,),
        says="nothing to modify",
    ),
    Sample(
        GUIDE,
        833,
        "qnn-tensorflow-converter -i <path>/frozen_graph.pb -d <network_input_name> <dims> "
        "--out_node <network_output_name> -o <optional_output_path> --allow_unconsumed_nodes "
        "-p <optional_package_name>",
        code=6,
        says="'tensorflow'",
    ),
    Sample(
        GUIDE,
        1004,
        "qnn-tflite-converter -i <path>/model.tflite -d <network_input_name> <dims> "
        "-o <optional_output_path> -p <optional_package_name>",
        code=6,
        says="'tflite'",
    ),
    Sample(
        GUIDE,
        1253,
        "qnn-pytorch-converter -i <path>/model.pt -d <network_input_name> <dims> "
        "-o <optional_output_path> -p <optional_package_name>",
        code=6,
        says="'pytorch'",
    ),
    Sample(
        GUIDE,
        1697,
        "qnn-tensorflow-converter -i <path>/frozen_graph.pb -d <network_input_name> <dims> "
        "--out_node <network_output_name> -o <optional_output_path> --allow_unconsumed_nodes "
        "-p <optional_package_name> --input_list input_list.txt",
        code=6,
        says="'tensorflow'",
    ),
    Sample(
        GUIDE,
        2059,
        "qnn-context-binary-generator --binary_file qnngraph.serialized.bin "
        "--model <path_to_model_library>/libQnnModel.so "
        "--backend ${QNN_SDK_ROOT}/lib/x86_64-linux-clang/libQnnHtp.so "
        "--output_dir <output_dir_for_result_and_qnngraph_serialized_binary>",
        ("serialized/qnngraph.serialized.bin",),
    ),
    Sample(
        GUIDE,
        2073,
        "qnn-net-run --retrieve_context qnngraph.serialized.bin "
        "--backend <path_to_model_library>/libQnnHtp.so "
        "--model <path_to_model_library>/libQnnModel.so "
        "--output_dir <output_dir_for_result> --input_list <path_to_input_list.txt>",
        ("results/Result_0/output.raw",),
        says="--model has no effect: --retrieve-context replaces it",
    ),
    Sample(
        GUIDE,
        2118,
        "qnn-net-run --model <path_to_model_library>/libQnnModel.so "
        "--backend ${QNN_SDK_ROOT}/lib/x86_64-linux-clang/libQnnHtp.so "
        "--config_file <path_to_JSON_file.json> --output_dir <output_dir_for_result> "
        "--input_list <path_to_input_list.txt>",
        ("results/Result_0/output.raw",),
    ),
    Sample(
        GUIDE,
        4745,
        "qnn-tensorflow-converter --input_network frozen_graph.pb "
        "--input_dim Preprocessor/sub 1,300,300,3",
        code=6,
        says="'tensorflow'",
    ),
    Sample(
        GUIDE,
        4758,
        'qnn-tflite-converter --input_network model.tflite --input_dim "input" 1,299,299,3 '
        "--output_path model.cpp",
        code=6,
        says="'tflite'",
    ),
    Sample(
        GUIDE,
        4771,
        'qnn-pytorch-converter --input_network model.pt --input_dim "input" 1,3,299,299 '
        "--output_path model.cpp",
        code=6,
        says="'pytorch'",
    ),
    Sample(
        GUIDE, 4778, "qnn-onnx-converter --input_network model.onnx --output_path model.cpp", CPP
    ),
    Sample(
        GUIDE,
        4788,
        "qnn-onnx-converter --input_network model.onnx "
        "--converter_op_package_lib libExampleLibrary.so",
        code=2,
        says="op-package-generator",  # the library is compiled code; what to do instead
    ),
    Sample(GUIDE, 4842, f"{ONNX} --custom_io <path/to/YAML/file>", CPP, adds=MODEL),
    Sample(
        GUIDE,
        4849,
        f"{ONNX} --input_network "
        "${QNN_SDK_ROOT}/examples/Models/InceptionV3/tensorflow/model.onnx "
        "--dump_custom_io_config_template <output_folder>/config.yaml",
        ("config.yaml",),
    ),
    Sample(GUIDE, 4873, f"{ONNX} --preserve_io", CPP, adds=MODEL),
    Sample(GUIDE, 4878, f"{ONNX} --preserve_io layout", CPP, adds=MODEL),
    Sample(GUIDE, 4883, f"{ONNX} --preserve_io datatype", CPP, adds=MODEL),
    Sample(GUIDE, 4888, f"{ONNX} --preserve_io layout {NAMES}", CPP, adds=MODEL),
    Sample(GUIDE, 4893, f"{ONNX} --preserve_io datatype {NAMES}", CPP, adds=MODEL),
    Sample(
        GUIDE,
        4898,
        f"{ONNX} --preserve_io layout {NAMES} --preserve_io datatype {NAMES}",
        CPP,
        adds=MODEL,
    ),
    Sample(GUIDE, 4908, f"{ONNX} --preserve_io layout {NAMES}", CPP, adds=MODEL),
    Sample(GUIDE, 4913, f"{ONNX} --preserve_io datatype {NAMES}", CPP, adds=MODEL),
    Sample(GUIDE, 4941, "qairt-converter --input_network model.onnx", ("model.dlc",)),
    Sample(
        GUIDE,
        4946,
        "qairt-converter --input_network inception_v3_2016_08_28_frozen.pb "
        "--desired_input_shape input 1,299,299,3 "
        "--out_tensor_node InceptionV3/Predictions/Reshape_1",
        code=6,
        says="'tensorflow'",
    ),
    Sample(
        GUIDE,
        5023,
        "qairt-converter --input_network model.onnx "
        "--dump_io_config_template <output_folder>/io_config.yaml",
        ("io_config.yaml",),
    ),
    Sample(
        GUIDE,
        5038,
        "qairt-converter --float_bitwidth 16 --float_bias_bitwidth 32",
        ("model.dlc",),
        adds=MODEL,
    ),
    Sample(GUIDE, 5041, "qairt-converter --dry_run", adds=MODEL),
    Sample(
        GUIDE,
        5432,
        "qairt-quantizer --input_dlc inception_v3.dlc --input_list image_file_list.txt "
        "--output_dlc inception_v3_quantized.dlc",
        ("inception_v3_quantized.dlc",),
    ),
    Sample(SUITE, 95, "qnn-model-lib-generator --help"),
    Sample(SUITE, 96, "qnn-context-binary-generator --help"),
    Sample(SUITE, 97, "qnn-net-run --help"),
    Sample(
        SUITE,
        157,
        "qnn-onnx-converter --input_network simple_model.onnx --output_path simple_model.cpp "
        "--input_dim input 1,3,224,224 --quantization_overrides quantization_config.json",
        ("simple_model.cpp", "simple_model.bin", "simple_model_net.json"),
    ),
    Sample(
        SUITE,
        168,
        "qnn-model-lib-generator -c simple_model.cpp -b simple_model.bin -t x86_64-linux-clang "
        "-l simple_model -o simple_model_qnn.so",
        ("simple_model_qnn.so/x86_64-linux-clang/libsimple_model.so",),
    ),
    Sample(
        SUITE,
        224,
        "qnn-onnx-converter --input_network model.onnx --output_path model_quantized.cpp "
        "--input_dim input 1,3,224,224 --quantization_overrides quantization_config.json "
        "--target_device hexagon --optimization_level high",
        ("model_quantized.cpp",),
        says="--optimization-level has no effect",
    ),
    Sample(
        SUITE,
        239,
        "qnn-model-lib-generator -c model_quantized.cpp -b model_quantized.bin "
        "-t aarch64-android -l model_optimized -o model_optimized.so --target_backends htp,gpu,cpu",
        ("model_optimized.so/aarch64-android/libmodel_optimized.so",),
        says="--target-backends has no effect",
    ),
    Sample(
        SUITE,
        252,
        "qnn-context-binary-generator --model model_optimized.so --backend libQnnHtp.so "
        "--output_dir ./context_binaries --input_list input_data.txt --optimization_level high",
        says="--input-list has no effect",
    ),
    Sample(
        SUITE,
        602,
        "qnn-onnx-converter --input_network model.onnx --output_path model.cpp --debug "
        "--log_level verbose",
        CPP,
    ),
    Sample(
        QMEM,
        45,
        "./qnn-context-binary-generator --model libqnn_model.so --backend libQnnHtp.so "
        "--binary_file qnngraph.serialized --output_dir output "
        "--input_output_tensor_mem_type memhandle",
        ("output/qnngraph.serialized.bin",),
    ),
    Sample(
        SHARING,
        80,
        "./qnn-context-binary-generator --model <model-A.so>,<model-B.so> "
        "--backend ${QNN_SDK_ROOT}/lib/x86_64-linux-clang/libQnnHtp.so "
        "--binary_file context_binary_combined.bin "
        "--config_file htp_backend_extension.json",
        ("output/context_binary_combined.bin",),
    ),
)


def run(text: str, folder: Path) -> tuple[int, str]:
    words = shlex.split(text)
    done = forked.run([PurePath(words[0]).name, *words[1:]], folder)
    return done.returncode, done.stdout + done.stderr


def network() -> onnx.ModelProto:
    """Return a convolution with a Relu, whose height and width are open."""
    draw = np.random.default_rng(4)
    weight = draw.normal(size=(2, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["input", "conv1.weight"], ["conv1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv1"], ["output"], "conv1/Relu"),
    ]
    shapes = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, n, 8, 8])
        for name, n in (("input", 3), ("output", 2))
    ]
    graph = helper.make_graph(
        nodes, "net", shapes[:1], shapes[1:], [numpy_helper.from_array(weight, "conv1.weight")]
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all files that the samples read, made by the tools."""
    folder = tmp_path_factory.mktemp("everything")
    onnx.save(network(), folder / "model.onnx")
    shutil.copyfile(folder / "model.onnx", folder / "simple_model.onnx")
    for name in ("frozen_graph.pb", "model.tflite", "model.pt", "libExampleLibrary.so"):
        (folder / name).write_bytes(b"not read")
    shutil.copyfile(folder / "model.pt", folder / "inception_v3_2016_08_28_frozen.pb")
    np.random.default_rng(1).normal(size=192).astype("<f4").tofile(folder / "a.raw")
    for name in ("input_list.txt", "input_data.txt", "image_file_list.txt"):
        (folder / name).write_text("a.raw\n")
    (folder / "custom_io.yaml").write_text(
        "- IOName: input\n  Layout:\n    Model: NCHW\n    Custom: NCHW\n"
    )
    (folder / "quantization_config.json").write_text(CONFIG)
    (folder / "htp.json").write_text('{"context": {"weight_sharing_enabled": true}}')
    (folder / "htp_float.json").write_text(
        '{"graphs": [{"vtcm_mb": 8, "fp16_relaxed_precision": 1, "graph_names": ["model"]}]}'
    )
    for name, config in (("extensions", "htp_float"), ("htp_backend_extension", "htp")):
        library = "libQnnHtpNetRunExtensions.so"
        extensions = {"shared_library_path": library, "config_file_path": f"{config}.json"}
        text = json.dumps({"backend_extensions": extensions})
        (folder / f"{name}.json").write_text(text)
    for command in (
        "qnn-onnx-converter -i model.onnx -o simple_model",
        "qnn-onnx-converter -i model.onnx -o model_quantized.cpp --input_list input_list.txt",
        "qnn-onnx-converter -i model.onnx -o other.cpp --input_list input_list.txt",
        "qnn-onnx-converter -i model.onnx -o m/model.cpp --preserve_io layout",
        "qnn-model-lib-generator -c m/model.cpp -l QnnModel -t x86 -o made",
        "qnn-model-lib-generator -c other.cpp -l other -t x86 -o made",
        "qairt-converter -i model.onnx -o inception_v3.dlc",
    ):
        (folder / "m").mkdir(exist_ok=True)
        code, said = run(command, folder)
        assert code == 0, said
    shutil.copytree(folder / "made" / "x86", folder / "libraries")
    shutil.copyfile(folder / "made/x86/libQnnModel.so", folder / "libqnn_model.so")
    shutil.copyfile(folder / "made/x86/libother.so", folder / "model_optimized.so")
    code, said = run(
        "qnn-context-binary-generator --model libqnn_model.so --backend libQnnHtp.so "
        "--binary_file qnngraph.serialized.bin --config_file extensions.json --output_dir .",
        folder,
    )
    assert code == 0, said
    return folder


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.document} {s.line}")
def test_sample_commands_run(sample: Sample, everything: Path, tmp_path: Path) -> None:
    shutil.copytree(everything, tmp_path / "here")
    text = f"{sample.text} {sample.adds}"
    for name, value in PLACEHOLDERS.items():
        text = text.replace(name, value)
    assert "<" not in text
    folder = tmp_path / "here"
    for name in sample.writes:
        top = folder / PurePath(name).parts[0]
        if top.is_file():  # the tutorial uses one name for a file and for a folder
            top.unlink()
    before = {path for path in folder.rglob("*") if path.is_file()}
    code, said = run(text, folder)
    assert code == sample.code, said
    assert sample.says in said
    written = {path for path in folder.rglob("*") if path.is_file()} - before
    assert {folder / name for name in sample.writes} <= written
    assert sample.code == 0 or not written
