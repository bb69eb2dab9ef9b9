"""Normalizations, softmax and local response normalization against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1, 7, 9, 16), (2, 5, 33), (4, 17), (6,), (1, 1, 1, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm(model: Any, agrees: Any, shape: tuple[int, ...], bias: bool) -> None:
    inputs = [model.input("x", *shape), model.random("weight", shape[-1])]
    inputs += [model.random("bias", shape[-1])] if bias else []
    agrees(model, model.add("Batchnorm", *inputs, name="y"), engine="y")


def test_short_rows_are_taken_with_a_bias_only(model: Any, agrees: Any, kinds: Any) -> None:
    x, weight, bias = model.input("x", 4, 3), model.input("w", 3), model.random("b", 3)
    model.output(model.add("Batchnorm", x, weight, bias, name="both"))
    agrees(model, model.add("Batchnorm", x, weight, name="weight"))
    assert kinds(model.prepare().steps) == ["engine both", "reference weight"]


def test_what_follows_a_batch_norm_is_absorbed(model: Any, agrees: Any) -> None:
    x = model.input("x", 2, 6, 5, 24)
    y = model.add("Batchnorm", x, model.random("w", 24), model.random("b", 24), name="norm")
    y = model.add("ElementWiseAdd", y, model.input("other", 2, 6, 5, 24), name="add")
    agrees(model, model.add("Relu", y, name="relu"), engine="norm+add+relu")


def test_factors_of_a_batch_norm_that_change(model: Any, agrees: Any) -> None:
    inputs = model.input("x", 2, 6, 5, 24), model.input("w", 24), model.input("b", 24)
    agrees(model, model.add("Batchnorm", *inputs, name="y"), engine="y")


@pytest.mark.parametrize("factors", [0, 1, 2])
@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 5, 33), [2]), ((3, 4, 5, 6), [2, 3]), ((64,), [0]), ((8, 1), [1])]
)
@pytest.mark.parametrize("op_type", ["LayerNorm", "RmsNorm"])
def test_row_norm(
    model: Any, agrees: Any, op_type: str, shape: tuple[int, ...], axes: list[int], factors: int
) -> None:
    some = [model.random(f"factor{i}", *(shape[a] for a in axes)) for i in range(factors)]
    x = model.input("x", *shape)
    agrees(model, model.add(op_type, x, *some, name="y", axes=axes), engine="y")


@pytest.mark.parametrize("axes", [[1], [2, 1], [0, 2]])
def test_layer_norms_over_other_axes_are_left(
    model: Any, agrees: Any, kinds: Any, axes: list[int]
) -> None:
    agrees(model, model.add("LayerNorm", model.input("x", 3, 4, 5), name="y", axes=axes))
    assert kinds(model.prepare().steps) == ["reference y"]


@pytest.mark.parametrize("shape", [(1, 9, 7, 16), (1, 50, 64), (1, 3, 4, 5, 32)])
@pytest.mark.parametrize("bias", [True, False])
def test_instance_norm(model: Any, agrees: Any, shape: tuple[int, ...], bias: bool) -> None:
    inputs = [model.input("x", *shape), model.random("gamma", shape[-1])]
    inputs += [model.random("beta", shape[-1])] if bias else []
    agrees(model, model.add("InstanceNorm", *inputs, name="y", epsilon=1e-5), engine="y")


@pytest.mark.parametrize(
    "shape",
    [
        (1, 128, 96, 3),  # 32 positions make a row that fills vectors
        (1, 64, 64, 8),
        (3, 32, 32, 40),
        (2, 128, 304),
        (2, 8, 16, 16, 24),
    ],
)
@pytest.mark.parametrize("factors", [1, 2])
def test_instance_norm_of_items_and_few_channels(
    model: Any, agrees: Any, shape: tuple[int, ...], factors: int
) -> None:
    some = [model.random(f"factor{i}", shape[-1]) for i in range(factors)]
    y = model.add("InstanceNorm", model.input("x", *shape), *some, name="y", epsilon=1e-5)
    agrees(model, y, engine="y")


@pytest.mark.parametrize(
    ("shape", "group"),
    [
        ((1, 24, 24, 64), 1),
        ((1, 24, 24, 64), 16),
        ((1, 24, 24, 64), 64),
        ((2, 48, 48, 20), 5),  # 4 positions fill a row
        ((3, 700, 48), 3),
        ((1, 8, 12, 16, 24), 2),
    ],
)
@pytest.mark.parametrize("factors", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
def test_group_norm(
    model: Any, agrees: Any, shape: tuple[int, ...], group: int, factors: int, epsilon: float
) -> None:
    some = [model.random(f"factor{i}", shape[-1]) for i in range(factors)]
    params = {"group": group, "epsilon": epsilon}
    y = model.add("GroupNorm", model.input("x", *shape), *some, name="y", **params)
    agrees(model, y, engine="y")


def test_what_follows_a_group_norm_is_absorbed(model: Any, agrees: Any) -> None:
    x, other = model.input("x", 1, 24, 24, 64), model.input("other", 1, 24, 24, 64)
    some = [model.random(f"factor{i}", 64) for i in range(2)]
    y = model.add("GroupNorm", x, *some, name="norm", group=8, epsilon=1e-5)
    y = model.add("ElementWiseAdd", y, other, name="add")
    y = model.add("ElementWiseMultiply", y, model.random("scale", 64), name="scaled")
    gate = model.add("Sigmoid", y, name="gate")
    y = model.add("ElementWiseMultiply", y, gate, name="swish")
    agrees(model, y, engine="norm+add+scaled+gate+swish")


def test_a_residual_around_a_group_norm(model: Any, agrees: Any) -> None:
    x = model.conv(model.input("x", 1, 24, 24, 8), "conv", 64)
    y = model.add("GroupNorm", x, name="norm", group=8, epsilon=1e-5)
    agrees(model, model.add("ElementWiseAdd", y, x, name="sum"))


@pytest.mark.parametrize("shape", [(2, 24, 24, 64), (1, 64, 64, 8)])
def test_operands_of_items_and_of_joined_positions_are_not_absorbed(
    model: Any, agrees: Any, kinds: Any, shape: tuple[int, ...]
) -> None:
    x, other = model.input("x", *shape), model.input("other", *shape)
    y = model.add("GroupNorm", x, name="norm", group=4, epsilon=1e-5)
    y = model.add("Relu", model.add("ElementWiseAdd", y, other, name="add"), name="relu")
    agrees(model, y)
    assert kinds(model.prepare().steps) == ["engine norm", "engine add+relu"]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_group_with_nan_is_nan_and_no_other(model: Any, number: float) -> None:
    x = model.input("x", 2, 24, 24, 64)
    model.output(model.add("GroupNorm", x, name="y", group=4, epsilon=1e-5))
    feeds = model.feeds()
    feeds["x"][1, 3, 5, 20] = number
    with np.errstate(all="ignore"):  # as in a session
        result = model.run(model.prepare(), feeds)["y"]
    wanted = np.zeros(result.shape, bool)
    wanted[1, ..., 16:32] = True
    np.testing.assert_array_equal(np.isnan(result), wanted)


def test_a_constant_channel_of_a_group(model: Any, close: Any) -> None:
    model.output(
        model.add("GroupNorm", model.input("x", 1, 24, 24, 64), name="y", group=4, epsilon=0.0)
    )
    feeds = model.feeds()
    feeds["x"][..., 5] = 0.75
    close(model.run(model.prepare(), feeds)["y"], model.expected(feeds)["y"])


@pytest.mark.parametrize(
    ("shape", "params"),
    [
        ((2, 9, 7, 16), {}),
        ((1, 9, 7, 33), {}),  # for channels that fill no vector there is only generic code
        ((1, 9, 7, 16), {"mode": 1}),
        ((1, 9, 7, 16), {"region": 2}),
        ((1, 9, 7, 16), {"normalize_variance": False}),
    ],
)
def test_instance_norms_that_are_left(
    model: Any, agrees: Any, kinds: Any, shape: tuple[int, ...], params: dict[str, Any]
) -> None:
    x, gamma = model.input("x", *shape), model.random("gamma", shape[-1])
    agrees(model, model.add("InstanceNorm", x, gamma, name="y", epsilon=1e-5, **params))
    assert kinds(model.prepare().steps) == ["reference y"]


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 4, 21), 2), ((1, 1000), 1), ((5,), 0), ((2, 7, 1), 1), ((4, 1), 1)]
)
def test_softmax(model: Any, agrees: Any, shape: tuple[int, ...], axis: int) -> None:
    agrees(model, model.add("Softmax", model.input("x", *shape), name="y", axis=axis), engine="y")


def test_softmax_of_great_numbers(model: Any, close: Any) -> None:
    model.output(model.add("Softmax", model.input("x", 4, 9), name="y", axis=1))
    feeds = {"x": model.feeds()["x"] * 1000}  # powers of e beyond float32
    close(model.run(model.prepare(), feeds)["y"], model.expected(feeds)["y"])


@pytest.mark.parametrize("beta", [0.125, -2.0, 0.0])
def test_softmax_with_a_factor(model: Any, agrees: Any, beta: float) -> None:
    x = model.input("x", 3, 4, 33)
    agrees(model, model.add("Softmax", x, name="y", axis=2, beta=beta), engine="y")


def test_softmax_with_a_factor_in_place_and_not(model: Any, close: Any) -> None:
    x = model.conv(model.input("x", 1, 6, 6, 4), "conv", 8)
    first = model.add("Softmax", x, name="first", axis=3, beta=0.5)
    model.output(model.add("ElementWiseAdd", first, x, name="sum"))
    model.output(model.add("Softmax", first, name="second", axis=3, beta=3.0))
    feeds = model.feeds()
    wanted = model.expected(feeds)
    for name, found in model.run(model.prepare(), feeds).items():
        close(found, wanted[name])


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 60, 40, 4), 2), ((1, 300, 20), 1), ((90, 64), 0), ((2, 50, 9, 7), 1)]
)
@pytest.mark.parametrize("beta", [1.0, -0.5])
def test_softmax_along_another_axis(
    model: Any, agrees: Any, shape: tuple[int, ...], axis: int, beta: float
) -> None:
    y = model.add("Softmax", model.input("x", *shape), name="y", axis=axis, beta=beta)
    agrees(model, y, engine="y")


def test_a_column_with_nan_is_nan_and_no_other(model: Any) -> None:
    model.output(model.add("Softmax", model.input("x", 2, 300, 20), name="y", axis=1))
    feeds = model.feeds()
    feeds["x"][1, 7, 3] = np.nan
    with np.errstate(all="ignore"):  # as in a session
        result = model.run(model.prepare(), feeds)["y"]
    wanted = np.zeros(result.shape, bool)
    wanted[1, :, 3] = True
    np.testing.assert_array_equal(np.isnan(result), wanted)


def without_nan(model: Any, x: Any, number: float = 0.0, **params: Any) -> Any:
    """Add a Softmax whose NaN are replaced, as PyTorch exports an attention."""
    shares = model.add("Softmax", x, name="y", **params)
    is_nan = model.add("IsNan", shares, name="is_nan")
    other = model.static("other", number)
    return model.add("ElementWiseSelect", is_nan, other, shares, name="kept")


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize(("shape", "axis"), [((3, 5, 40), 2), ((2, 300, 20), 1)])
def test_rows_that_a_mask_hides_become_zero(
    model: Any, kinds: Any, shape: tuple[int, ...], axis: int, beta: float
) -> None:
    model.output(without_nan(model, model.input("x", *shape), axis=axis, beta=beta))
    prepared, feeds = model.prepare(), model.feeds()
    assert kinds(prepared.steps) == ["engine y+is_nan+kept"]
    rows = np.moveaxis(feeds["x"], axis, -1)
    rows[0, 1] = -np.inf  # wholly hidden
    rows[1, 0, 2] = -np.inf
    rows[1, 2, 1] = np.nan
    with np.errstate(all="ignore"):  # as in a session
        found, wanted = model.run(prepared, feeds)["kept"], model.expected(feeds)["kept"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
    found = np.moveaxis(found, axis, -1)
    assert not found[0, 1].any()
    assert not found[1, 2].any()
    assert found[1, 0].any()


def test_another_number_or_reader_keeps_the_test_for_nan(new_model: Any, kinds: Any) -> None:
    model = new_model()
    model.output(without_nan(model, model.input("x", 3, 40), number=1.0))
    assert len(model.prepare().steps) == 3
    model = new_model()
    model.output(without_nan(model, model.input("x", 3, 40)))
    model.output(model.add("Relu", model.graph.tensor("y"), name="relu"))
    assert len(model.prepare().steps) == 4


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 60, 128)])
def test_short_columns_and_distant_ones_are_left(
    model: Any, agrees: Any, kinds: Any, shape: tuple[int, ...]
) -> None:
    agrees(model, model.add("Softmax", model.input("x", *shape), name="y", axis=1))
    assert kinds(model.prepare().steps) == ["reference y"]


@pytest.mark.parametrize("shape", [(2, 5, 6, 32), (1, 4, 4, 7), (3, 3, 96), (1, 2, 2, 3)])
@pytest.mark.parametrize("alpha", [2e-5, 0.7])
def test_local_response_norm(model: Any, agrees: Any, shape: tuple[int, ...], alpha: float) -> None:
    params = {"radius": 2, "alpha": alpha, "beta": 0.75, "bias": 1.5}
    agrees(model, model.add("Lrn", model.input("x", *shape), name="y", **params))


def test_the_usual_local_response_norm_is_taken(model: Any, kinds: Any) -> None:
    params = {"radius": 2, "alpha": 2e-5, "beta": 0.75, "bias": 1.0}
    model.output(model.add("Lrn", model.input("x", 1, 13, 13, 256), name="y", **params))
    assert kinds(model.prepare().steps) == ["engine y"]


@pytest.mark.parametrize(
    "params", [{"radius": 1, "beta": 0.5}, {"radius": 2, "beta": 0.75, "region": 1}]
)
def test_local_response_norms_that_are_left(
    model: Any, agrees: Any, kinds: Any, params: dict[str, Any]
) -> None:
    x = model.input("x", 1, 6, 6, 16)
    agrees(model, model.add("Lrn", x, name="y", alpha=0.1, bias=1.0, **params))
    assert kinds(model.prepare().steps) == ["reference y"]


@pytest.mark.parametrize("op_type", ["Softmax", "Lrn", "LayerNorm", "Batchnorm"])
def test_no_elements(model: Any, op_type: str) -> None:
    params = {"Lrn": {"radius": 2}, "LayerNorm": {"axes": [1]}}.get(op_type, {})
    inputs = [model.input("x", 0, 4)]
    inputs += [model.random("w", 4)] if op_type == "Batchnorm" else []
    model.output(model.add(op_type, *inputs, name="y", **params))
    assert model.run(model.prepare(), model.feeds())["y"].shape == (0, 4)
