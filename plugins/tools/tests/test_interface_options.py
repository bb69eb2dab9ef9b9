"""Options of `dovetail convert` about inputs and outputs: each changes the graph or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail as dt
from dovetail.ir import Graph, ScaleOffset, TensorKind

W = np.random.default_rng(7).normal(size=(4, 3, 3, 3)).astype(np.float32)


@pytest.fixture
def net() -> str:
    """A convolution of an image and its mean, and a sum with an int64 input cast to float."""
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["features"]),
        helper.make_node("Cast", ["ids"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Neg", ["real"], ["negated"]),
        helper.make_node("Abs", ["conv"], ["loose"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 4, 6)),
            helper.make_tensor_value_info("ids", TensorProto.INT64, (2, 5)),
        ],
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, (1, 4, 4, 6)),
            helper.make_tensor_value_info("negated", TensorProto.FLOAT, (2, 5)),
        ],
        [numpy_helper.from_array(W, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "net.onnx")
    return "net.onnx"


@pytest.fixture
def convert(run: Any, net: str) -> Any:
    def call(*args: object) -> Graph:
        done = run("convert", "-i", net, *args, "-o", "out.dvt")
        assert done.code == 0, done.err
        (graph,) = dt.load("out.dvt").graphs.values()
        return graph

    return call


def types(graph: Graph) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {t.name: (t.dtype.name, t.shape) for t in (*graph.inputs, *graph.outputs)}


IMAGE = np.random.default_rng(8).integers(0, 255, (1, 3, 4, 6)).astype(np.float32)
IDS = np.arange(10).reshape(2, 5)


def features(image: np.ndarray, path: str = "out.dvt") -> np.ndarray:
    with dt.Session(path) as session:
        return session.run({"image": image, "ids": IDS})["features"]


@pytest.fixture
def wanted(convert: Any) -> np.ndarray:
    """The features of the unchanged model."""
    convert()
    return features(IMAGE)


LAST = (0, 2, 3, 1)


def test_the_wanted_layout_of_an_input(convert: Any, wanted: np.ndarray) -> None:
    graph = convert("-l", "image", "NCHW", "--desired_input_layout", "image", "NHWC")
    assert types(graph)["image"] == ("FLOAT_32", (1, 4, 6, 3))
    np.testing.assert_array_equal(features(IMAGE.transpose(LAST)), wanted)


def test_wanted_layouts_without_the_model_s(convert: Any, wanted: np.ndarray) -> None:
    """As scripts for qairt-converter have them, where the model's are those of ONNX."""
    options = ("--desired_input_layout", "image", "NHWC")
    graph = convert(*options, "--desired_output_layout", "features", "NHWC")
    assert types(graph)["image"] == ("FLOAT_32", (1, 4, 6, 3))
    assert types(graph)["features"] == ("FLOAT_32", (1, 4, 6, 4))
    np.testing.assert_array_equal(features(IMAGE.transpose(LAST)), wanted.transpose(LAST))
    graph = convert("--desired_input_layout", "image", "NCHW")
    assert types(graph)["image"] == ("FLOAT_32", (1, 3, 4, 6))


def test_a_wanted_layout_that_the_ops_of_the_model_show(run: Any) -> None:
    nodes = [
        helper.make_node("Transpose", ["image"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["first", "w"], ["conv"], pads=[1, 1, 1, 1]),
    ]
    image, conv = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {"image": (1, 4, 6, 3), "conv": (1, 4, 4, 6)}.items()
    )
    graph = helper.make_graph(nodes, "g", [image], [conv], [numpy_helper.from_array(W, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "last.onnx")
    for layout, shape in {"NHWC": (1, 4, 6, 3), "NCHW": (1, 3, 4, 6)}.items():
        options = ("--desired-input-layout", "image", layout, "-o", "out.dvt")
        assert run("convert", "-i", "last.onnx", *options).code == 0
        (found,) = dt.load("out.dvt").graphs.values()
        assert types(found)["image"] == ("FLOAT_32", shape)


def test_the_older_layout_of_inputs_and_outputs(convert: Any, wanted: np.ndarray) -> None:
    graph = convert("--legacy-io-layout")
    assert types(graph) == {
        "image": ("FLOAT_32", (1, 4, 6, 3)),
        "ids": ("INT_32", (2, 5)),
        "features": ("FLOAT_32", (1, 4, 6, 4)),
        "negated": ("FLOAT_32", (2, 5)),
    }
    assert not [node for node in graph.nodes if node.op_type == "Transpose"]
    found = features(IMAGE.transpose(LAST))
    np.testing.assert_array_equal(found, wanted.transpose(LAST))


def test_images_that_the_model_has_channels_last_stay(run: Any) -> None:
    """As in models that come from TensorFlow: a scaled image is transposed for convolutions."""
    nodes = [
        helper.make_node("Mul", ["image", "factor"], ["scaled"]),
        helper.make_node("Transpose", ["scaled"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["first", "w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["conv"], ["gate"]),
        helper.make_node("MaxPool", ["gate"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Transpose", ["pooled"], ["last"], perm=[0, 2, 3, 1]),
    ]
    shapes = {"image": (1, 4, 6, 3), "last": (1, 2, 3, 4), "pooled": (1, 4, 2, 3)}
    image, *others = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    constants = [
        numpy_helper.from_array(W, "w"),
        numpy_helper.from_array(np.float32(0.5), "factor"),
    ]
    graph = helper.make_graph(nodes, "g", [image], others, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "net.onnx")
    found = {}
    for option in ((), ("--legacy-io-layout",)):
        done = run("convert", "-i", "net.onnx", *option, "-o", "out.dvt")
        assert done.code == 0, done.err
        (graph,) = dt.load("out.dvt").graphs.values()
        assert types(graph)["image"] == ("FLOAT_32", shapes["image"])
        with dt.Session("out.dvt") as session:
            found[option] = session.run({"image": IMAGE.transpose(LAST)})
    own, legacy = found.values()
    np.testing.assert_array_equal(legacy["last"], own["last"])
    np.testing.assert_array_equal(legacy["pooled"], own["pooled"].transpose(LAST))


def test_the_image_of_a_single_convolution_is_found(run: Any) -> None:
    """The transposes before it cancel while the model is read."""
    nodes = [
        helper.make_node("Transpose", ["image"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["first", "w"], ["conv"], pads=[1, 1, 1, 1]),
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("image", (1, 4, 6, 3)), ("conv", (1, 4, 4, 6)))
    ]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [numpy_helper.from_array(W, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "net.onnx")
    done = run("convert", "-i", "net.onnx", "--legacy-io-layout", "-o", "out.dvt")
    assert done.code == 0, done.err
    (made,) = dt.load("out.dvt").graphs.values()
    assert {name: shape for name, (_, shape) in types(made).items()} == {
        "image": (1, 4, 6, 3),
        "conv": (1, 4, 6, 4),
    }


CHANGED = ({"image", "features"}, {"ids"})


KEEP = ["--preserve_io"]


@pytest.mark.parametrize(
    ("args", "layouts", "narrowed"),
    [
        (["--preserve_io"], set(), set()),
        (["--preserve_io", "layout"], set(), {"ids"}),
        (["--preserve_io", "datatype"], *({"image", "features"}, set())),
        (["--preserve_io", "layout", "features", "negated"], {"image"}, {"ids"}),
        (
            ["--preserve_io", "layout", "image", "--preserve_io", "datatype", "ids"],
            {"features"},
            set(),
        ),
        # several uses say what they say together, as in public scripts
        ([*KEEP, "layout", *KEEP, "datatype", "image", *KEEP, "datatype", "ids"], set(), set()),
        ([*KEEP, "layout", "image", *KEEP, "layout", "features"], set(), {"ids"}),
        (["--preserve_io", "layout", "image", "--preserve_io"], set(), set()),
        (["--preserve_io", "--preserve_io", "layout", "image"], set(), set()),
        (["--keep_int64_inputs"], {"image", "features"}, set()),
        (["--input_layout", "image", "NHWC"], {"features"}, {"ids"}),
    ],
)
def test_preserved_layouts_and_types(
    convert: Any, args: list[str], layouts: set[str], narrowed: set[str]
) -> None:
    own = types(convert())
    found = types(convert("--legacy_io_layout", *args))
    assert {name for name in own if found[name][1] != own[name][1]} == layouts
    assert {name for name in own if found[name][0] != own[name][0]} == narrowed


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        ([], set()),
        (["--preserve-io", "layout"], set()),
        (["--preserve-io", "datatype"], {"image", "features", "negated"}),
        (["--preserve-io", "datatype", "image", "negated"], {"image", "negated"}),
        (["--preserve-io", "layout", "ids", "--preserve-io", "datatype", "ids"], set()),
    ],
)
def test_preserved_types_of_a_quantized_model(
    convert: Any, args: list[str], kept: set[str]
) -> None:
    IMAGE.tofile("image.raw")
    IDS.astype(np.float32).tofile("ids.raw")
    Path("list.txt").write_text("image:=image.raw ids:=ids.raw\n")
    found = types(convert("--input-list", "list.txt", *args))
    assert {name for name, (dtype, _) in found.items() if dtype == "FLOAT_32"} == kept
    assert found["ids"][0] == "INT_64"


def test_the_type_of_an_input(convert: Any, wanted: np.ndarray) -> None:
    graph = convert(
        "--source_model_input_datatype", "image", "float16", "--input_dtype", "ids", "int32"
    )
    assert types(graph)["image"][0] == "FLOAT_16"
    assert types(graph)["ids"][0] == "INT_32"
    np.testing.assert_array_equal(features(IMAGE), wanted)  # integers up to 255 are exact in both


def test_an_image_is_passed_in_bytes(convert: Any, wanted: np.ndarray) -> None:
    graph = convert("--input_type", "image", "image", "-t", "ids", "default")
    assert graph.tensor("image").spec.encoding == ScaleOffset(1.0, 0)
    np.testing.assert_array_equal(features(IMAGE), wanted)


@pytest.mark.parametrize(
    ("values", "depth", "order"),
    [
        (["rgb"], 3, [2, 1, 0]),
        (["rgba", "rgb"], 4, [0, 1, 2]),
        (["argb32"], 4, [3, 2, 1]),
        (["time_series"], 0, []),
    ],
)
def test_colors_of_an_input(
    convert: Any, wanted: np.ndarray, values: list[str], depth: int, order: list[int]
) -> None:
    graph = convert("--input_color_encoding", "image", *values)
    if not order:
        assert types(graph)["image"] == ("FLOAT_32", (1, 3, 4, 6))
        return
    assert types(graph)["image"] == ("FLOAT_32", (1, 4, 6, depth))
    image = np.zeros((1, 4, 6, depth), np.float32)
    image[..., order] = IMAGE.transpose(LAST)
    np.testing.assert_array_equal(features(image), wanted)


@pytest.mark.parametrize("layout", [[], ["--input_layout", "image", "NCHW"]])
@pytest.mark.parametrize("kept", [[], ["layout"], ["layout", "image", "features"]])
@pytest.mark.parametrize("legacy", [[], ["--legacy-io-layout"]])
def test_colors_of_an_input_that_keeps_its_layout(
    convert: Any, wanted: np.ndarray, kept: list[str], legacy: list[str], layout: list[str]
) -> None:
    graph = convert("-e", "image", "rgb", "--preserve_io", *kept, *legacy, *layout)
    assert types(graph)["image"] == ("FLOAT_32", (1, 3, 4, 6))
    np.testing.assert_array_equal(features(IMAGE[:, ::-1]), wanted)


def test_colors_of_video(convert: Any) -> None:
    graph = convert("-e", "image", "nv12", "rgb", "--input_dtype", "image", "uint8")
    assert types(graph)["image"] == ("UINT_8", (1, 36))


CUSTOM = """
- IOName: image
  Layout:
    Model: NCHW
    Custom: NHWC
  Datatype: uint8
  QuantParam:
    Type:
      QNN_DEFINITION_DEFINED
    Scale:
      0.5
    Offset: 0
- IOName: features
  Layout: {Model: NCHW, Custom: NHWC}
"""


def test_custom_io(convert: Any, wanted: np.ndarray) -> None:
    Path("io.yaml").write_text(CUSTOM, "utf-8")
    graph = convert("--custom_io", "io.yaml")
    assert types(graph)["features"] == ("FLOAT_32", (1, 4, 6, 4))
    assert graph.tensor("image").spec.encoding == ScaleOffset(0.5, 0)
    half = np.minimum(IMAGE, 127)
    found = features(half.transpose(LAST))
    convert()
    np.testing.assert_array_equal(found, features(half).transpose(LAST))


STORED = """
- IOName: image
  Datatype: int8
- IOName: features
  Datatype: float32
- IOName: negated
  Datatype: uint8
"""


def test_custom_io_of_a_quantized_model_without_scales(convert: Any) -> None:
    """The quantizer chooses the scales, but not the types."""
    IMAGE.tofile("image.raw")
    IDS.astype("<f4").tofile("ids.raw")
    Path("list.txt").write_text("image:=image.raw ids:=ids.raw\n", "utf-8")
    Path("io.yaml").write_text(STORED, "utf-8")
    samples = ("--input-list", "list.txt", "--act-bitwidth", "16")
    convert(*samples)
    wanted = features(IMAGE)
    found = types(convert(*samples, "--custom_io", "io.yaml"))
    assert found["image"] == ("SFIXED_POINT_8", (1, 3, 4, 6))
    assert found["features"][0] == "FLOAT_32"
    assert found["negated"][0] == "UFIXED_POINT_8"
    half_step = IMAGE.max() / 255 / 2  # of the image in 8 bits, which the filters weight
    bound = half_step * np.abs(W).sum(axis=(1, 2, 3)).max() + 0.1
    assert np.abs(features(IMAGE) - wanted).max() < bound
    assert types(convert(*samples, "--input_dtype", "image", "float32"))["image"][0] == (
        "UFIXED_POINT_16"
    )


def test_an_opaque_input_is_not_quantized(convert: Any) -> None:
    IMAGE.tofile("image.raw")
    IDS.astype("<f4").tofile("ids.raw")
    Path("list.txt").write_text("image:=image.raw ids:=ids.raw\n", "utf-8")
    kinds = ("--input_type", "image", "opaque", "--input_type", "ids", "opaque")
    found = types(convert("--input-list", "list.txt", *kinds))
    assert found["image"] == ("FLOAT_32", (1, 3, 4, 6))
    assert found["ids"] == ("INT_64", (2, 5))
    assert found["features"][0] == "UFIXED_POINT_8"
    kept = types(convert("--input-list", "list.txt", *kinds, "--preserve_io_datatype", "features"))
    assert (kept["image"][0], kept["features"][0]) == ("FLOAT_32", "FLOAT_32")
    assert types(convert(*kinds))["image"] == ("FLOAT_32", (1, 3, 4, 6))


def test_an_integer_type_that_the_model_has_needs_no_scale(run: Any) -> None:
    node = helper.make_node("Cast", ["bytes"], ["real"], to=TensorProto.FLOAT)
    infos = [
        helper.make_tensor_value_info("bytes", TensorProto.UINT8, (1, 4)),
        helper.make_tensor_value_info("real", TensorProto.FLOAT, (1, 4)),
    ]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "net.onnx")
    Path("io.yaml").write_text("- IOName: bytes\n  Datatype: uint8\n", "utf-8")
    done = run("convert", "-i", "net.onnx", "--custom_io", "io.yaml", "-o", "out.dvt")
    assert done.code == 0, done.err


CONFIG = """
Input Tensor Configuration:
  # Input 1
  - Name: image
    Src Model Parameters:
      DataType: float32
      Layout: NCHW
    Desired Model Parameters:
      DataType: float16
      Layout: NHWC
      Shape: 1,3,8,8
      Color Conversion: RGBA
      QuantParams:
        Scale:
        Offset:
Output Tensor Configuration:
  - Name: features
    Src Model Parameters: {DataType: float32, Layout: NCHW}
    Desired Model Parameters: {DType: float16, Layout: NHWC}
"""


NEWER = """
Converted Graph:
- Input Tensors: [image]
- Output Tensors: [features]

Input Tensor Configuration:
  # Input 1
  - Name: 'image'
    Src Model Parameters:
        DataType:
        Layout: NCHW
        Shape: 1,3,8,6
    Desired Model Parameters:
        DataType: uint16
        Layout: NHWC
        Color Conversion:
        QuantParams:
          Scale: 0.01
          Offset: 0
        Optional: False

Output Tensor Configuration:
  - Name: 'features'
    Desired Model Parameters:
        DataType: float16
"""


def test_io_config_of_newer_releases(run: Any, net: str) -> None:
    """With the outputs at which the model is cut, shapes, and types of 16 bits."""
    Path("newer.yaml").write_text(NEWER, encoding="utf-8")
    done = run("convert", "-i", net, "--io_config", "newer.yaml", "-o", "out.dvt")
    assert done.code == 0, done.err
    (graph,) = dt.load("out.dvt").graphs.values()
    assert types(graph)["image"] == ("UFIXED_POINT_16", (1, 8, 6, 3))
    assert graph.tensors["image"].encoding == ScaleOffset(0.01, 0)
    assert [(t.name, t.dtype.name) for t in graph.outputs] == [("features", "FLOAT_16")]
    Path("newer.yaml").write_text(
        NEWER.replace("False", "True\n        Shape: 1,3,8,8"), encoding="utf-8"
    )
    done = run("convert", "-i", net, "--io_config", "newer.yaml", "-o", "out.dvt")
    assert done.code == 2
    assert "'image': two shapes, (1, 3, 8, 6) and (1, 3, 8, 8); remove one" in done.err
    assert "'image': optional inputs and outputs are not supported" in done.err


@pytest.mark.parametrize(("name", "code"), [("image", 0), ("loose", 2)])
def test_a_graph_begins_at_inputs_of_the_model(run: Any, net: str, name: str, code: int) -> None:
    """Whether the file has more about them or not."""
    Path("ends.yaml").write_text(f"Converted Graph: [{{Input Tensors: [{name}]}}]", "utf-8")
    done = run("convert", "-i", net, "--io_config", "ends.yaml", "-o", "out.dvt")
    assert done.code == code, done.err
    assert ("no input or output 'loose'" in done.err) == (code == 2)


def test_io_config_and_the_command_line_over_it(convert: Any) -> None:
    Path("io.yaml").write_text(CONFIG, "utf-8")
    found = types(convert("--io_config", "io.yaml"))
    assert found["image"] == ("FLOAT_16", (1, 8, 8, 4))
    assert found["features"] == ("FLOAT_16", (1, 8, 8, 4))
    over = "-d", "image", "1,3,2,4", "--input_dtype", "image", "float32"
    assert types(convert("--io_config", "io.yaml", *over))["image"] == ("FLOAT_32", (1, 2, 4, 4))


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--custom_io", "- IOName: 495\n  Layout: {Model: NCHW, Custom: NHWC}\n"),
        (
            "--io_config",
            "Output Tensor Configuration:\n- Name: 495\n  Src Model Parameters: {Layout: NCHW}\n"
            "  Desired Model Parameters: {Layout: NHWC}\n",
        ),
    ],
)
def test_names_of_tensors_may_be_numbers(convert: Any, net: str, option: str, text: str) -> None:
    model = onnx.load(net)
    model.graph.node[1].output[0] = model.graph.output[0].name = "495"  # as PyTorch names them
    onnx.save(model, net)
    Path("io.yaml").write_text(text, "utf-8")
    assert types(convert(option, "io.yaml"))["495"] == ("FLOAT_32", (1, 4, 6, 4))


@pytest.mark.parametrize("kind", ["custom_io", "io"])
def test_templates_are_valid_and_change_nothing(
    run: Any, convert: Any, net: str, kind: str
) -> None:
    done = run("convert", "-i", net, f"--dump_{kind}_config_template", "io.yaml")
    assert done.code == 0, done.err
    assert {path.name for path in Path().iterdir()} == {"net.onnx", "io.yaml"}
    text = Path("io.yaml").read_text("utf-8")
    assert text.count("ame: ") == 4
    option = "--custom_io" if kind == "custom_io" else "--io_config"
    own = types(convert())
    assert types(convert(option, "io.yaml")) == own


@pytest.mark.parametrize("kind", ["custom_io", "io"])
def test_templates_have_names_of_any_characters(
    run: Any, convert: Any, net: str, kind: str
) -> None:
    model = onnx.load(net)
    model.graph.node[-1].output[0] = model.graph.output[-1].name = "結果 😀"
    onnx.save(model, net)
    assert run("convert", "-i", net, f"--dump_{kind}_config_template", "io.yaml").code == 0
    assert "結果 😀" in types(
        convert("--custom_io" if kind == "custom_io" else "--io_config", "io.yaml")
    )


FAULTS = """
- IOName: image
  Layout: {Model: NCHW, Custom: NFC}
- IOName: image
  QuantParam: {Type: QNN_DEFINITION_UNDEFINED, Scale: 1.0}
- IOName: features
  Layout: {Model: NHW}
"""


@pytest.mark.parametrize(
    ("yaml", "args", "parts"),
    [
        (
            FAULTS,
            [],
            [
                "the tensor occurs twice",
                "QNN_DEFINITION_UNDEFINED, but has a scale",
                "unsupported layout 'NHW'",
            ],
        ),
        ("- IOName: image\n  Datatype: uint8\n", [], ["needs a scale and an offset"]),
        (
            "- IOName: image\n  Layuot: {}\n",
            [],
            ["io.yaml: $[0].Layuot: unknown key", "did you mean 'Layout'?"],
        ),
        ("- IOName: imag\n  Datatype: float16\n", [], ["'imag'", "did you mean 'image'?"]),
        ("IOName: image\n", [], ["expected a list"]),
        ("- IOName: 'a\n", [], ["not valid YAML", "io.yaml:"]),
        ("- &a [*a]\n", [], ["aliases are not supported"]),
        ("- IOName: a\n  IOName: b\n", [], ["duplicate keys"]),
        ("- IOName: !!python/name:os.system x\n", [], ["not valid YAML"]),
        (CUSTOM, ["-l", "image", "NCHW"], ["give it once"]),
        (CUSTOM, ["--io_config", "io.yaml"], ["mutually exclusive"]),
        ("- IOName: image\n  Layout: {Custom: NTF}\n", [], ["the model's layout is not given"]),
        (
            CUSTOM.replace("Custom: NHWC", "Custom: NCDHW"),
            [],
            ["NCDHW has 5 axes, but the tensor has 4", "NCHW and NCDHW have different axes"],
        ),
    ],
)
def test_faulty_files_leave_nothing(
    run: Any, net: str, yaml: str, args: list[str], parts: list[str]
) -> None:
    Path("io.yaml").write_text(yaml, "utf-8")
    done = run("convert", "-i", net, "--custom_io", "io.yaml", *args, "-o", "out.dvt")
    assert done.code == 2, done.err
    for part in parts:
        assert part in done.err
    assert not Path("out.dvt").exists()


def test_every_fault_of_the_command_line_is_named_at_once(run: Any, net: str) -> None:
    done = run(
        *("convert", "-i", net, "--op_style", "2.19", "--model_version", "v" * 65),
        *("-e", "image", "cmyk", "-t", "image", "picture", "-l", "image", "NHCW"),
        *("--preserve_io", "layout", "image", "--preserve_io", "shape"),
        *("--input_dim", "image", "1,x", "--desired_input_layout", "image", "NHWC"),
        *("--desired_input_layout", "image", "NCHW"),
    )
    assert done.code == 2
    for part in (
        "--op-style: unsupported value '2.19'; expected 2.18 or 2.27",
        "--model-version: expected up to 64 printable ASCII characters",
        "--input-encoding image: unsupported value 'cmyk'",
        "--input-type image: unsupported value 'picture'",
        "unsupported layout 'NHCW'",
        "unsupported value 'shape'; expected layout, datatype or nothing",
        "--input-dim image: expected an integer, got 'x'",
        "contradictory values NHWC and NCHW",
    ):
        assert part in done.err, done.err
    assert {path.name for path in Path().iterdir()} == {"net.onnx"}


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (
            ["--preserve_io", "layout", "imagee"],
            "no input or output 'imagee' (did you mean 'image'?)",
        ),
        (["--preserve_io", "datatype", "image", "no"], "no input or output 'no'"),
        (["-l", "no", "NCHW"], "no input or output 'no'"),
        (
            ["--desired_output_layout", "features", "NFC"],
            "form\n  - input or output 'features': the layout NFC has 3 axes, but the tensor has 4"
            "\nhint",
        ),
        (["-l", "image", "NTF"], "the layout NTF has 3 axes, but the tensor has 4"),
        (["--legacy_io_layout", "-l", "image", "NCDHW"], "the layout NCDHW has 5 axes"),
        (
            ["--package_name", "shop", "--op_package_config", "shop.xml"],
            "--package-name and --op-package-config are mutually exclusive",
        ),
    ],
)
def test_names_and_layouts_are_checked_though_nothing_changes(
    run: Any, net: str, args: list[str], part: str
) -> None:
    done = run("convert", "-i", net, *args)
    assert (done.code, part in done.err) == (2, True), done.err
    assert {path.name for path in Path().iterdir()} == {"net.onnx"}


def test_a_template_overwrites_no_model(run: Any, net: str) -> None:
    before = Path(net).read_bytes()
    custom, io = "--dump-custom-io-config-template", "--dump-io-config-template"
    done = run("convert", "-i", net, io, f"./{net}")
    assert (done.code, f"{io}: the template would overwrite the model" in done.err) == (2, True)
    assert Path(net).read_bytes() == before
    done = run("convert", "-i", net, io, "same.yaml", custom, "same.yaml")
    assert (done.code, "two templates have the same path" in done.err) == (2, True)
    assert run("convert", "-i", net, io, "io.yaml", custom, "custom.yaml").code == 0


# -- nodes and the file ----------------------------------------------------------------------------


def ops(graph: Graph) -> list[str]:
    return sorted(node.op_type for node in graph.nodes)


def test_types_of_64_bits_are_narrowed_on_request(convert: Any, run: Any, net: str) -> None:
    model = onnx.load(net)
    model.graph.node.insert(0, helper.make_node("Add", ["ids", "ids"], ["twice"]))
    model.graph.node[3].input[0] = "twice"
    onnx.save(model, net)
    assert model.graph.node[3].op_type == "Cast"

    def inner(graph: Graph) -> set[str]:
        return {t.dtype.name for t in graph.tensors.values() if t.kind is TensorKind.NATIVE}

    wide = convert()
    assert "INT_64" in inner(wide)
    narrow = convert("--narrow-types")
    assert types(narrow) == types(wide)
    assert "INT_64" not in inner(narrow)
    with dt.Session("out.dvt") as session:
        found = session.run({"image": IMAGE, "ids": IDS})["negated"]
    np.testing.assert_array_equal(found, -2.0 * IDS)
    shown = run("convert", net, "--narrow-types", "--dry-run").out
    assert "types=[INT_64,UINT_64,FLOAT_64],interfaces=[],cast_inputs=True" in shown


def test_op_styles(convert: Any, wanted: np.ndarray) -> None:
    single = ops(convert("--op_style", "2.18"))
    variants = convert("--op_style", "2.27")
    assert "Relu" in single
    assert "ElementWiseNeuron" in ops(variants)
    assert "Relu" not in ops(variants)
    np.testing.assert_array_equal(features(IMAGE), wanted)


def test_nodes_that_no_output_needs(convert: Any) -> None:
    assert "ElementWiseAbs" not in ops(convert())
    graph = convert("--keep_disconnected_nodes")
    assert "ElementWiseAbs" in ops(graph)
    assert [t.name for t in graph.outputs] == ["features", "negated", "loose"]


def test_unused_inputs_are_removed_on_request(run: Any) -> None:
    x, unused, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)) for name in ("x", "u", "y")
    )
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [unused, x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "two.onnx")
    for option, names in {"": ["u", "x"], "--remove_unused_inputs": ["x"]}.items():
        done = run("convert", "-i", "two.onnx", *option.split(), "-o", "a.dvt")
        assert done.code == 0, done.err
        (graph,) = dt.load("a.dvt").graphs.values()
        assert [tensor.name for tensor in graph.inputs] == names


def test_batch_normalizations_stay(run: Any) -> None:
    ones = [numpy_helper.from_array(np.full(4, 2, np.float32), n) for n in "sbmv"]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(W, "w"), *ones],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, "bn.onnx")
    for args, expected in (([], False), (["--disable_batchnorm_folding"], True)):
        assert run("convert", "bn.onnx", *args).code == 0
        (found,) = dt.load("bn.dvt").graphs.values()
        assert ("Batchnorm" in ops(found)) is expected
    assert run("convert", "bn.onnx", "--disable_batchnorm_folding", "-n").code == 0


def test_version_and_copyright_are_in_the_file(run: Any, net: str) -> None:
    Path("c.txt").write_text("Copyright (c) A\n", "utf-8")
    done = run("convert", net, "--model_version", "1.2", "--copyright_file", "c.txt")
    assert done.code == 0, done.err
    said = dt.load("net.dvt").producer.options
    assert (said["model_version"], said["copyright"]) == ("1.2", "Copyright (c) A\n")
    Path("c.txt").write_bytes(b"\xff")
    done = run("convert", net, "--copyright_file", "c.txt", "-o", "other.dvt")
    assert done.code == 2
    assert not Path("other.dvt").exists()


def test_the_interface_is_recorded(convert: Any) -> None:
    convert("--input_type", "image", "image")
    said = json.loads(dt.load("out.dvt").producer.options["interface"])
    assert said["tensors"][0]["dtype"] == "uint8"
