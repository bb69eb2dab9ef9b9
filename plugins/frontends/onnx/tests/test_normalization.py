"""Normalizations against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


def statistics(rng, channels):
    return [data(rng, channels) for _ in range(3)] + [rng.uniform(0.1, 2, channels).astype(F32)]


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("spatial", [(), (6,), (4, 5), (2, 3, 4)])
def test_batch_normalization(check, rng, opset, spatial) -> None:
    x = data(rng, 2, 3, *spatial)
    check("BatchNormalization", [x], known=statistics(rng, 3), opset=opset)
    check("BatchNormalization", [x], known=statistics(rng, 3), opset=opset, epsilon=0.1)


def test_batch_normalization_is_folded_in_double_precision(check, rng) -> None:
    known = [np.array([1e-3], F32), np.array([1], F32), np.array([1e3], F32), np.array([1e-4], F32)]
    graph = check("BatchNormalization", [data(rng, 2, 1, 3, 3) + F32(1e3)], known=known, rtol=1e-3)
    weight = 1e-3 / np.sqrt(np.float64(F32(1e-4)) + np.float64(F32(1e-5)))
    found = graph.tensor("the_node.bias").values()
    np.testing.assert_allclose(found, 1 - 1e3 * weight, rtol=1e-6)


def test_batch_normalization_by_infinite_statistics(check, rng) -> None:
    shift, mean = np.array([np.inf, 0, 1], F32), np.array([np.inf, -np.inf, 3e38], F32)
    variance = np.array([1, 1, -1], F32)
    check("BatchNormalization", [data(rng, 2, 3, 4, 4)], known=[shift, shift, mean, variance])


def test_weights_are_standardized_at_import(agree, model, rng) -> None:
    """As the convolutions of NFNets: by a normalization in training mode, of large constants."""
    known = {
        "w": rng.standard_normal((1, 64, 1200)).astype(F32),
        "s": rng.uniform(0.5, 2, 64).astype(F32),
        "b": np.zeros(64, F32),
        "m": np.zeros(64, F32),
        "v": np.ones(64, F32),
    }
    names = ["y", "mean", "variance"]
    nodes = [
        helper.make_node("BatchNormalization", list("wsbmv"), names, training_mode=1),
        helper.make_node("Add", ["x", "y"], ["z"]),
    ]
    feeds = {"x": rng.standard_normal((1, 64, 1)).astype(F32)}
    graph = agree(model(nodes, feeds, ["z"], known, opset=15), feeds, rtol=1e-5, atol=1e-5)
    assert [node.op_type for node in graph.nodes] == ["ElementWiseAdd"]


def test_batch_normalization_in_training_is_refused(model, read, rng) -> None:
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], training_mode=1)
    known = dict(zip("sbmv", statistics(rng, 3), strict=True))
    with pytest.raises(UnsupportedOpError, match="training mode"):
        read(model([node], {"x": data(rng, 2, 3, 4, 4)}, ["y"], known, opset=15))


@pytest.mark.parametrize("axis", [None, -1, 1, -2, 0])
def test_layer_normalization(check, rng, axis) -> None:
    x = data(rng, 2, 3, 4)
    over = x.shape[-1 if axis is None else axis :]
    given = {} if axis is None else {"axis": axis, "epsilon": 1e-3}
    check("LayerNormalization", [x], known=[data(rng, *over), data(rng, *over)], **given)
    check("LayerNormalization", [x], known=[data(rng, *over)], **given)


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_layer_normalization_with_its_statistics(check, rng, axis) -> None:
    x = data(rng, 2, 3, 4)
    check("LayerNormalization", [x], known=[data(rng, *x.shape[axis:])], axis=axis, outputs=3)
    check("LayerNormalization", [x], known=[data(rng, *x.shape[axis:])], axis=axis, outputs=2)


def test_statistics_of_narrow_floats_are_refused(model, read) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean"])
    given = {"x": np.ones((2, 3), np.float16), "s": np.ones(3, np.float16)}
    with pytest.raises(
        UnsupportedOpError,
        match="outputs mean and deviation are FLOAT_32, but the input is FLOAT_16",
    ):
        read(model([node], given, ["y", "mean"]))


def test_layer_normalization_with_a_scale_that_broadcasts(check, rng) -> None:
    x = data(rng, 2, 3, 4)
    check("LayerNormalization", [x], known=[data(rng, 4), data(rng, 3, 1)], axis=1)


# -- statistics of channels ----------------------------------------------------------------------


def test_batch_normalization_by_statistics_of_a_run(check, rng) -> None:
    graph = check("BatchNormalization", [data(rng, 2, 3, 4, 5), *statistics(rng, 3)])
    assert "Batchnorm" in [n.op_type for n in graph.nodes]


@pytest.mark.parametrize("spatial", [(), (4, 5)])
def test_batch_normalization_by_place(check, rng, spatial) -> None:
    statistics_by_place = [data(rng, 3, *spatial) for _ in range(3)]
    statistics_by_place.append(np.abs(data(rng, 3, *spatial)) + F32(0.1))
    x = data(rng, 2, 3, *spatial)
    check("BatchNormalization", [x], known=statistics_by_place, opset=7, spatial=0)
    check("BatchNormalization", [x, *statistics_by_place], opset=7, spatial=0)


def test_batch_normalization_of_one_channel_without_a_dimension(read, run, model, rng) -> None:
    # ONNX Runtime takes no input of rank 1; the definition does: "C is assumed to be 1"
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], epsilon=0.0)
    known = {n: np.array([v], F32) for n, v in zip("sbmv", (2, 1, 3, 0.25), strict=True)}
    graph = read(model([node], {"x": data(rng, 4)}, ["y"], known, opset=15))
    (found,) = run(graph, {"x": np.array([3, 4, 5, 6], F32)}).values()
    np.testing.assert_array_equal(found, [1, 5, 9, 13])


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("spatial", [(6,), (4, 5), (2, 3, 4)])
def test_instance_normalization(check, rng, opset, spatial) -> None:
    x, factors = data(rng, 2, 3, *spatial) + 1, [data(rng, 3), data(rng, 3)]
    check("InstanceNormalization", [x], known=factors, opset=opset)
    check("InstanceNormalization", [x, *factors], opset=opset, epsilon=0.1)


@pytest.mark.parametrize(("opset", "groups"), [(18, 2), (18, 6), (21, 1), (21, 3), (22, 2)])
@pytest.mark.parametrize("spatial", [(5,), (4, 5), (2, 3, 4)])
def test_group_normalization(check, rng, opset, groups, spatial) -> None:
    count = groups if opset < 21 else 6  # of scales: by group at first, then by channel
    x, factors = data(rng, 2, 6, *spatial) + 1, [data(rng, count), data(rng, count)]
    params = {"opset": opset, "num_groups": groups}
    check("GroupNormalization", [x], known=factors, **params)
    check("GroupNormalization", [x, *factors], epsilon=0.1, **params)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_local_response_normalization(check, rng, opset, size) -> None:
    x = 3 * data(rng, 2, 6, 4, 5)
    check("LRN", [x], size=size, opset=opset)
    check("LRN", [x], size=size, alpha=0.7, beta=0.4, bias=2.0, opset=opset)


@pytest.mark.parametrize(
    ("op_type", "shape", "known", "attributes", "said"),
    [
        ("LRN", (1, 4, 3, 3), (), {"size": 4}, "unsupported even size 4; expected an odd one"),
        ("LRN", (1, 4, 3, 3), (), {"size": 0}, "size must be above 0, got 0"),
        ("InstanceNormalization", (2, 3), (3, 3), {}, "no spatial dimensions"),
        ("InstanceNormalization", (2, 3, 4), (4, 4), {}, r"gamma in\[1\] must have shape \(3,\)"),
        (
            "GroupNormalization",
            (2, 3, 4),
            (3, 3),
            {"num_groups": 2},
            "3 channels cannot be split into 2 groups",
        ),
        (
            "BatchNormalization",
            (2, 3, 4),
            (3, 3, 4, 3),
            {},
            r"mean has shape \(4,\); for the input \(2, 3, 4\) it must be \(3,\)",
        ),
    ],
)
def test_what_does_not_fit(model, read, op_type, shape, known, attributes, said) -> None:
    constants = {f"c{i}": np.ones(n, F32) for i, n in enumerate(known)}
    node = helper.make_node(op_type, ["x", *constants], ["y"], **attributes)
    with pytest.raises((UnsupportedOpError, FrontendError), match=said):
        read(model([node], {"x": np.ones(shape, F32)}, ["y"], constants, opset=21))


# -- norms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_lp_normalization(check, rng, opset, p, axis) -> None:
    x = data(rng, 2, 3, 4)
    x[0, :, 0] = x[1, 1] = 0  # whose norm is 0, along axis 1 and -1
    x[0, 0] *= F32(1e-15)
    given = {} if axis is None else {"axis": axis}
    check("LpNormalization", [x], opset=opset, p=p, **given)


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("axes", [None, [0], [1, 2, 3], [0, 1, 2, 3]])
def test_mean_variance_normalization(check, rng, opset, axes) -> None:
    x = data(rng, 2, 3, 4, 5) + 1
    given = {} if axes is None else {"axes": axes}
    # the peer takes the variance as a difference of squares, which loses digits
    check("MeanVarianceNormalization", [x], opset=opset, rtol=1e-4, atol=1e-4, **given)


def test_mean_variance_normalization_of_equal_numbers(check) -> None:
    # by ONNX's own evaluator: ONNX Runtime leaves out the 1e-9 of the definition and gives NaN
    check("MeanVarianceNormalization", [np.full((2, 3, 4, 5), 0.5, F32)], opset=25)


@pytest.mark.parametrize("axis", [None, 1, -2, 0])
def test_rms_normalization(check, rng, axis) -> None:
    x = data(rng, 2, 3, 4)
    over = x.shape[-1 if axis is None else axis :]
    given = {} if axis is None else {"axis": axis, "epsilon": 1e-3}
    graph = check("RMSNormalization", [x], known=[data(rng, *over)], opset=23, **given)
    assert [n.op_type for n in graph.nodes] == ["RmsNorm"]


def test_rms_normalization_with_a_scale_that_broadcasts(check, rng) -> None:
    check("RMSNormalization", [data(rng, 2, 3, 4)], known=[data(rng, 4)], axis=1, opset=23)
