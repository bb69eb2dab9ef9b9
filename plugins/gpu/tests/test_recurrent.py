"""Recurrent layers on a device, against `cpu`."""

from unittest import mock

import numpy as np
import pytest
from opencl_driver import many_programs

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_gpu.kernels import recurrent
from dovetail_opset.build import add, add_all, static

# the parts of a layer, and params
LAYERS = {
    "plain": ((), {}),
    "coupled": (("coupled", "states"), {"direction": 1}),
    "peepholes": (("peepholes", "states"), {"cell_clip_threshold": 0.5}),
    "norms": (("norms", "peepholes"), {"time_major": False}),
    "coupled norms": (("norms", "coupled"), {}),
    "projection": (("projection",), {"output_clip_threshold": 0.3, "direction": 1}),
}


def layer(parts, steps, batch, features, units, time_major=True):
    draw = np.random.default_rng(1).standard_normal
    size = 5 if "projection" in parts else units

    def real(*shape):
        return (0.5 * draw(shape)).astype(np.float32)

    inputs = [real(steps, batch, features) if time_major else real(batch, steps, features)]
    inputs += [real(units, features) for _ in range(3)] + [real(units, size) for _ in range(3)]
    inputs += [real(units) for _ in range(3)] + [None] * 14
    gates = 3 if "coupled" in parts else 4
    if gates == 4:
        inputs[16], inputs[17], inputs[21] = real(units, features), real(units, size), real(units)
    if "states" in parts:
        inputs[10], inputs[11] = real(batch, size), real(batch, units)
    for part, last in (("norms", 16), ("peepholes", 21)):
        if part in parts:
            count = gates if part == "norms" else gates - 1
            inputs[last - count : last] = [real(units) for _ in range(count)]
    if "projection" in parts:
        inputs += [None] * (22 - len(inputs))
        inputs[22:] = [real(size, units), real(size)]
    return inputs


# PoCL takes seconds to compile each layer for groups of 64 items
_SHARED = ("peepholes", "coupled norms", "projection")


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *((name, {"lanes": 1}) for name in LAYERS),
        *(pytest.param(name, {"lanes": 64}, marks=many_programs) for name in _SHARED),
        pytest.param("norms", {"is_half": True}, marks=many_programs),
        ("projection", {"is_half": True}),
    ],
)
def test_layers(check_op, name, variant):
    parts, params = LAYERS[name]
    for steps, batch, units in ((4, 2, 11), (1, 1, 8)):
        inputs = layer(parts, steps, batch, 3, units, params.get("time_major", True))
        static = [i for i in range(1, len(inputs)) if i not in (10, 11)]
        check_op("Lstm", *inputs, static=static, specs=(None,) * 3, **variant, **params)
        # as those of larger layers, and of all layers on other devices than processors
        with mock.patch.object(recurrent, "_MOST_IN_STEPS", 0):
            check_op("Lstm", *inputs, static=static, specs=(None,) * 3, **variant, **params)


@pytest.mark.parametrize("name", ["norms", "projection"])
def test_weights_that_are_no_constants(check_op, name):
    parts, params = LAYERS[name]
    inputs = layer(parts, 4, 2, 3, 11, params.get("time_major", True))
    check_op("Lstm", *inputs, specs=(None,) * 3, **params)


def test_one_step(check_op):
    inputs = layer((), 1, 2, 3, 4)
    inputs[0] = inputs[0][0]
    check_op("Lstm", *inputs, static=range(1, 24), specs=(None,) * 3)


@pytest.mark.parametrize(
    ("parts", "batch", "params", "is_one"),
    [
        ((), 1, {}, True),
        ((), 3, {"time_major": False, "cell_clip_threshold": 0.6}, True),
        (("coupled",), 2, {}, True),
        (("norms",), 2, {}, False),
        (("states",), 2, {}, False),
    ],
)
@pytest.mark.parametrize("half", [False, True])
def test_both_directions(same_as_cpu, steps_of, parts, batch, params, is_one, half):
    graph, dtype = Graph("net"), np.float16 if half else np.float32
    names, x = ("backward", "forward"), None
    results = {}
    for name in names:  # the sibling may come first
        inputs = layer(parts, 4, batch, 3, 11, params.get("time_major", True))
        given = [None if v is None else (v * (1 + len(results))).astype(dtype) for v in inputs]
        if x is None:
            kind = DType.of(np.dtype(dtype))
            x = graph.add_tensor(Tensor("x", kind, given[0].shape, TensorKind.APP_WRITE))
            feeds = {"x": given[0]}
        tensors = [None if v is None else static(graph, "w", v) for v in given[1:]]
        direction = int(name == "backward")
        made = add_all(
            graph,
            "Lstm",
            [x, *tensors],
            name=name,
            specs=(None,) * 3,
            direction=direction,
            **params,
        )
        results[name] = made[0]
    y = add(graph, "Concat", [results["forward"], results["backward"]], name="y", axis=2)
    y.kind = TensorKind.APP_READ
    assert (len(steps_of(graph)) == 1) is is_one
    same_as_cpu(graph, feeds, 2e-2 if half else 1e-4)


def test_small_states_keep_their_precision(check_op):
    inputs = layer((), 4, 2, 3, 8)
    inputs[0] *= 1e-5
    for i in (7, 8, 9, 21):
        inputs[i][:] = 0
    check_op("Lstm", *inputs, static=range(1, len(inputs)), specs=(None,) * 3)


def test_large_sums_saturate(check_op):
    inputs = layer((), 4, 2, 3, 8)
    inputs[0] *= 1e4
    check_op("Lstm", *inputs, static=range(1, len(inputs)), specs=(None,) * 3)
