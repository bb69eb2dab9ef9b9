"""Inputs and outputs in the application's layout, type, encoding and colors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import ConfigError
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind, run_passes
from dovetail_opset.build import add, static
from dovetail_opset.passes import CONVERT_DEFAULT, Interface, TensorForm

SHAPE = (1, 3, 4, 6)
Evaluate = Callable[..., Any]
RNG = np.random.default_rng(5)


def relu(shape: tuple[int, ...] = SHAPE, dtype: DType = DType.FLOAT_32) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    y = add(graph, "Relu", [x], name="relu", outputs="y")
    y.kind = TensorKind.APP_READ
    return graph


def changed(*forms: TensorForm, graph: Graph | None = None) -> Graph:
    made = relu() if graph is None else graph
    run_passes(made, [Interface(forms)])
    assert [t.name for t in (*made.inputs, *made.outputs)] == ["x", "y"]
    return made


def test_layouts_of_both_sides_keep_the_names_and_values(evaluate: Evaluate) -> None:
    both = ("NCHW", "NHWC")
    graph = changed(TensorForm("x", both), TensorForm("y", both))
    x = RNG.normal(size=(1, 4, 6, 3)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], np.maximum(x, 0))
    assert graph.inputs[0].source_perm == (0, 2, 3, 1)
    run_passes(graph, CONVERT_DEFAULT.passes)
    assert [node.op_type for node in graph.nodes] == ["Relu"]  # both transposes cancel
    assert [t.name for t in (*graph.inputs, *graph.outputs)] == ["x", "y"]


@pytest.mark.parametrize(
    ("layout", "perm"),
    [
        (("NCDHW", "NDHWC"), (0, 2, 3, 4, 1)),
        (("NFC", "NCF"), (0, 2, 1)),
        (("NTF", "TNF"), (1, 0, 2)),
    ],
)
def test_every_exchange_of_axes(
    layout: tuple[str, str], perm: tuple[int, ...], evaluate: Evaluate
) -> None:
    shape = (1, 2, 3, 4, 5)[: len(perm)]
    graph = changed(TensorForm("x", layout), graph=relu(shape))
    x = RNG.normal(size=shape).astype(np.float32)
    found = evaluate(graph, {"x": x.transpose(perm)})["y"]
    np.testing.assert_array_equal(found, np.maximum(x, 0))


def test_quantized_values_for_a_float_model(evaluate: Evaluate) -> None:
    forms = TensorForm("x", None, "uint8", 0.5, -4), TensorForm("y", None, "int8", 0.25, 0)
    graph = changed(*forms)
    assert graph.inputs[0].spec.encoding == ScaleOffset(0.5, -4)
    assert [t.dtype for t in (*graph.inputs, *graph.outputs)] == [
        DType.UFIXED_POINT_8,
        DType.SFIXED_POINT_8,
    ]
    x = RNG.integers(0, 255, SHAPE).astype(np.uint8)
    wanted = np.clip(np.maximum((x.astype(np.float32) - 4) * 0.5, 0) / 0.25, -128, 127)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], wanted)


@pytest.mark.parametrize("dtype", ["float16", "int32", "uint8"])
def test_plain_types(dtype: str, evaluate: Evaluate) -> None:
    graph = changed(TensorForm("x", dtype=dtype), TensorForm("y", dtype="float16"))
    x = RNG.integers(0, 9, SHAPE).astype(dtype)
    found = evaluate(graph, {"x": x})["y"]
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, x)


def fixed_relu() -> Graph:
    """A Relu of values from -1 to 1.55."""
    graph = Graph("net")
    encoding = ScaleOffset(0.01, -100)
    x = Tensor("x", DType.UFIXED_POINT_8, SHAPE, TensorKind.APP_WRITE, encoding=encoding)
    x.source_perm = (0, 2, 3, 1)
    y = add(graph, "Relu", [graph.add_tensor(x)], name="relu", outputs="y", spec=x.spec)
    y.kind = TensorKind.APP_READ
    return graph


@pytest.mark.parametrize(
    ("dtype", "type_", "encoding"),
    [
        ("int8", DType.SFIXED_POINT_8, ScaleOffset(0.01, 28)),
        ("uint16", DType.UFIXED_POINT_16, ScaleOffset(0.01 / 257, -25700)),
        ("float32", DType.FLOAT_32, None),
    ],
)
def test_other_types_of_fixed_point_tensors(
    dtype: str, type_: DType, encoding: ScaleOffset | None, evaluate: Evaluate
) -> None:
    graph = changed(TensorForm("x", dtype=dtype), TensorForm("y", dtype=dtype), graph=fixed_relu())
    (x,) = graph.inputs
    for tensor in (x, *graph.outputs):
        assert (tensor.dtype, tensor.encoding) == (type_, encoding)
    assert (x.source, x.source_perm) == ("x", (0, 2, 3, 1))
    stored = RNG.integers(0, 255, SHAPE)
    real = (stored - 100) * np.float32(0.01)
    to_stored = 1.0 if encoding is None else encoding.scale
    offset = 0 if encoding is None else encoding.offset
    given = (real / to_stored - offset).round() if encoding else real
    found = evaluate(graph, {"x": given.astype(type_.storage)})["y"]
    values = (found.astype(np.float64) + offset) * to_stored
    np.testing.assert_allclose(values, np.maximum(real, 0), atol=1e-6)


def test_another_encoding_and_layout_of_fixed_point_tensors(evaluate: Evaluate) -> None:
    both = ("NCHW", "NHWC")
    forms = TensorForm("x", both), TensorForm("y", dtype="uint8", scale=0.02, offset=0)
    graph = changed(*forms, graph=fixed_relu())
    assert graph.inputs[0].encoding == ScaleOffset(0.01, -100)
    stored = RNG.integers(0, 255, (1, 4, 6, 3)).astype(np.uint8)
    found = evaluate(graph, {"x": stored})["y"]
    wanted = np.maximum(stored.astype(np.float64) - 100, 0).transpose(0, 3, 1, 2) / 2
    assert np.abs(found - wanted).max() <= 0.5


IMAGE = RNG.integers(0, 255, (1, 4, 6, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("colors", "channels"),
    [
        (("rgb", "bgr"), [2, 1, 0]),
        (("bgr", "bgr"), [0, 1, 2]),
        (("rgba", "rgb"), [0, 1, 2]),
        (("rgba", "bgr"), [2, 1, 0]),
        (("argb32", "rgb"), [1, 2, 3]),
        (("argb32", "bgr"), [3, 2, 1]),
    ],
)
def test_colors_of_an_image(
    colors: tuple[str, str], channels: list[int], evaluate: Evaluate
) -> None:
    depth = 4 if colors[0] in ("rgba", "argb32") else 3
    image = IMAGE[..., :depth]
    graph = changed(TensorForm("x", colors=colors))
    assert graph.inputs[0].shape == (1, 4, 6, depth)
    wanted = image[..., channels].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(evaluate(graph, {"x": image})["y"], wanted)
    first = changed(TensorForm("x", ("NCHW", "NCHW"), colors=colors))
    assert first.inputs[0].shape == (1, depth, 4, 6)
    found = evaluate(first, {"x": image.transpose(0, 3, 1, 2)})["y"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("given", ["nv12", "nv21"])
def test_colors_of_video(given: str, evaluate: Evaluate) -> None:
    graph = changed(TensorForm("x", dtype="uint8", colors=(given, "rgb")))
    assert (graph.inputs[0].shape, graph.inputs[0].dtype) == ((1, 36), DType.UINT_8)
    gray = np.concatenate([np.full(24, 235), np.full(12, 128)]).astype(np.uint8)[np.newaxis]
    found = evaluate(graph, {"x": gray})["y"]
    # luma 235 without chroma is white; the factors are rounded
    np.testing.assert_allclose(found, np.full(SHAPE, 255), rtol=1e-5)


def test_colors_of_a_channels_last_model(evaluate: Evaluate) -> None:
    graph = changed(TensorForm("x", colors=("rgb", "bgr")), graph=relu((1, 4, 6, 3)))
    x = IMAGE[..., :3]
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], x[..., ::-1])


@pytest.mark.parametrize("form", [TensorForm("x"), TensorForm("y", ("NCHW", "NCHW"), "float32")])
def test_the_model_s_own_form_changes_nothing(form: TensorForm) -> None:
    graph = relu()
    assert not Interface((form,)).run(graph)
    assert len(graph.nodes) == 1


def test_images_of_a_spatial_network_become_channels_last(evaluate: Evaluate) -> None:
    def spatial() -> Graph:
        graph = relu()
        (node,) = graph.nodes
        last = add(graph, "Transpose", [graph.inputs[0]], name="last", perm=(0, 2, 3, 1))
        first = add(graph, "Transpose", [last], name="first", perm=(0, 3, 1, 2))
        graph.set_inputs(node, [first])
        return graph

    plain = relu()
    assert not Interface(channels_last=True).run(plain)  # nothing says that it has images
    x = RNG.normal(size=SHAPE).astype(np.float32)
    for preserved in ((), ("x",), ("x", "y")):
        graph = spatial()
        assert Interface(channels_last=True, preserved=preserved).run(graph) is (len(preserved) < 2)
        moved = {n: n in preserved for n in "xy"}
        perms = {n: (0, 1, 2, 3) if kept else (0, 2, 3, 1) for n, kept in moved.items()}
        found = evaluate(graph, {"x": x.transpose(perms["x"])})["y"]
        np.testing.assert_array_equal(found, np.maximum(x, 0).transpose(perms["y"]))
    with pytest.raises(ConfigError, match="no input or output 'xx'"):
        Interface(channels_last=True, preserved=("xx",)).run(spatial())


def test_an_image_of_one_channel_that_is_reshaped_becomes_channels_last() -> None:
    """A model that was converted before has a Reshape in place of its transpose."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 1, 4, 6), TensorKind.APP_WRITE))
    last = add(graph, "Reshape", [x], name="last", spec=Spec(DType.FLOAT_32, (1, 4, 6, 1)))
    w = static(graph, "w", np.ones((1, 1, 1, 2), np.float32))
    y = add(graph, "Conv2d", [last, w], name="c", stride=(1, 1), pad_amount=((0, 0), (0, 0)))
    last.source_perm = y.source_perm = (0, 2, 3, 1)
    y = add(graph, "Transpose", [y], name="y", perm=(0, 3, 1, 2))
    y.kind = TensorKind.APP_READ
    assert Interface(channels_last=True).run(graph)
    found = {t.name: t.shape for t in (*graph.inputs, *graph.outputs)}
    assert found == {"x": (1, 4, 6, 1), "y": (1, 4, 6, 2)}


def test_every_form_that_is_impossible_is_named() -> None:
    forms: list[Any] = [
        TensorForm("xx"),
        TensorForm("x", ("NCHW", "NFC"), "int9"),
        TensorForm("y", ("NCHW", "NHCW"), "float32", 0.5, colors=("rgb", "bgr")),
        TensorForm("y", colors=("rgb", "rgba")),
        TensorForm("y", None, "uint8", 0.5, 2**31),
    ]
    graph = relu()
    with pytest.raises(ConfigError) as caught:
        Interface(tuple(forms)).run(graph)
    text = str(caught.value)
    for part in (
        "no input or output 'xx'",
        "the layout NFC has 3 axes, but the tensor has 4",
        "the layouts NCHW and NFC have different axes",
        "unsupported type 'int9'",
        "unsupported layout 'NHCW'",
        "a scale needs one of the types int8, uint8, int16, uint16, got float32",
        "only inputs have colors",
        "the offset must be an integer of 32 bits, got 2147483648",
        "two forms are given",
        "cannot convert rgb to rgba",
    ):
        assert part in text, text
    assert len(graph.nodes) == 1


def test_an_odd_image_and_one_without_three_channels() -> None:
    for shape, part in (
        ((1, 3, 5, 6), "nv12 needs an even height and width, got 5 x 6"),
        ((1, 4, 4, 6), "an image has 4 axes and 3 channels, but the shape is (1, 4, 4, 6)"),
    ):
        with pytest.raises(ConfigError) as caught:
            Interface((TensorForm("x", colors=("nv12", "bgr")),)).run(relu(shape))
        assert part in str(caught.value)
