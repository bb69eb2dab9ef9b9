"""Loop and Scan that are recurrent layers: one op instead of the steps."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.errors import DovetailError, FrontendError, UnsupportedOpError

F32, I32, I64 = np.float32, np.int32, np.int64
FLOATS, BOOL = TensorProto.FLOAT, TensorProto.BOOL
N = helper.make_node
STEPS, WIDTH, UNITS = 6, 3, 4
# a few steps of sums of some ten products, in another order and by another tanh
NEAR = {"rtol": 1e-4, "atol": 1e-5}
LAYERS = {"Lstm", "Gru"}

# One step of each cell: x and h (and c) become h2 (and c2).
LSTM = [
    N("MatMul", ["h", "R"], ["hr"]),
    N("Gemm", ["x", "W", "hr"], ["xh"]),
    N("Add", ["xh", "B"], ["sums"]),
    N("Split", ["sums"], ["i", "f", "g", "o"], axis=1),
    *(N("Sigmoid", [n], [f"{n}s"]) for n in "ifo"),
    N("Tanh", ["g"], ["gt"]),
    N("Mul", ["fs", "c"], ["kept"]),
    N("Mul", ["is", "gt"], ["added"]),
    N("Add", ["kept", "added"], ["c2"]),
    N("Tanh", ["c2"], ["ct"]),
    N("Mul", ["os", "ct"], ["h2"]),
]
GRU = [
    N("Gemm", ["x", "W", "B"], ["xw"]),
    N("Split", ["xw"], ["xz", "xr", "xn"], axis=-1),
    N("Gemm", ["h", "R", "B"], ["hr"]),
    N("Split", ["hr"], ["hz", "hs", "hn"], axis=-1),
    N("Add", ["xz", "hz"], ["az"]),
    N("Sigmoid", ["az"], ["z"]),
    N("Add", ["xr", "hs"], ["ar"]),
    N("Sigmoid", ["ar"], ["r"]),
    N("Mul", ["r", "hn"], ["gated"]),
    N("Add", ["xn", "gated"], ["an"]),
    N("Tanh", ["an"], ["n"]),
    N("Sub", ["h", "n"], ["less"]),
    N("Mul", ["z", "less"], ["part"]),
    N("Add", ["n", "part"], ["h2"]),
]
RNN = [
    N("Gemm", ["x", "W", "B"], ["xw"]),
    N("Gemm", ["h", "R", "xw"], ["sum"]),
    N("Tanh", ["sum"], ["h2"]),
]
CELLS = {"Lstm": (LSTM, 4), "Gru": (GRU, 3), "Rnn": (RNN, 1)}


def known(kind, rng):
    """Return the weights of a cell."""
    gates = CELLS[kind][1]
    shapes = {"W": (WIDTH, gates * UNITS), "R": (UNITS, gates * UNITS), "B": (gates * UNITS,)}
    return {name: rng.standard_normal(s).astype(F32) / 2 for name, s in shapes.items()}


def body(nodes, inputs, outputs, constants=()):
    """Return a graph; a result has the type of the input that it replaces, or is of floats."""
    infos = [helper.make_tensor_value_info(*info) for info in inputs]
    time = next((kind for name, kind, _ in inputs if name == "time"), FLOATS)
    kinds = {"again": BOOL, "later": time}
    outs = [helper.make_tensor_value_info(o, kinds.get(o, FLOATS), None) for o in outputs]
    arrays = [numpy_helper.from_array(a, name) for name, a in dict(constants).items()]
    return helper.make_graph(nodes, "body", infos, outs, arrays)


def states_of(kind):
    return ("h", "c") if kind == "Lstm" else ("h",)


def loop_of(kind, *, before, carried=(), gathers=True, batch=1, axis=0, row="h2"):
    """Return a Loop: its cell, nodes before it, and what it carries besides its states."""
    states = states_of(kind)
    inputs = [("t", TensorProto.INT64, []), ("going", BOOL, [])]
    inputs += [(name, element, dims) for name, element, dims, *_ in carried]
    inputs += [(name, FLOATS, [batch, UNITS]) for name in states]
    nodes = list(before)
    if gathers:
        nodes.append(N("Gather", ["xs", "at"], ["x"], axis=axis))
    outputs = ["again", *(after for *_, after, _ in carried), *(f"{name}2" for name in states), row]
    made = body([*nodes, *CELLS[kind][0]], inputs, outputs)
    starts = [start for *_, start in carried] + [f"{name}0" for name in states]
    outs = [f"out{i}" for i in range(len(carried))] + [f"last_{name}" for name in states]
    return N("Loop", ["count", "", *starts], [*outs, "rows"], name="turns", body=made)


def feeds_of(kind, rng, batch=1, steps=STEPS, axis=0):
    shape = (steps, batch, WIDTH) if axis == 0 else (batch, steps, WIDTH)
    feeds = {"xs": rng.standard_normal(shape).astype(F32)}
    return feeds | {
        f"{name}0": rng.standard_normal((batch, UNITS)).astype(F32) for name in states_of(kind)
    }


GOING = N("Identity", ["going"], ["again"])
AT_TURN = N("Identity", ["t"], ["at"])


def outputs_of(kind):
    return [*(f"last_{name}" for name in states_of(kind)), "rows"]


def op_types(graph):
    return {node.op_type for node in graph.nodes}


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(("batch", "axis"), [(1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("kind", CELLS)
def test_layers(agree, model, rng, kind, batch, axis, opset) -> None:
    node = loop_of(kind, before=[GOING, AT_TURN], batch=batch, axis=axis)
    feeds = feeds_of(kind, rng, batch, axis=axis)
    constants = known(kind, rng) | {"count": np.asarray(STEPS)}
    graph = agree(model([node], feeds, outputs_of(kind), constants, opset=opset), feeds, **NEAR)
    assert op_types(graph) & LAYERS == {kind} - {"Rnn"}
    assert all(each.sources == ("turns",) for each in graph.nodes if each.op_type != "Reshape")


def carried_counter(step, start, stop):
    """Return what a loop carries and computes that counts by itself, as TensorFlow's do."""
    carried = [("time", TensorProto.INT32, [], "later", "start")]
    before = [
        N("Add", ["time", "step"], ["later"]),
        N("Identity", ["time"], ["at"]),
        N("Cast", ["later"], ["real"], to=FLOATS),
        N("Less" if step > 0 else "Greater", ["real", "stop"], ["again"]),
    ]
    constants = {"step": np.asarray(step, I32), "start": np.asarray(start, I32)}
    return carried, before, constants | {"stop": np.asarray(stop, F32)}


@pytest.mark.parametrize(
    ("step", "start", "stop", "count"),
    [
        (1, 0, STEPS, STEPS),
        (1, 0, STEPS, 2**62),  # only the condition ends it
        (1, 2, 5, 100),
        (2, 0, STEPS, STEPS),
        (-1, STEPS - 1, -1, STEPS),
        (1, 0, 100, 4),  # only the count ends it
    ],
)
@pytest.mark.parametrize("kind", ["Lstm", "Gru"])
def test_counters(agree, model, rng, kind, step, start, stop, count) -> None:
    carried, before, constants = carried_counter(step, start, stop)
    node = loop_of(kind, before=before, carried=carried)
    constants |= known(kind, rng) | {"count": np.asarray(count)}
    feeds = feeds_of(kind, rng)
    outputs = ["out0", *outputs_of(kind)]
    graph = agree(model([node], feeds, outputs, constants), feeds, **NEAR)
    assert op_types(graph) & LAYERS == {kind}


def test_no_trip_count(agree, model, rng) -> None:
    carried, before, constants = carried_counter(1, 0, STEPS)
    node = loop_of("Lstm", before=before, carried=carried)
    node.input[0], node.input[1] = "", "first"
    constants |= known("Lstm", rng) | {"first": np.asarray(True)}
    feeds = feeds_of("Lstm", rng)
    graph = agree(model([node], feeds, outputs_of("Lstm"), constants), feeds, **NEAR)
    assert "Lstm" in op_types(graph)


def test_everything_is_carried(agree, model, rng) -> None:
    """As JAX's loops carry weights and the sequence, in vectors of one element."""
    constants = known("Gru", rng) | {"count": np.asarray(STEPS), "zero": np.zeros(1, I64)}
    names = ["W", "R", "B", "xs"]
    inputs = [("t", TensorProto.INT64, []), ("going", BOOL, [])]
    inputs += [(f"{n}_in", FLOATS, None) for n in names]
    inputs += [("time", TensorProto.INT64, [1]), ("h", FLOATS, [1, UNITS])]
    inner = []
    for node in GRU:
        renamed = N(node.op_type, [f"{i}_in" if i in names else i for i in node.input], node.output)
        renamed.attribute.extend(node.attribute)
        inner.append(renamed)
    nodes = [
        GOING,
        *(N("Identity", [f"{n}_in"], [f"{n}_out"]) for n in names),
        N("Gather", ["xs_in", "time"], ["slice"], axis=0),
        N("Squeeze", ["slice", "first"], ["x"]),
        N("Add", ["time", "one"], ["later"]),
        *inner,
    ]
    outputs = ["again", *(f"{n}_out" for n in names), "later", "h2", "h2"]
    made = body(nodes, inputs, outputs, {"one": np.ones(1, I64), "first": np.zeros(1, I64)})
    given = ["count", "", *names, "zero", "h0"]
    outs = ["w", "r", "b", "x_after", "time_after", "last_h", "rows"]
    node = N("Loop", given, outs, name="turns", body=made)
    feeds = feeds_of("Gru", rng)
    graph = agree(model([node], feeds, outs, constants), feeds, **NEAR)
    assert "Gru" in op_types(graph)


def test_long_sequences(agree, model, rng) -> None:
    """As many steps as could not be written out."""
    steps = 5000
    carried, before, constants = carried_counter(1, 0, steps)
    node = loop_of("Lstm", before=before, carried=carried)
    constants |= known("Lstm", rng) | {"count": np.asarray(steps)}
    feeds = feeds_of("Lstm", rng, steps=steps)
    # the graph is evaluated by the op's definition, and states do not grow
    graph = agree(model([node], feeds, ["last_h"], constants), feeds, **NEAR)
    assert len(graph.nodes) < 20


UNEVEN = {
    "doubles": [N("Add", ["time", "time"], ["later"]), N("Identity", ["time"], ["at"]), GOING],
    "beyond": [N("Add", ["time", "one"], ["later"]), N("Sub", ["time", "one"], ["at"]), GOING],
    "one place": [N("Identity", ["time"], ["later"]), N("Identity", ["time"], ["at"]), GOING],
    "from data": [
        N("Add", ["time", "one"], ["later"]),
        N("Identity", ["time"], ["at"]),
        N("ReduceSum", ["h0"], ["total"], keepdims=0),
        N("Equal", ["total", "total"], ["same"]),
        GOING,
    ],
}


@pytest.mark.parametrize("how", UNEVEN)
def test_other_counters(agree, model, rng, how) -> None:
    """The results are right whether or not the loop becomes a layer."""
    carried = [("time", TensorProto.INT64, [], "later", "start")]
    node = loop_of("Lstm", before=UNEVEN[how], carried=carried)
    constants = known("Lstm", rng) | {"one": np.asarray(1), "count": np.asarray(3)}
    constants["start"] = np.asarray(0 if how == "beyond" else 1)
    feeds = feeds_of("Lstm", rng)
    agree(model([node], feeds, outputs_of("Lstm"), constants), feeds, **NEAR)


def test_a_row_that_is_another_tensor_is_written_out(agree, model, rng) -> None:
    node = loop_of("Lstm", before=[GOING, AT_TURN], row="c2")
    feeds = feeds_of("Lstm", rng)
    constants = known("Lstm", rng) | {"count": np.asarray(STEPS)}
    graph = agree(model([node], feeds, outputs_of("Lstm"), constants), feeds, **NEAR)
    assert not op_types(graph) & LAYERS
    assert "Tanh" in op_types(graph)


def test_a_part_that_is_computed_from_data_is_written_out(agree, model, rng) -> None:
    """A bias that is an input of the model."""
    node = loop_of("Gru", before=[GOING, AT_TURN])
    weights = known("Gru", rng)
    feeds = feeds_of("Gru", rng) | {"B": weights.pop("B")}
    constants = weights | {"count": np.asarray(2)}
    graph = agree(model([node], feeds, outputs_of("Gru"), constants), feeds, **NEAR)
    assert not op_types(graph) & LAYERS


@pytest.mark.parametrize(
    ("start", "step", "last", "comparison"),
    [
        (np.zeros((), F32), np.asarray(np.inf, F32), 2, "Less"),  # no even count of floats
        (np.asarray(2**53 + 1, np.uint64), np.asarray(1, np.uint64), 2**53 + 1, "Equal"),
        (np.asarray(2**64 - 1, np.uint64), np.asarray(1, np.uint64), 5, "Equal"),
        (np.zeros((), I64), np.ones(1, I64), 4, "Less"),  # the counter changes its shape
    ],
)
def test_counters_that_do_not_count(agree, model, rng, start, step, last, comparison) -> None:
    element = helper.np_dtype_to_tensor_dtype(start.dtype)
    carried = [("time", element, None, "later", "start")]
    before = [N("Add", ["time", "step"], ["later"]), N(comparison, ["time", "last"], ["again"])]
    node = loop_of("Lstm", before=[*before, AT_TURN], carried=carried)
    constants = known("Lstm", rng) | {"count": np.asarray(STEPS), "start": start, "step": step}
    constants["last"] = np.asarray(last, start.dtype)
    feeds = feeds_of("Lstm", rng)
    agree(model([node], feeds, ["out0", *outputs_of("Lstm")], constants), feeds, **NEAR)


@pytest.mark.parametrize("part", ["W", "B", "x", "y", "state0", "last0", "rows0", "end0", "layer"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_names_of_the_model_stay(agree, model, rng, part, is_constant) -> None:
    carried, before, constants = carried_counter(1, 0, STEPS)
    node = loop_of("Lstm", before=before, carried=carried)
    constants |= known("Lstm", rng) | {"count": np.asarray(STEPS)}
    feeds, own = feeds_of("Lstm", rng), np.full((1, UNITS), 0.5, F32)
    (constants if is_constant else feeds)[f"turns.{part}"] = own
    nodes = [node, N("Add", ["last_h", f"turns.{part}"], ["sum"])]
    graph = agree(model(nodes, feeds, ["sum", "rows"], constants), feeds, **NEAR)
    assert "Lstm" in op_types(graph)


def test_an_output_with_the_name_of_a_part(agree, model, rng) -> None:
    node = loop_of("Lstm", before=[GOING, AT_TURN])
    node.output[0], node.output[2] = "turns.last1", "turns.y"
    feeds = feeds_of("Lstm", rng)
    constants = known("Lstm", rng) | {"count": np.asarray(STEPS)}
    agree(model([node], feeds, ["turns.last1", "turns.y"], constants), feeds, **NEAR)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (N("Identity", [], ["q"]), "input size 0"),
        (N("Identity", ["t"], []), "output size 0"),
        (N("Add", ["t"], ["q"]), "input size 1"),
        (N("Gather", ["xs", "at", "at"], ["q"]), "input size 3"),
        (N("Identity", ["nothing"], ["q"]), "'nothing' is not defined"),
        (N("Identity", ["t"], ["xh"]), "defined already"),
        (N("Other", ["t"], ["q"], domain="foreign"), "foreign"),
    ],
)
def test_wrong_nodes_that_a_layer_does_not_need(model, read, rng, extra, said) -> None:
    node = loop_of("Lstm", before=[GOING, AT_TURN, extra])
    constants = known("Lstm", rng) | {"count": np.asarray(STEPS)}
    with pytest.raises(DovetailError, match=said):
        read(model([node], feeds_of("Lstm", rng), ["rows"], constants))


def test_positions_of_a_higher_rank(agree, model, rng) -> None:
    """A slice by one of rank 2 has an axis more; so have the states after it."""
    before = [GOING, N("Add", ["t", "zero"], ["at"])]
    node = loop_of("Lstm", before=before)
    constants = known("Lstm", rng) | {"count": np.asarray(2), "zero": np.zeros((1, 1), I64)}
    feeds = feeds_of("Lstm", rng)
    made = model([node], feeds, ["last_h"], constants)
    for graph in (a.g for a in made.graph.node[0].attribute if a.name == "body"):
        for info in (*graph.input[2:], *graph.output[1:]):
            info.type.tensor_type.ClearField("shape")
        graph.node[2].CopyFrom(N("Gather", ["xs", "at"], ["wide"], axis=0))
        graph.node.insert(3, N("Reshape", ["wide", "flat"], ["x"]))
    made.graph.initializer.append(numpy_helper.from_array(np.array([1, WIDTH]), "flat"))
    agree(made, feeds, **NEAR)


def test_empty_states(model, read, rng) -> None:
    """A form of no elements is none: the loop is written out."""
    nodes = [N("Add", ["h", "none"], ["sum"]), N("Tanh", ["sum"], ["h2"])]
    made = body(nodes, [("h", FLOATS, [1, 0]), ("x", FLOATS, [1, WIDTH])], ["h2"])
    node = N("Scan", ["h0", "xs"], ["last"], body=made, num_scan_inputs=1)
    feeds = {"h0": np.zeros((1, 0), F32), "xs": np.ones((2, 1, WIDTH), F32)}
    graph = read(model([node], feeds, ["last"], {"none": np.zeros((1, 0), F32)}))
    assert graph.outputs[0].shape == (1, 0)


def test_negative_trip_counts(model, read, rng) -> None:
    node = loop_of("Lstm", before=[GOING, AT_TURN])
    constants = known("Lstm", rng) | {"count": np.asarray(-1)}
    with pytest.raises(UnsupportedOpError, match="no iteration"):
        read(model([node], feeds_of("Lstm", rng), ["rows"], constants))


def test_the_condition_of_the_body_hides_that_of_the_model(model, read, rng) -> None:
    """A node of the body writes it, from a constant that is false: one iteration."""
    node = loop_of("Lstm", before=[N("Identity", ["falsy"], ["again"]), AT_TURN])
    constants = known("Lstm", rng) | {"count": np.asarray(STEPS), "falsy": np.asarray(False)}
    constants["again"] = np.asarray(True)
    graph = read(model([node], feeds_of("Lstm", rng), ["rows"], constants))
    assert graph.outputs[0].shape == (1, 1, UNITS)


def test_nested_scans_are_read_once(model, read) -> None:
    """Each level would otherwise be read twice."""
    depth, shape = 20, [1, 3]
    inner = body([N("Add", ["h", "x"], ["h2"])], [(n, FLOATS, shape) for n in "hx"], ["h2"])
    for level in range(1, depth):
        nodes = [N("Scan", ["h", "x"], ["h2"], name="s", body=inner, num_scan_inputs=1)]
        infos = [("h", FLOATS, shape), ("x", FLOATS, [1] * level + shape)]
        inner = body(nodes, infos, ["h2"])
    node = N("Scan", ["h", "x"], ["y"], name="s", body=inner, num_scan_inputs=1)
    feeds = {"h": np.ones(shape, F32), "x": np.ones([1] * depth + shape, F32)}
    assert "ElementWiseAdd" in op_types(read(model([node], feeds, ["y"])))


def test_slices_out_of_range(model, read, rng) -> None:
    node = loop_of("Lstm", before=[GOING, AT_TURN])
    constants = known("Lstm", rng) | {"count": np.asarray(STEPS + 1)}
    with pytest.raises(FrontendError, match="out of range"):
        read(model([node], feeds_of("Lstm", rng), ["rows"], constants))


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", CELLS)
def test_scan(model, read, evaluate, run_peer, rng, kind, axis, backwards) -> None:
    states = states_of(kind)
    inputs = [*((name, FLOATS, [2, UNITS]) for name in states), ("x", FLOATS, [2, WIDTH])]
    weights = known(kind, rng)
    made = body(CELLS[kind][0], inputs, [*(f"{name}2" for name in states), "h2"])
    node = N(
        "Scan",
        [*(f"{name}0" for name in states), "xs"],
        outputs_of(kind),
        name="turns",
        body=made,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[backwards],
    )
    feeds = feeds_of(kind, rng, 2, axis=axis)
    graph = read(model([node], feeds, outputs_of(kind), weights))
    assert op_types(graph) & LAYERS == {kind} - {"Rnn"}
    # ONNX's own evaluator knows only the first axis and the forward direction: a Loop's peer
    steps = feeds["xs"] if axis == 0 else feeds["xs"].swapaxes(0, 1)
    values = feeds | {"xs": np.ascontiguousarray(steps[::-1] if backwards else steps)}
    loop = loop_of(kind, before=[GOING, AT_TURN], batch=2)
    written = model([loop], values, outputs_of(kind), weights | {"count": np.asarray(STEPS)})
    found, wanted = evaluate(graph, feeds), run_peer(written, values)
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, **NEAR)
