"""NaN and infinities through fused nodes, poolings and softmaxes, against the ops' references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.container import aligned_empty
from dovetail.ir import Array, Tensor
from dovetail_onednn import Precision, computing_in, elementwise, library, nan, winograd
from dovetail_onednn._api import DataType
from dovetail_onednn.layouts import BYTES
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.precision import factor_type
from dovetail_opset.ops.activation import Neuron

Part = Callable[[Any, Tensor], Tensor]
CHANNELS = 32
POOL = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}


def one(op_type: str, **params: Any) -> Part:
    return lambda m, y: m.add(op_type, y, name="tail", **params)


def two(op_type: str) -> Part:
    return lambda m, y: m.add(op_type, y, m.random("other", CHANNELS), name="tail")


def gated(op_type: str, **params: Any) -> Part:
    return lambda m, y: m.add(
        "ElementWiseMultiply", y, m.add(op_type, y, name="gate", **params), name="tail"
    )


def residual(model: Any, y: Tensor) -> Tensor:
    y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="sum")
    return model.add("Relu", y, name="tail")


def leaky(*slopes: float) -> Part:
    return lambda m, y: m.add("Prelu", y, m.static("slopes", slopes), name="tail")


def joined(model: Any, y: Tensor) -> Tensor:
    relu = model.add("Relu", y, name="relu")
    return model.add("Concat", relu, model.add("Tanh", y, name="tanh"), name="tail", axis=3)


HEADS: dict[str, Part] = {
    "conv": lambda m, x: m.conv(x, "head", CHANNELS),
    "pointwise": lambda m, x: m.conv(x, "head", CHANNELS, size=1, pad_amount=((0, 0), (0, 0))),
    "depthwise": lambda m, x: m.conv(x, "head", CHANNELS, group=CHANNELS),
    "matmul": lambda m, x: m.add("MatMul", x, m.random("w", CHANNELS, CHANNELS), name="head"),
    "add": lambda m, x: m.add("ElementWiseAdd", x, m.random("row", CHANNELS), name="head"),
    "norm": lambda m, x: m.add(
        "Batchnorm", x, m.random("w", CHANNELS), m.random("b", CHANNELS), name="head"
    ),
    "average": lambda m, x: m.add("PoolAvg2d", x, name="head", **POOL),
    "tanh": lambda m, x: m.add("Tanh", x, name="head"),
    "exp": lambda m, x: m.add("ElementWiseExp", x, name="head"),
}
TAILS: dict[str, Part] = {
    **{name: one(name) for name in ("Relu", "Relu1", "Relu6", "Sigmoid", "Tanh", "Gelu")},
    **{name: one(name) for name in ("HardSwish", "ElementWiseAbs")},
    "root": lambda m, y: m.add(
        "ElementWiseSquareRoot", m.add("ElementWiseAbs", y, name="abs"), name="tail"
    ),
    "elu": one("Elu", alpha=0.7),
    "clip from 0": one("ReluMinMax", min_value=0.0, max_value=0.75),
    "clip": one("ReluMinMax", min_value=-0.5, max_value=0.75),
    "hard sigmoid": one("ElementWiseNeuron", operation=Neuron.HARD_SIGMOID),
    "swish": gated("Sigmoid"),
    "hard swish": gated("ElementWiseNeuron", operation=Neuron.HARD_SIGMOID),
    "leaky": leaky(0.1),
    "leak of 0": leaky(0.0),
    "slopes": leaky(*np.linspace(0.0, 0.9, CHANNELS)),
    "maximum": two("ElementWiseMaximum"),
    "minimum": two("ElementWiseMinimum"),
    "product": two("ElementWiseMultiply"),
    "residual": residual,
    "maximum pooling": one("PoolMax2d", **POOL),
    "average pooling": one("PoolAvg2d", **POOL),
    "relu and pooling": lambda m, y: m.add(
        "PoolMax2d", m.add("Relu", y, name="relu"), name="tail", **POOL
    ),
    "softmax": one("Softmax"),
    "concat": joined,
}


def run(model: Any, number: float, count: int = 3) -> tuple[Array, Array]:
    """Return a model's only result and the references', for an input with such numbers."""
    feeds = model.feeds()
    x = feeds["x"]
    x.flat[model.rng.integers(x.size, size=count)] = number
    (output,) = model.graph.outputs
    found = model.run(model.prepare(), feeds)[output.name]
    with np.errstate(all="ignore"):
        return found, model.expected(feeds)[output.name]


def keeps_nan(found: Array, wanted: Array, tolerance: float = 1e-5) -> None:
    """NaN is where it must be, and numbers are right but where they are NaN.

    Sums of up to 300 products, in another order: see `close` of conftest.py.
    """
    assert np.isnan(found[np.isnan(wanted)]).all()
    # the library's maximum of nothing but -inf is the lowest finite number
    found = np.where(found == np.finfo(np.float32).min, -np.inf, found)
    right = np.isnan(found) | np.isclose(found, wanted, tolerance, 1e-5 + 10 * tolerance)
    assert right.all(), (found[~right][:5], wanted[~right][:5])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("head", HEADS)
def test_fused(
    model: Any, monkeypatch: pytest.MonkeyPatch, head: str, tail: str, number: float
) -> None:
    monkeypatch.setattr(elementwise, "_LEAST", 1)
    monkeypatch.setattr(elementwise, "_LEAST_SLOW", 1)
    y = HEADS[head](model, model.input("x", 1, 8, 8, CHANNELS))
    model.output(TAILS[tail](model, y))
    found, wanted = run(model, number)
    keeps_nan(found, wanted)
    if number != number:
        assert np.array_equal(np.isnan(found), np.isnan(wanted))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("head", ["conv", "depthwise", "matmul"])
def test_fused_in_bfloat16(model: Any, head: str, tail: str) -> None:
    with computing_in(Precision.BF16):
        if factor_type() is DataType.F32:
            pytest.skip("no bfloat16 on this processor")
        y = HEADS[head](model, model.input("x", 1, 8, 8, CHANNELS))
        y = model.add("Relu", y, name="between")
        model.output(TAILS[tail](model, model.conv(y, "second", CHANNELS)))
        found, wanted = run(model, np.nan)
    assert np.isnan(wanted).any()
    assert np.array_equal(np.isnan(found), np.isnan(wanted))


@pytest.mark.parametrize("name", ["inf", "-inf", "nan"])
def test_what_a_relu_makes_of_an_infinity(model: Any, name: str) -> None:
    """Only minus infinity differs from the reference: NaN in place of 0, never a number."""
    y = model.add("Relu", model.conv(model.input("x", 1, 4, 4, 8), "conv", 8), name="relu")
    model.output(y)
    found, wanted = run(model, float(name), count=1)
    reached = ~np.isfinite(wanted) | ~np.isfinite(found)
    assert reached[0].any()
    assert set(np.unique(np.nan_to_num(wanted[reached & np.isnan(found)], nan=0))) <= {0}
    np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("at", range(9))
def test_a_maximum_at_each_place_of_its_window(model: Any, at: int, pads: int) -> None:
    params = {"filter_size": (3, 3), "stride": (3, 3), "pad_amount": ((pads, pads),) * 2}
    model.output(model.add("PoolMax2d", model.input("x", 1, 6, 6, 5), name="y", **params))
    feeds = model.feeds()
    feeds["x"][0, at // 3, at % 3, 2] = np.nan
    found = model.run(model.prepare(), feeds)["y"]
    np.testing.assert_array_equal(found, model.expected(feeds)["y"])
    assert np.isnan(found).sum() == 1


@pytest.mark.usefixtures("blocked")
def test_a_maximum_of_a_blocked_layout(model: Any, kinds: Any) -> None:
    y = model.add("Relu", model.conv(model.input("x", 1, 12, 12, 3), "conv", 16), name="relu")
    model.output(model.add("PoolMax2d", y, name="pool", **POOL))
    assert "engine pool" in kinds(model.prepare().steps)
    found, wanted = run(model, np.nan, count=1)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    keeps_nan(found, wanted)


@pytest.mark.parametrize("width", [2, 7, 16, 40, 130])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_a_row_of_a_softmax(model: Any, width: int, beta: float) -> None:
    model.output(model.add("Softmax", model.input("x", 5, width), name="y", beta=beta))
    prepared, feeds = model.prepare(), model.feeds()
    for at in {0, width // 2, width - 1}:
        for number in (np.nan, np.inf, -np.inf):
            x = feeds["x"].copy()
            x[1, at] = number
            found = model.run(prepared, {"x": x})["y"]
            with np.errstate(invalid="ignore"):
                wanted = model.expected({"x": x})["y"]
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
            assert np.isnan(found[1]).all() == (number != -np.inf)


def test_winograd_may_spread_nan_but_keeps_it(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "_LEAST_PRODUCTS", 1)
    monkeypatch.setattr(winograd, "_LEAST_CHANNELS", 1)
    y = model.conv(model.input("x", 1, 16, 16, CHANNELS), "conv", CHANNELS)
    model.output(model.add("Relu6", y, name="relu"))
    assert len(model.prepare().steps) == 1
    keeps_nan(*run(model, np.nan), tolerance=1e-4)  # its terms' errors: see winograd.py


@pytest.mark.parametrize("count", [3, 10_000])
def test_large_numbers_and_infinities_are_not_nan(count: int) -> None:
    numbers = np.resize(np.float32([3e38, -np.inf, np.inf]), count)
    with np.errstate(over="ignore"):  # as backends run
        assert not nan.has_nan(numbers)
        numbers[1] = -np.nan
        assert nan.has_nan(numbers)


@pytest.mark.parametrize("bits", [0x7FC0, 0xFFC0, 0x7F81, 0xFF81])
@pytest.mark.parametrize("others", [(0x3F80, 0xBF80), (0x7F80, 0xFF80), (0x8000, 0x0000)])
def test_bits_of_bfloat16(bits: int, others: tuple[int, int]) -> None:
    numbers = np.array([*others] * 3, np.uint16)
    assert not nan.has_nan(numbers)
    numbers[3] = bits
    assert nan.has_nan(numbers)
    assert nan.is_nan(numbers).tolist() == [False, False, False, True, False, False]


@pytest.mark.parametrize("kind", [DataType.F32, DataType.BF16])
@pytest.mark.parametrize("count", [100, 1 << 17, (1 << 18) + 5])
def test_search_in_many_numbers(kind: DataType, count: int) -> None:
    if kind is DataType.BF16 and not library().has_bfloat16:
        pytest.skip("no bfloat16 on this processor")
    data = aligned_empty(count * BYTES[kind])
    numbers = nan.elements(data, kind)
    numbers[:] = numbers.dtype.type(0x7F00)
    found = NanSearch.of(data.nbytes, kind).bind(numbers)
    assert not found()
    for at in (0, count // 2, count - 1):
        before = numbers[at]
        nan.set_nan(numbers, np.array([at]), kind)
        assert found()
        numbers[at] = before
    assert not found()


def test_search_moves_to_other_numbers() -> None:
    first, second = (aligned_empty(4 << 17).view(np.float32) for _ in range(2))
    first[:], second[:] = 1, 2
    search = NanSearch.of(first.nbytes, DataType.F32)
    assert not search.bind(first)()
    second[70_000] = np.nan
    assert search.bind(second)()
    assert not search.bind(first)()


def test_search_after_a_large_pooling(model: Any) -> None:
    model.output(model.add("PoolMax2d", model.input("x", 1, 64, 64, 40), name="y", **POOL))
    prepared, feeds = model.prepare(), model.feeds()
    feeds["x"][0, 0, :2, 0] = np.inf, -np.inf
    np.testing.assert_array_equal(model.run(prepared, feeds)["y"], model.expected(feeds)["y"])
    feeds["x"][0, 33, 20, 7] = np.nan
    np.testing.assert_array_equal(model.run(prepared, feeds)["y"], model.expected(feeds)["y"])
