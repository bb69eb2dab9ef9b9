"""Recurrent layers against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Tensor, TensorKind
from dovetail_onednn import library
from dovetail_onednn.threads import threads
from dovetail_opset.build import add, add_all, static

Shapes = dict[int, tuple[int, ...]]
small = st.integers(1, 6)


def close(found: Any, wanted: Any) -> None:
    """The library's exponentials are other polynomials, which differ by some 1e-6, as do sums of a
    dozen products in another order; later steps accumulate both. Results are below 1,
    cells a few units."""
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def add_layer(model: Any, op_type: str, x: tuple[int, ...], shapes: Shapes, **params: Any) -> None:
    """Add a layer with constant weights whose outputs the application reads."""
    ins: list[Tensor | None] = [model.input("x", *x), *[None] * max(shapes)]
    for i, shape in shapes.items():
        is_state = i in ((10, 11) if op_type == "Lstm" else (13,))
        ins[i] = (model.input if is_state else model.random)(f"in{i}", *shape)
    names = ["out", "c", "h"] if op_type == "Lstm" else ["out", "h"]
    for out in add_all(model.graph, op_type, ins, name="layer", outputs=names, **params):
        model.output(out)


def add_both(
    model: Any,
    op_type: str,
    x: tuple[int, ...],
    shapes: Shapes,
    *,
    ways: tuple[int, int] = (0, 1),
    second: dict[str, Any] | None = None,
    **params: Any,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Add a layer in two directions, all inputs but x constant; return the outputs of both."""
    source, made = model.input("x", *x), []
    for way in ways:
        ins: list[Tensor | None] = [source, *[None] * max(shapes)]
        for i, shape in shapes.items():
            ins[i] = model.random(f"in{i}", *shape)
        count = 3 if op_type == "Lstm" else 2
        names = [f"{op_type}{len(made)}.{i}" for i in range(count)]
        name = names[0].split(".")[0]
        given = params | {"direction": way} | ((second or {}) if made else {})
        made.append(add_all(model.graph, op_type, ins, name=name, outputs=names, **given))
    return made[0], made[1]


def join(model: Any, *parts: Tensor) -> None:
    model.output(add(model.graph, "Concat", parts, name="y", axis=len(parts[0].shape) - 1))


def is_engine(model: Any) -> bool:
    """Return whether oneDNN runs the layer."""
    (step,) = model.prepare().steps
    return any(value.name == "layer.constant" for value in step.reads)  # packed weights


def agrees(model: Any) -> None:
    assert is_engine(model)
    feeds = model.feeds()
    wanted = model.expected(feeds)
    for name, found in model.run(model.prepare(), feeds).items():
        close(found, wanted[name])


def change(model: Any, name: str, values: Any) -> None:
    """Change the elements of a static tensor."""
    model.graph.tensor(name).data = Tensor.static(name, values.astype(np.float32)).data


def lstm_shapes(features: int, batch: int, units: int, states: set[int] = frozenset()) -> Shapes:
    shapes: Shapes = dict.fromkeys((1, 2, 3, 16), (units, features))
    shapes |= dict.fromkeys((4, 5, 6, 17), (units, units)) | dict.fromkeys((7, 8, 9, 21), (units,))
    return shapes | dict.fromkeys(states, (batch, units))


def gru_shapes(features: int, batch: int, units: int, left_out: set[int] = frozenset()) -> Shapes:
    shapes: Shapes = dict.fromkeys((1, 2, 3), (units, features))
    shapes |= dict.fromkeys((4, 5, 6), (units, units)) | dict.fromkeys(range(7, 13), (units,))
    shapes[13] = (1, batch, units)
    return {i: shape for i, shape in shapes.items() if i not in left_out}


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=60, derandomize=True)
@given(
    extents=st.tuples(small, small, small, st.integers(1, 40)),
    form=st.sampled_from(["time", "batch", "step"]),
    direction=st.integers(0, 1),
    states=st.sets(st.sampled_from([10, 11])),
)
def test_lstm(
    new_model: Any,
    extents: tuple[int, int, int, int],
    form: str,
    direction: int,
    states: set[int],
) -> None:
    steps, batch, features, units = extents
    lead = {"time": (steps, batch), "batch": (batch, steps), "step": (batch,)}[form]
    model, shapes = new_model(), lstm_shapes(features, batch, units, states)
    params = {"time_major": form != "batch", "direction": direction}
    add_layer(model, "Lstm", (*lead, features), shapes, **params)
    agrees(model)


@settings(max_examples=60, derandomize=True)
@given(
    extents=st.tuples(small, small, small, st.integers(1, 40)),
    time_major=st.booleans(),
    direction=st.integers(0, 1),
    linear=st.integers(0, 1),
    left_out=st.sets(st.integers(7, 13)),
)
def test_gru(
    new_model: Any,
    extents: tuple[int, int, int, int],
    time_major: bool,
    direction: int,
    linear: int,
    left_out: set[int],
) -> None:
    steps, batch, features, units = extents
    x = (steps, batch, features) if time_major else (batch, steps, features)
    model, shapes = new_model(), gru_shapes(features, batch, units, left_out)
    params = {"time_major": time_major, "direction": direction, "linear_before_reset": linear}
    add_layer(model, "Gru", x, shapes, **params)
    agrees(model)


@settings(max_examples=60, derandomize=True)
@given(
    extents=st.tuples(small, small, small, st.integers(1, 40)),
    form=st.sampled_from(["time", "batch", "step"]),
    ways=st.permutations([0, 1]),
    states=st.sets(st.sampled_from([10, 11])),
)
def test_lstm_in_both_directions(
    new_model: Any,
    extents: tuple[int, int, int, int],
    form: str,
    ways: tuple[int, int],
    states: set[int],
) -> None:
    steps, batch, features, units = extents
    lead = {"time": (steps, batch), "batch": (batch, steps), "step": (batch,)}[form]
    model, shapes = new_model(), lstm_shapes(features, batch, units, states)
    params = {"time_major": form != "batch", "ways": ways}
    first, second = add_both(model, "Lstm", (*lead, features), shapes, **params)
    join(model, *((first[0], second[0]) if ways[0] == 0 else (second[0], first[0])))
    assert len(model.prepare().steps) == 1
    feeds = model.feeds()
    close(model.run(model.prepare(), feeds)["y"], model.expected(feeds)["y"])


@settings(max_examples=60, derandomize=True)
@given(
    extents=st.tuples(small, small, small, st.integers(1, 40)),
    time_major=st.booleans(),
    linear=st.integers(0, 1),
    left_out=st.sets(st.integers(7, 13)),
)
def test_gru_in_both_directions(
    new_model: Any,
    extents: tuple[int, int, int, int],
    time_major: bool,
    linear: int,
    left_out: set[int],
) -> None:
    steps, batch, features, units = extents
    x = (steps, batch, features) if time_major else (batch, steps, features)
    model, shapes = new_model(), gru_shapes(features, batch, units, left_out)
    params = {"time_major": time_major, "linear_before_reset": linear}
    forward, reverse = add_both(model, "Gru", x, shapes, **params)
    join(model, forward[0], reverse[0])
    assert len(model.prepare().steps) == 1
    feeds = model.feeds()
    close(model.run(model.prepare(), feeds)["y"], model.expected(feeds)["y"])


APART = {
    "last seen": {},
    "turned": {},
    "wider": {},
    "elsewhere": {},
    "changing": {},
    "same way": {"ways": (0, 0)},
    "other axis": {},
    "time": {"second": {"time_major": False}},
    "clipped": {"second": {"cell_clip_threshold": 0.5}},
}


@pytest.mark.parametrize("reason", APART)
def test_directions_that_stay_apart(model: Any, reason: str) -> None:
    forward, reverse = add_both(
        model, "Lstm", (4, 4, 3), lstm_shapes(3, 4, 4, {10}), **APART[reason]
    )
    parts = [forward[0], reverse[0]]
    if reason == "last seen":
        model.output(reverse[2])
    if reason == "wider":
        parts.append(model.input("more", 4, 4, 2))
    if reason == "elsewhere":
        model.output(add(model.graph, "Relu", [forward[0]], name="seen"))
    if reason == "changing":
        model.graph.tensor("in10").kind = TensorKind.APP_WRITE
        model.graph.tensor("in10").data = None
    if reason == "other axis":
        model.output(add(model.graph, "Concat", parts, name="y", axis=1))
    else:
        join(model, *(reversed(parts) if reason == "turned" else parts))
    plan, feeds = model.prepare(), model.feeds()
    assert len([step for step in plan.steps if "Lstm0" in step.nodes]) == 1
    assert len([step for step in plan.steps if "Lstm1" in step.nodes]) == 1
    assert not any({"Lstm0", "Lstm1"} <= set(step.nodes) for step in plan.steps)
    wanted = model.expected(feeds)
    for name, found in model.run(plan, feeds).items():
        close(found, wanted[name])


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
@pytest.mark.parametrize("reason", ["stacked", "units", "linear"])
def test_layers_that_are_not_two_directions_of_one(model: Any, op_type: str, reason: str) -> None:
    forms = lstm_shapes if op_type == "Lstm" else gru_shapes
    x, shapes, outs = model.input("x", 4, 2, 5), forms(5, 2, 5), []
    for way in (0, 1):
        if reason == "units" and way:
            shapes = forms(5, 2, 7)
        kept = {i: shape for i, shape in shapes.items() if i != 13}
        ins: list[Tensor | None] = [x, *[None] * max(kept)]
        for i, shape in kept.items():
            ins[i] = model.random(f"in{i}", *shape)
        params = {"linear_before_reset": way} if (op_type, reason) == ("Gru", "linear") else {}
        names = [f"out{way}.{i}" for i in range(3 if op_type == "Lstm" else 2)]
        made = add_all(
            model.graph, op_type, ins, name=f"layer{way}", outputs=names, direction=way, **params
        )
        outs.append(made[0])
        if reason == "stacked":  # the second one only reads the first one
            x = made[0]
    if reason == "stacked":
        model.output(add(model.graph, "Relu", outs[1:], name="y"))
    else:
        join(model, *outs)
    plan, feeds = model.prepare(), model.feeds()
    together = any({"layer0", "layer1"} <= set(step.nodes) for step in plan.steps)
    assert together is ((op_type, reason) == ("Lstm", "linear"))  # a param that Lstm lacks
    close(model.run(plan, feeds)["y"], model.expected(feeds)["y"])


@pytest.mark.usefixtures("two_threads")
def test_both_directions_of_a_great_layer(model: Any) -> None:
    shapes = lstm_shapes(64, 5, 256, {10, 11})
    forward, reverse = add_both(model, "Lstm", (12, 5, 64), shapes)
    join(model, forward[0], reverse[0])
    for tensor in model.graph.tensors.values():
        if tensor.shape == (256, 256):
            change(model, tensor.name, tensor.values() / 16)
    assert len(model.prepare().steps) == 1
    feeds = model.feeds()
    close(model.run(model.prepare(), feeds)["y"], model.expected(feeds)["y"])


@pytest.mark.parametrize(("batch", "units"), [(1, 48), (5, 200)])
@pytest.mark.usefixtures("two_threads")
def test_long_sequences_in_one_thread_and_in_several(model: Any, batch: int, units: int) -> None:
    before = library().get_threads()
    add_layer(model, "Lstm", (30, batch, 40), lstm_shapes(40, batch, units, {10, 11}))
    for i in (4, 5, 6, 17):  # with larger weights of h, rounding errors grow
        change(model, f"in{i}", model.graph.tensor(f"in{i}").values() * units**-0.5)
    with threads(None):
        agrees(model)
    assert library().get_threads() == before


@pytest.mark.parametrize("linear", [0, 1])
def test_great_layers_in_a_format_of_the_library_s_own(model: Any, linear: int) -> None:
    shapes = gru_shapes(512, 16, 512)
    add_layer(model, "Gru", (3, 16, 512), shapes, linear_before_reset=linear)
    for i in range(1, 7):
        change(model, f"in{i}", model.graph.tensor(f"in{i}").values() * 512**-0.5)
    agrees(model)


def test_gates_that_are_wide_open_and_shut(model: Any) -> None:
    add_layer(model, "Lstm", (3, 2, 3), lstm_shapes(3, 2, 4, {11}))
    for name, bias in (("in7", [200, -200, 1e4, -1e4]), ("in21", [-1e4, 200, 0, 1e30])):
        change(model, name, np.array(bias))
    agrees(model)


MORE: dict[str, Shapes] = {
    "projection": {22: (4, 4)},
    "peepholes": {18: (4,), 19: (4,), 20: (4,)},
    "norms": {12: (4,), 13: (4,), 14: (4,), 15: (4,)},
}


@pytest.mark.parametrize("part", sorted(MORE))
def test_parts_that_the_library_lacks(model: Any, part: str) -> None:
    add_layer(model, "Lstm", (3, 2, 3), lstm_shapes(3, 2, 4) | MORE[part])
    assert not is_engine(model)


def test_coupled_gates_and_clipped_cells(new_model: Any) -> None:
    shapes = lstm_shapes(3, 2, 4)
    clipped, coupled = new_model(), new_model()
    add_layer(clipped, "Lstm", (3, 2, 3), shapes, cell_clip_threshold=0.5)
    assert not is_engine(clipped)
    shapes = {i: shape for i, shape in shapes.items() if i not in (16, 17, 21)}
    add_layer(coupled, "Lstm", (3, 2, 3), shapes)
    assert not is_engine(coupled)


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_what_else_is_left_to_other_kernels(new_model: Any, op_type: str) -> None:
    shapes = lstm_shapes(3, 2, 4) if op_type == "Lstm" else gru_shapes(3, 2, 4)
    changing, empty, kept = (new_model() for _ in range(3))
    add_layer(changing, op_type, (3, 2, 3), shapes)
    changing.graph.tensor("in5").kind = TensorKind.UPDATEABLE_STATIC
    assert not is_engine(changing)

    add_layer(empty, op_type, (0, 2, 3), shapes)
    assert not is_engine(empty)

    add_layer(kept, op_type, (3, 2, 3), shapes)
    (node,) = kept.graph.nodes
    port = 24 if op_type == "Lstm" else 14
    reset = static(kept.graph, "reset", np.array(True), DType.BOOL_8)
    node.inputs = (*node.inputs, *[None] * (port - len(node.inputs)), reset)
    assert not is_engine(kept)


def test_the_outputs_of_single_gates(model: Any) -> None:
    shapes = lstm_shapes(3, 2, 4)
    ins = [model.input("x", 3, 2, 3), *[None] * max(shapes)]
    for i, shape in shapes.items():
        ins[i] = model.random(f"in{i}", *shape)
    for out in add_all(model.graph, "Lstm", ins, name="layer"):
        model.output(out)
    assert len(model.graph.outputs) == 8
    assert not is_engine(model)


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_weights_are_packed_once_for_equal_ones_only(new_model: Any, op_type: str) -> None:
    store = WeightStore()

    def forms(*, changed: str = "", **params: Any) -> int:
        model = new_model()  # of the same seed: equal weights
        shapes = lstm_shapes(3, 2, 4) if op_type == "Lstm" else gru_shapes(3, 2, 4)
        add_layer(model, op_type, (3, 2, 3), shapes, **params)
        if changed:
            change(model, changed, model.graph.tensor(changed).values() + 1)
        feeds = model.feeds()
        plan, wanted = model.prepare(store), model.expected(feeds)
        for name, found in model.run(plan, feeds).items():
            close(found, wanted[name])
        return sum(form.key.form != "constant" for form in store.forms)

    assert forms() == 2
    assert forms(direction=1) == 2
    assert forms(changed="in5") == 3  # the store identifies weights of h by those of another gate


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_runs_do_not_hang_together(model: Any, op_type: str) -> None:
    """Without given states each run starts from 0."""
    shapes = lstm_shapes(3, 2, 4) if op_type == "Lstm" else gru_shapes(3, 2, 4, {13})
    add_layer(model, op_type, (3, 2, 3), shapes)
    plan, (x,) = model.prepare(), model.feeds().values()
    first, other, again = (model.run(plan, {"x": x * np.float32(s)}) for s in (1, 3, 1))
    for name, found in first.items():
        assert not np.array_equal(found, other[name])
        np.testing.assert_array_equal(found, again[name])
