"""Activations against the peer, over versions and attribute variants."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32


@pytest.fixture
def x(rng):
    return np.concatenate([rng.standard_normal(40) * 4, [0, -3, 3, 6]]).astype(F32).reshape(4, 11)


@pytest.mark.parametrize(
    ("op_type", "opset"),
    [
        *(("Relu", v) for v in (7, 13, 14)),
        *((name, v) for name in ("Sigmoid", "Tanh") for v in (7, 13)),
        *(("HardSwish", v) for v in (14, 22)),
        *((name, v) for name in ("Softplus", "Softsign", "Elu", "Selu") for v in (7, 22)),
        *(("HardSigmoid", v) for v in (7, 22)),
        *(("ThresholdedRelu", v) for v in (10, 22)),
        *(("Celu", v) for v in (12, 22)),
        *(("Mish", v) for v in (18, 22)),
        ("Swish", 24),
    ],
)
def test_defaults(check, x, op_type, opset) -> None:
    check(op_type, [x], opset=opset)


def test_attributes(check, x) -> None:
    check("Elu", [x], alpha=0.3)
    check("Selu", [x], alpha=1.5, gamma=0.7)
    check("HardSigmoid", [x], alpha=0.3, beta=0.25)
    check("Celu", [x], alpha=2.5)
    check("Swish", [x], alpha=1.7, opset=24)


@pytest.mark.parametrize("opset", [7, 16])
@pytest.mark.parametrize("alpha", [None, 0.0, 0.2, 1.0, 1.7, -0.5])
def test_leaky_relu(check, x, opset, alpha) -> None:
    check("LeakyRelu", [x], opset=opset, **({} if alpha is None else {"alpha": alpha}))


@pytest.mark.parametrize("opset", [7, 9, 16])
def test_prelu(check, rng, opset) -> None:
    x = rng.standard_normal((2, 3, 4, 5)).astype(F32)
    check("PRelu", [x], known=[rng.standard_normal((3, 1, 1)).astype(F32)], opset=opset)
    check("PRelu", [x, rng.standard_normal((1, 5)).astype(F32)], opset=opset)


@pytest.mark.parametrize("op_type", ["LeakyRelu", "PRelu"])
def test_leaks_are_one_op_even_of_scalars(check, op_type) -> None:
    known = [np.array(0.3, F32)] if op_type == "PRelu" else []
    graph = check(op_type, [np.array([-2, 3], F32)], known=known)
    assert [n.op_type for n in graph.nodes] == ["Prelu"]
    check(op_type, [np.array(-2, F32)], known=known)


def test_a_slope_that_does_not_broadcast_to_the_input_is_an_error(model, read) -> None:
    node = helper.make_node("PRelu", ["x", "s"], ["y"])
    given = {"x": np.ones((3, 1), F32), "s": np.ones(4, F32)}
    with pytest.raises(
        FrontendError, match=r"slope \(4,\) does not broadcast to the input \(3, 1\)"
    ):
        read(model([node], given, ["y"]))


@pytest.mark.parametrize("alpha", [0.0, -1.5])
def test_thresholded_relu(check, x, alpha) -> None:
    far = np.array([np.inf, -np.inf, alpha], F32)
    check("ThresholdedRelu", [np.concatenate([x.reshape(-1), far])], alpha=alpha)


def test_celu_of_a_negative_alpha_is_refused(model, read, x) -> None:
    node = helper.make_node("Celu", ["x"], ["y"], alpha=-1.0)
    with pytest.raises(UnsupportedOpError, match=r"unsupported alpha -1\.0; it must be above 0"):
        read(model([node], {"x": x}, ["y"]))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(check, x, approximate) -> None:
    # both sides approximate erf and tanh; far below 0 the result is a difference of equal numbers
    check("Gelu", [x], opset=20, approximate=approximate, atol=4e-6)


@pytest.mark.parametrize(
    "bounds", [{}, {"min": 0.0}, {"max": 1.0}, {"min": -1.0, "max": 2.5}, {"min": 0.0, "max": 6.0}]
)
def test_clip_by_attributes(check, x, bounds) -> None:
    check("Clip", [x], opset=7, **bounds)


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("low", [None, -1.0, 0.0])
@pytest.mark.parametrize("high", [None, 1.0, 6.0])
def test_clip_by_inputs(check, x, opset, low, high) -> None:
    known = [None if v is None else np.array(v, F32) for v in (low, high)]
    check("Clip", [x], known=known, opset=opset)


def test_clip_by_values_of_a_run(check, x) -> None:
    check("Clip", [x, np.array(-1, F32), np.array(2, F32)])


def test_clip_of_integers(check) -> None:
    x = np.arange(-6, 6, dtype=np.int32)
    check("Clip", [x], known=[np.array(-2, np.int32), np.array(4, np.int32)], opset=13)


def test_clip_whose_bounds_cross_gives_the_upper_one(check, x) -> None:
    check("Clip", [x], known=[np.array(2, F32), np.array(-1, F32)], opset=13)


def test_clip_to_known_numbers_is_one_op(check, x) -> None:
    graph = check("Clip", [x], known=[np.array(0, F32), np.array(6, F32)])
    assert [n.op_type for n in graph.nodes] == ["ReluMinMax"]


# -- GELU spelt out ------------------------------------------------------------------------------

# The scaled x, s, in the ways of different exporters.
SCALED = {
    "div": [("Div", ["x", "root"], "s")],
    "mul": [("Mul", ["x", "inverse"], "s")],
    "mul first": [("Mul", ["inverse", "x"], "s")],
    "of two": [("Sqrt", ["two"], "of_two"), ("Div", ["x", "of_two"], "s")],
    "reciprocal": [("Reciprocal", ["root"], "above"), ("Mul", ["x", "above"], "s")],
    "cast": [("CastLike", ["root64", "x"], "like_x"), ("Div", ["x", "like_x"], "s")],
}
# What is made of x and the erf, e, in their order and grouping.
_SUM = ("Add", ["e", "one"], "a")
PRODUCTS = {
    "x (1 + e) half": [_SUM, ("Mul", ["x", "a"], "m"), ("Mul", ["m", "half"])],
    "x half (1 + e)": [_SUM, ("Mul", ["x", "half"], "h"), ("Mul", ["h", "a"])],
    "half x (1 + e)": [_SUM, ("Mul", ["half", "x"], "h"), ("Mul", ["a", "h"])],
    "half (1 + e) x": [_SUM, ("Mul", ["half", "a"], "m"), ("Mul", ["m", "x"])],
    "x (half (1 + e))": [_SUM, ("Mul", ["a", "half"], "m"), ("Mul", ["x", "m"])],
    "x (1 + e) / 2": [_SUM, ("Mul", ["a", "x"], "m"), ("Div", ["m", "two"])],
    "x / 2 (1 + e)": [_SUM, ("Div", ["x", "two"], "h"), ("Mul", ["h", "a"])],
    "x sum half": [("Sum", ["one", "e"], "a"), ("Mul", ["x", "a"], "m"), ("Mul", ["m", "half"])],
    "x (half + half e)": [
        *(("Mul", ["half", "e"], "m"), ("Add", ["m", "half"], "a"), ("Mul", ["x", "a"])),
    ],
    "(e / 2 + half) x": [
        *(("Div", ["e", "two"], "m"), ("Add", ["half", "m"], "a"), ("Mul", ["a", "x"])),
    ],
}
CONSTANTS = {
    "half": np.array(0.5, F32),
    "one": np.array([1.0], F32),
    "two": np.array(2.0, F32),
    "root": np.array(np.sqrt(2), F32),
    "root64": np.array(np.sqrt(2)),
    "inverse": np.array(np.sqrt(0.5), F32),
}


def spelt_out(scaled: str = "div", product: str = "x (1 + e) half") -> list:
    """Nodes from x to y; the scale, the erf and the last one have these names."""
    nodes = [
        helper.make_node(op_type, ins, list(outs) or ["y"], name="" if outs else "last")
        for op_type, ins, *outs in [*SCALED[scaled], ("Erf", ["s"], "e"), *PRODUCTS[product]]
    ]
    for node in nodes:
        if node.output[0] in ("s", "e"):
            node.name = {"s": "scale", "e": "erf"}[node.output[0]]
    return nodes


FORMS = [*((s, "x (1 + e) half") for s in SCALED), *(("div", p) for p in PRODUCTS)]


@pytest.mark.parametrize(("scaled", "product"), FORMS)
def test_gelu_spelt_out_becomes_one_op(agree, model, x, scaled, product) -> None:
    graph = agree(
        model(spelt_out(scaled, product), {"x": x}, ["y"], CONSTANTS), {"x": x}, atol=4e-6
    )
    (node,) = graph.nodes
    assert (node.op_type, node.name) == ("Gelu", "last")
    assert {"scale", "erf", "last"} <= set(node.sources)


def test_gelu_as_the_function_of_onnx_becomes_one_op(agree, model, x) -> None:
    schema = onnx.defs.get_schema("Gelu", 20)
    gelu = helper.make_node("Gelu", ["X"], ["Y"], approximate="none")
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, x.shape)
    body = schema.get_context_dependent_function(
        gelu.SerializeToString(), [kind.SerializeToString()]
    )
    nodes = onnx.FunctionProto.FromString(body).node
    graph = agree(model(nodes, {"X": x}, ["Y"], opset=20), {"X": x}, atol=4e-6)
    assert [n.op_type for n in graph.nodes] == ["Gelu"]


def test_constants_that_others_read_stay_for_them(agree, model, x) -> None:
    nodes = [*spelt_out("of two"), helper.make_node("Mul", ["x", "of_two"], ["z"])]
    graph = agree(model(nodes, {"x": x}, ["y", "z"], CONSTANTS), {"x": x}, atol=4e-6)
    assert sorted(n.op_type for n in graph.nodes) == ["ElementWiseMultiply", "Gelu"]


WRONG = {
    "another half": spelt_out(),
    "minus": [*spelt_out()[:2], helper.make_node("Sub", ["e", "one"], ["a"]), *spelt_out()[3:]],
    "half missing": [*spelt_out()[:-2], helper.make_node("Mul", ["x", "a"], ["y"])],
    "one for half": [
        *spelt_out(product="x (half + half e)")[:3],
        helper.make_node("Add", ["m", "one"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["y"]),
    ],
    "half twice": [
        *spelt_out(product="x (half + half e)")[:-1],
        helper.make_node("Mul", ["x", "a"], ["z"]),
        helper.make_node("Mul", ["z", "half"], ["y"]),
    ],
}


@pytest.mark.parametrize("form", WRONG)
def test_what_only_resembles_gelu_is_not_taken_for_it(read, agree, model, x, form) -> None:
    constants = CONSTANTS | ({"half": np.array(0.6, F32)} if form == "another half" else {})
    wanted = model(WRONG[form], {"x": x}, ["y"], constants)
    if form == "half twice":  # a GELU, and then its half
        assert [n.op_type for n in read(wanted).nodes] == ["Gelu", "ElementWiseMultiply"]
        return
    # up to 4e-6 is the peer's own error function, as above
    graph = agree(wanted, {"x": x}, atol=4e-6)
    assert "e" in graph.tensors  # the Erf stays, and is written out


def test_an_erf_that_is_an_output_stays_one(agree, model, x) -> None:
    graph = agree(model(spelt_out(), {"x": x}, ["y", "e"], CONSTANTS), {"x": x}, atol=4e-6)
    assert "last" not in [n.name for n in graph.nodes if n.op_type == "Gelu"]


def test_slopes_of_prelu_before_version_7_are_by_channel(model, read, evaluate) -> None:
    slope = np.array([0.5, 2, -1], F32)
    x = np.linspace(-3, 3, 24, dtype=F32).reshape(2, 3, 4)
    node = helper.make_node("PRelu", ["x", "slope"], ["y"])
    made = model([node], {"x": x}, ["y"], {"slope": slope})
    made.opset_import[0].version = 6
    found = evaluate(read(made), {"x": x})["y"]
    np.testing.assert_array_equal(found, np.where(x < 0, x * slope[:, None], x))


@pytest.mark.parametrize("opset", [6, 17])
def test_slopes_of_prelu_that_do_not_fit(model, read, opset) -> None:
    node, x = helper.make_node("PRelu", ["x", "slope"], ["y"]), np.zeros((2, 3, 4), F32)
    made = model([node], {"x": x}, ["y"], {"slope": np.ones(5, F32)})
    made.opset_import[0].version = opset
    with pytest.raises(FrontendError) as caught:
        read(made)
    assert "slope (5,) does not" in str(caught.value)
