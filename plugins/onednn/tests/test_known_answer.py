"""The check of the library before its first use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
from dovetail.errors import PluginError
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.plan import Plan, build_plan
from dovetail_onednn import (
    Kind,
    Precision,
    checked_library,
    computing_in,
    known_answer,
    library,
    onednn_kernels,
    reorder,
)
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn.attributes import Quantization
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.layouts import dense, filters, images
from dovetail_onednn.precision import factor_type
from dovetail_onednn.product import Product
from dovetail_onednn.recipes import Recorded
from dovetail_opset import PACKAGE

ANSWERS = {
    Kind.PRODUCT: "_multiplied",
    Kind.CONVOLUTION: "_convolved",
    Kind.BFLOAT16: "_rounded",
    Kind.INTEGER: "_rescaled",
}

# some kinds are not checked where the processor has no instructions for them
with computing_in(Precision.BF16):
    SKIPPED = {Kind.BFLOAT16} if factor_type() is not DataType.BF16 else set()
SKIPPED |= set() if library().has_vnni else {Kind.INTEGER}
KINDS = [kind for kind in Kind if kind not in SKIPPED]


@pytest.fixture
def unchecked() -> Iterator[None]:
    known_answer._fault.cache_clear()
    yield
    known_answer._fault.cache_clear()


def spoil(monkeypatch: pytest.MonkeyPatch, kind: Kind, place: int = -1) -> None:
    """Create one element of what NumPy says of a kind another one."""
    right = getattr(known_answer, ANSWERS[kind])

    def wrong(*given: Any) -> Any:
        answer = right(*given)
        if kind is not Kind.BFLOAT16 or factor_type() is DataType.BF16:
            answer.reshape(-1)[place] += np.float32(1)
        return answer

    monkeypatch.setattr(known_answer, ANSWERS[kind], wrong)


@pytest.mark.usefixtures("unchecked")
def test_the_library_passes_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked_library() is library()
    for kind in Kind:
        spoil(monkeypatch, kind)
    assert checked_library() is library()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_one_wrong_element_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, place: int
) -> None:
    spoil(monkeypatch, kind, place)
    with pytest.raises(PluginError, match="wrong result") as caught:
        checked_library()
    assert kind.value.removesuffix("s") in caught.value.message
    assert library().path in str(caught.value.where)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", KINDS)
def test_a_wrong_kind_says_nothing_of_the_other(
    monkeypatch: pytest.MonkeyPatch, wrong: Kind
) -> None:
    spoil(monkeypatch, wrong)
    for kind in Kind:
        if kind not in (wrong, Kind.BFLOAT16):  # which has both others in it
            assert checked_library((kind,)) is library()
    with pytest.raises(PluginError):
        checked_library((wrong,))


@pytest.mark.parametrize("shape", [(9, 37), (37, 43), (64, 64), (3, 3, 32, 48), (9, 7, 32)])
def test_the_numbers_tell_every_row_and_column_from_the_others(shape: tuple[int, ...]) -> None:
    numbers = known_answer._numbers(shape)
    assert set(np.unique(numbers)) == set(range(-7, 8))
    for axis in range(len(shape)):
        lines = np.moveaxis(numbers, axis, 0).reshape(shape[axis], -1)
        assert len(np.unique(lines, axis=0)) == shape[axis]
    # no value is rare: each would be found missing
    assert np.unique(numbers, return_counts=True)[1].min() > numbers.size / 40


def test_what_numpy_says_is_right() -> None:
    rng = np.random.default_rng(2)
    x, w, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((1, 4, 5, 4), (3, 3, 2, 6), 6))
    found = known_answer._convolved(x, w, b, 2)
    for h, v, made in np.ndindex(4, 5, 6):
        total = float(b[made])
        for row, column, taken in np.ndindex(3, 3, 2):
            at, to = h + row - 1, v + column - 1
            if 0 <= at < 4 and 0 <= to < 5:
                total += x[0, at, to, made // 3 * 2 + taken] * w[row, column, taken, made]
        assert found[0, h, v, made] == max(total, 0)
    rows, matrix = x.reshape(20, 4), w.reshape(27, 4).T
    product = known_answer._multiplied(rows, matrix, np.float32(1))
    for i, j in np.ndindex(20, 27):
        assert product[i, j] == max(sum(rows[i, k] * matrix[k, j] for k in range(4)) + 1, 0)


def planned(model: Any, *, strict: bool) -> Plan:
    """Return the plan of two convolutions and a product."""
    x = model.conv(model.conv(model.input("x", 1, 4, 4, 8), "first", 8), "second", 8)
    flat = model.add("FullyConnected", x, model.random("w", 16, 128), name="product")
    model.output(flat)
    kernels = onednn_kernels("test", strict=strict)
    ops = OpRegistry.of(PACKAGE)
    graph = check_ops(model.graph, ops)
    return build_plan(graph, kernels, WeightStore(), None, reorder=reorder)


@pytest.mark.usefixtures("unchecked")
def test_convolutions_are_left_to_others_where_they_are_wrong(
    monkeypatch: pytest.MonkeyPatch,
    model: Any,
    kinds: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spoil(monkeypatch, Kind.CONVOLUTION)
    with caplog.at_level(logging.INFO, "dovetail.onednn"):
        plan = planned(model, strict=False)
    assert kinds(plan.steps) == ["reference first", "reference second", "engine product"]
    (said,) = caplog.messages  # once, and not for each
    assert said.startswith("convolutions are left to other kernels: oneDNN 3")


@pytest.mark.usefixtures("unchecked")
def test_wrong_convolutions_are_an_error_where_the_engine_is_demanded(
    monkeypatch: pytest.MonkeyPatch, model: Any
) -> None:
    spoil(monkeypatch, Kind.CONVOLUTION)
    with pytest.raises(PluginError, match=r"3x3 convolution, .* wrong result"):
        planned(model, strict=True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", [kind for kind in KINDS if kind is not Kind.BFLOAT16])
def test_what_an_image_describes_is_refused_where_it_is_wrong(
    monkeypatch: pytest.MonkeyPatch, wrong: Kind
) -> None:
    spoil(monkeypatch, wrong)
    source, weights, target = dense((2, 64)), dense((64, 32)), dense((2, 32))
    image, integers = images((1, 4, 4, 16)), Quantization(((Arg.WEIGHTS, 1),))
    described = Geometry(
        image, filters((1, 1, 16, 16), 1), None, image, (1, 1), (1, 1), (0, 0), (0, 0)
    )
    narrow = image.of_type(DataType.U8)
    descs = {
        Kind.PRODUCT: Product("matmul", source, weights, None, target).described(),
        Kind.CONVOLUTION: convolution_desc(described),
        Kind.INTEGER: convolution_desc(described, (), (narrow, narrow), integers),
    }
    for kind, desc in descs.items():
        primitive = Recorded(desc.described)
        if kind is wrong or (kind, wrong) == (Kind.INTEGER, Kind.CONVOLUTION):
            with pytest.raises(PluginError, match="wrong result"):
                _ = primitive.primitive
        else:
            assert primitive.primitive.is_open
