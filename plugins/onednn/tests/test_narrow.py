"""Values in bfloat16 between steps, where the processor has instructions for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dovetail.ir import Array, DType, Spec, Tensor
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import Storage
from dovetail_onednn import Precision, computing_in, library, precision
from dovetail_onednn._api import DataType
from dovetail_onednn.layouts import type_of
from dovetail_onednn.precision import factor_type
from dovetail_opset.build import add_all

Middle = Callable[[Any, Tensor], Tensor]
CHANNELS = 32


@pytest.fixture(autouse=True)
def in_bf16() -> Iterator[None]:
    with computing_in(Precision.BF16):
        if factor_type() is DataType.F32:
            pytest.skip(f"no bfloat16 with {library().instruction_set_name}")
        yield


def near(found: Array, wanted: Array) -> None:
    """Check that results are at least one and at most a few roundings to 8 bits apart."""
    distance = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert 1e-5 < distance < 1e-2


def framed(model: Any, middle: Middle) -> None:
    """Put an op between two convolutions."""
    y = model.conv(model.input("x", 1, 12, 12, 24), "before", CHANNELS)
    model.output(model.conv(middle(model, y), "after", CHANNELS))


def agrees(model: Any) -> Any:
    prepared, feeds = model.prepare(), model.feeds()
    wanted = model.expected(feeds)
    for name, found in model.run(prepared, feeds).items():
        near(found, wanted[name])
    return prepared


def reorders(prepared: Any) -> int:
    return sum(not step.nodes for step in prepared.steps)


def types(step: Any) -> set[DataType]:
    """Return the element types of what a step reads and writes, without constants."""
    values = [v for v in (*step.reads, *step.writes) if v.storage is not Storage.CONSTANT]
    return {type_of(v.layout) for v in values}


def pool(op_type: str, **params: Any) -> Middle:
    given = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))} | params
    return lambda m, y: m.add(op_type, y, name="mid", **given)


def one(op_type: str, **params: Any) -> Middle:
    return lambda m, y: m.add(op_type, y, name="mid", **params)


def residual(model: Any, y: Tensor) -> Tensor:
    z = model.conv(y, "branch", CHANNELS)
    return model.add("Relu", model.add("ElementWiseAdd", z, y, name="sum"), name="mid")


def alone(model: Any, y: Tensor) -> Tensor:
    """Two functions of one tensor that no convolution fuses."""
    a, b = model.add("Relu", y, name="a"), model.add("Sigmoid", y, name="b")
    return model.add("ElementWiseSubtract", a, b, name="mid")


def by_channel(model: Any, y: Tensor) -> Tensor:
    pooled = pool("PoolMax2d", stride=(1, 1))(model, y)
    scaled = model.add("ElementWiseMultiply", pooled, model.random("s", CHANNELS), name="scaled")
    return model.add("ElementWiseAdd", scaled, pooled, name="sum")


def batchnorm(model: Any, y: Tensor) -> Tensor:
    pooled = pool("PoolMax2d")(model, y)
    factors = model.random("g", CHANNELS), model.random("h", CHANNELS)
    return model.add("Batchnorm", pooled, *factors, name="norm")


def concat(model: Any, y: Tensor) -> Tensor:
    return model.add("Concat", y, model.conv(y, "branch", 16), name="mid", axis=3)


def padded_maximum_of_joined(model: Any, y: Tensor) -> Tensor:
    parts = [
        model.add("Relu", model.conv(y, name, 16), name=f"{name}.relu") for name in ("one", "two")
    ]
    whole = model.add("Concat", *parts, name="joined", axis=3)
    return pool("PoolMax2d", pad_amount=((1, 1), (1, 1)))(model, whole)


def gated(model: Any, y: Tensor) -> Tensor:
    """Squeeze and excitation."""
    mean = model.add("ReduceMean", y, name="mean", axes=[1, 2], keep_dims=True)
    gate = model.conv(mean, "gate", CHANNELS, size=1, pad_amount=((0, 0), (0, 0)))
    gate = model.add("Sigmoid", gate, name="open")
    return model.add("ElementWiseMultiply", y, gate, name="mid")


def depthwise(model: Any, y: Tensor) -> Tensor:
    w, b = model.random("d.w", 3, 3, 1, CHANNELS), model.random("d.b", CHANNELS)
    params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    return model.add("DepthWiseConv2d", y, w, b, name="mid", **params)


def resized(model: Any, y: Tensor) -> Tensor:
    spec = Spec(DType.FLOAT_32, (1, 24, 24, CHANNELS))
    return model.add("ResizeBilinear", y, name="mid", spec=spec, half_pixel_centers=True)


IMAGES: dict[str, Middle] = {
    "residual": residual,
    "functions": alone,
    "by channel": by_channel,
    "batchnorm": batchnorm,
    "maximum": pool("PoolMax2d"),
    "average": pool("PoolAvg2d", pad_amount=((1, 1), (0, 1))),
    "all pixels": one("ReduceMean", axes=[1, 2], keep_dims=True),
    "sums": one("ReduceSum", axes=[1, 2], keep_dims=True),
    "concat": concat,
    "padded maximum of joined": padded_maximum_of_joined,
    "gated": gated,
    "depthwise": depthwise,
    "shuffle": one("ChannelShuffle", axis=3, num_groups=4),
    "transpose": one("Transpose", perm=(0, 2, 1, 3)),
    "resized": resized,
    "response": one("Lrn", radius=2, alpha=1e-4, beta=0.75, bias=1.0),
}


@pytest.mark.parametrize("case", IMAGES)
def test_between_convolutions_nothing_is_widened(model: Any, case: str) -> None:
    framed(model, IMAGES[case])
    prepared = agrees(model)
    # at both ends, and where a transpose is a copy
    assert reorders(prepared) == (3 if case == "transpose" else 2)
    inner = [step for step in prepared.steps if step.nodes]
    assert [types(step) for step in inner] == [{DataType.BF16}] * len(inner)


def test_what_has_no_narrow_form_is_widened_and_rounded_again(model: Any) -> None:
    """The border of zeros is the maximum's own."""
    framed(model, pool("PoolMax2d", pad_amount=((1, 1), (1, 1))))
    prepared = agrees(model)
    assert reorders(prepared) == 4
    (inner,) = [step for step in prepared.steps if "mid" in step.nodes]
    assert types(inner) == {DataType.F32}


@pytest.mark.parametrize(
    ("channels", "size"), [(48, 2), (80, 2), (208, 2), (16, 4), (8, 8), (3, 4), (64, 2)]
)
def test_patches(model: Any, channels: int, size: int) -> None:
    """For some of these the library's code for AMX is wrong, and is not used."""
    x = model.input("x", 1, 4 * size, 4 * size, channels)
    w = model.random("w", size, size, channels, 96)
    params = {"stride": (size, size), "pad_amount": ((0, 0), (0, 0))}
    model.output(model.add("Conv2d", x, w, name="patches", **params))
    agrees(model)


def test_constants_are_rounded_once(model: Any) -> None:
    y = model.conv(model.input("x", 1, 12, 12, 24), "conv", CHANNELS)
    model.output(model.add("ElementWiseAdd", y, model.random("all", 1, 12, 12, CHANNELS), name="y"))
    assert reorders(agrees(model)) == 2


def product(model: Any, x: Tensor, name: str, columns: int = 128) -> Tensor:
    w = model.static(f"{name}.w", model.rng.standard_normal((x.shape[-1], columns)) / 11)
    return model.add("MatMul", x, w, name=name)


def heads(model: Any, x: Tensor, name: str) -> Tensor:
    """(32, 128) as 4 heads of (32, 32)."""
    apart = model.add("Reshape", x, name=f"{name}.apart", spec=Spec(DType.FLOAT_32, (1, 32, 4, 32)))
    return model.add("Transpose", apart, name=f"{name}.heads", perm=(0, 2, 1, 3))


def attention(model: Any, x: Tensor) -> Tensor:
    query, key, value = (heads(model, product(model, x, n), n) for n in ("q", "k", "v"))
    scores = model.add("MatMul", query, key, name="scores", transpose_in1=True)
    weights = model.add("Softmax", scores, name="weights", axis=3, beta=0.2)
    mixed = model.add("MatMul", weights, value, name="mixed")
    back = model.add("Transpose", mixed, name="back", perm=(0, 2, 1, 3))
    return model.add("Reshape", back, name="joined", spec=Spec(DType.FLOAT_32, (32, 128)))


def test_attention_is_narrow_from_end_to_end(model: Any) -> None:
    x = product(model, model.input("x", 32, 128), "embedded")
    sum_ = model.add("ElementWiseAdd", attention(model, x), x, name="sum")
    norm = model.add(
        "LayerNorm", sum_, model.random("g", 128), model.random("b", 128), name="norm", axes=[1]
    )
    wide = product(model, norm, "wide", 256)
    model.output(product(model, model.add("Gelu", wide, name="gelu"), "narrow"))
    prepared = agrees(model)
    inner = [step for step in prepared.steps if step.nodes]
    assert [types(step) for step in inner] == [{DataType.BF16}] * len(inner)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("is_known", [True, False])
def test_products_by_one_matrix(model: Any, rows: int, is_known: bool) -> None:
    """Large products are rounded, by a matrix that is an input too."""
    w = model.random("w", 700, 600) if is_known else model.input("w", 700, 600)
    x = model.input("x", rows, 600)
    model.output(model.add("FullyConnected", x, w, model.random("b", 700), name="y"))
    prepared = agrees(model)
    (inner,) = [step for step in prepared.steps if step.nodes]
    assert types(inner) == {DataType.BF16}


def test_small_products_stay_as_they_are(model: Any) -> None:
    x, w = model.input("x", 4, 32), model.random("w", 32, 16)
    model.output(model.add("MatMul", x, w, name="y"))
    prepared, feeds = model.prepare(), model.feeds()
    assert reorders(prepared) == 0
    found, wanted = model.run(prepared, feeds)["y"], model.expected(feeds)["y"]
    # sums of 32 products in another order: a rounding to 8 bits would be a hundred times as far
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_the_application_reads_is_float32_and_others_still_narrow(model: Any) -> None:
    y = model.conv(model.input("x", 1, 12, 12, 24), "first", CHANNELS)
    model.output(y)
    model.output(model.conv(y, "second", CHANNELS))
    prepared = agrees(model)
    assert reorders(prepared) == 3


def test_watching_shows_float32(model: Any) -> None:
    framed(model, residual)
    prepared, feeds = model.prepare(), model.feeds()
    seen: dict[str, Array] = {}

    class Seen:
        def step_finished(self, nodes: Any, microseconds: float, outputs: Any) -> None:
            seen.update({name: array.copy() for name, array in outputs.items()})

    prepared.run(feeds, model.buffers(), RunControl(Seen()))
    wanted = model.expected(feeds)
    assert seen.keys() == {"before", "mid", "after"}
    for name, found in seen.items():
        assert found.dtype == np.float32
        near(found, wanted[name])


def test_a_recurrent_layer_reads_float32(model: Any) -> None:
    x = product(model, model.input("x", 40, 128), "embedded")
    sequence = model.add("Reshape", x, name="steps", spec=Spec(DType.FLOAT_32, (10, 4, 128)))
    ins: list[Tensor | None] = [sequence, *[None] * 12]
    for i in (1, 2, 3):
        ins[i] = model.static(f"w{i}", model.rng.standard_normal((16, 128)) / 11)
    for i in (4, 5, 6):
        ins[i] = model.static(f"w{i}", model.rng.standard_normal((16, 16)) / 4)
    model.output(add_all(model.graph, "Gru", ins, name="layer", outputs=["out", "h"])[0])
    prepared = agrees(model)
    (layer,) = [step for step in prepared.steps if step.nodes == ("layer",)]
    assert types(layer) == {DataType.F32}


def test_without_instructions_for_it_nothing_is_narrow(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "library", lambda: replace(library(), instruction_set=0x27))
    framed(model, residual)
    prepared = model.prepare()
    assert all(types(step) == {DataType.F32} for step in prepared.steps)
