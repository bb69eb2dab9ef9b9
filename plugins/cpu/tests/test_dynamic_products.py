"""Products of dynamically quantized activations by weights that were bytes, on integers."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_nets import DEPTH, OPS, ROWS, UNITS, Dynamic, Net
from reference_values import values_of

import dovetail as dt
from dovetail import testing
from dovetail.container import Model, Producer
from dovetail.ir import Array, DType, Tensor, TensorKind
from dovetail.ops import EVERYTHING, NOTHING, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice, Quantized
from dovetail_onednn import Kind, checked_library, library
from dovetail_onednn.dynamic_ops import PACKAGE as DYNAMIC
from dovetail_opset.build import static

GROUP = {"x", "less", "times", "product"}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture(autouse=True)
def vnni(onednn: None) -> None:
    checked_library((Kind.INTEGER,))
    if not library().has_vnni:
        pytest.skip("without VNNI the products are of real numbers")


def feeds(rng: np.random.Generator, zero: int = 77, scale: float = 0.037) -> dict[str, Array]:
    q = rng.integers(0, 256, (1, ROWS, DEPTH)).astype(np.uint8)
    return {"q": q, "zero": np.array(zero, np.uint8), "scale": np.array(scale, np.float32)}


def grid(rng: np.random.Generator, kind: str) -> tuple[Array, Array]:
    """Return whole numbers (depth, units) and their scales."""
    if kind == "by column":
        scales = rng.uniform(0.001, 0.01, UNITS)
        return rng.integers(-127, 128, (DEPTH, UNITS)), scales.astype(np.float32)
    low, high = {"signed": (-127, 127), "unsigned": (-131, 124), "far": (-3, 252)}[kind]
    return rng.integers(low, high + 1, (DEPTH, UNITS)), np.full(1, 0.0123, np.float32)


def exact(given: dict[str, Array], levels: Array, scales: Array) -> Array:
    """Return the sums of products, rounded once, times the product of both scales."""
    sums = (given["q"].astype(np.int64) - int(given["zero"])) @ levels
    return np.asarray(sums.astype(np.float32) * (given["scale"] * scales))


@pytest.mark.parametrize("form", ["MatMul", "transposed", "FullyConnected"])
@pytest.mark.parametrize("kind", ["signed", "unsigned", "far", "by column"])
def test_sums_are_exact(rng, kind, form) -> None:
    net, (levels, scales), given = Net(), grid(rng, kind), feeds(rng)
    weights = levels.astype(np.float32) * scales
    if form == "MatMul":
        y = net.product(net.real(), weights)
    else:
        is_matmul = form == "transposed"
        op_type, params = ("MatMul", {"transpose_in1": True}) if is_matmul else (form, {})
        matrix = static(net.graph, "w", weights.T.copy())
        y = net.node(op_type, net.real(), matrix, name="product", **params)
    found = net.run(y, given).reshape(1, ROWS, UNITS)
    assert net.step_of("product") >= GROUP
    # the library may multiply by the scales in another order
    np.testing.assert_array_max_ulp(found, exact(given, levels, scales), 2)


@pytest.mark.parametrize("zero", [0, 1, 255])
def test_zero_points_and_what_follows(rng, zero) -> None:
    net, (levels, scales), given = Net(), grid(rng, "signed"), feeds(rng, zero)
    bias, other = (rng.standard_normal(n).astype(np.float32) for n in (UNITS, UNITS))
    y = net.product(net.real(), levels.astype(np.float32) * scales, bias=bias)
    y = net.node("ElementWiseMultiply", y, static(net.graph, "other", other), name="m")
    y = net.node("Relu", y, name="y")
    found = net.run(y, given)
    assert net.step_of("product") >= {*GROUP, "m", "y"}
    wanted = np.maximum((exact(given, levels, scales) + bias) * other, 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_several_products_of_one_tensor(rng) -> None:
    net, given = Net(), feeds(rng)
    grids = [grid(rng, "signed"), grid(rng, "by column")]
    made = [
        net.product(net.real(suffix=str(i)), levels.astype(np.float32) * scales, f"p{i}")
        for i, (levels, scales) in enumerate(grids)
    ]
    found = net.run(net.node("ElementWiseAdd", *made, name="y"), given)
    assert net.step_of("p0") >= {"x0", "less0"}
    assert net.step_of("p1") >= {"x1", "less1"}
    wanted = sum(exact(given, *each) for each in grids)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_scales_that_are_no_numbers_reach_every_result(rng, scale) -> None:
    net, given = Net(), feeds(rng, scale=scale)
    levels, scales = grid(rng, "signed")
    found = net.run(net.product(net.real(), levels.astype(np.float32) * scales), given)
    assert net.step_of("product") >= GROUP
    assert not np.isfinite(found).any()


def off_the_grid(net: Net, levels: Array) -> Tensor:
    weights = levels.astype(np.float32) * np.float32(0.01)
    weights[3, 3] *= np.float32(1.001)
    return net.product(net.real(), weights)


def of_nine_bits(net: Net, levels: Array) -> Tensor:
    weights = levels.astype(np.float32) * np.float32(0.01)
    weights[0, :2] = np.float32(0.01) * np.array([200, -200], np.float32)
    return net.product(net.real(), weights)


def with_a_fraction(net: Net, levels: Array) -> Tensor:
    point = net.node("ElementWiseMultiply", net.scale, net.scale, name="z")
    return net.product(net.real(point), levels.astype(np.float32) * np.float32(0.01))


@pytest.mark.parametrize("build", [off_the_grid, of_nine_bits, with_a_fraction])
def test_others_are_products_of_real_numbers(rng, build, evaluate) -> None:
    net, given = Net(), feeds(rng)
    y = build(net, grid(rng, "signed")[0])
    found = net.run(y, given)
    assert "less" not in net.step_of("product")
    wanted = evaluate(net.graph, given)[y.name]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_real_activations_that_others_read_are_computed_too(rng, evaluate) -> None:
    net, given = Net(), feeds(rng)
    real, weights = net.real(), grid(rng, "signed")[0].astype(np.float32) * np.float32(0.01)
    y = net.product(real, weights)
    total = net.node("ReduceSum", real, name="sum", axes=[2], keep_dims=True)
    found = net.run(net.node("ElementWiseAdd", y, total, name="y"), given)
    assert "x" in net.step_of("product")
    np.testing.assert_allclose(found, evaluate(net.graph, given)["y"], rtol=1e-5, atol=1e-3)


def quantized(x: Array, most: int = 255) -> dict[str, Array]:
    """Return what ONNX's DynamicQuantizeLinear gives, by its formulas in float32."""
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    scale = np.float32(1) if high == low else (high - low) / np.float32(255)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    q = np.clip(np.rint(x / scale) + zero, 0, most)
    return {
        name: np.asarray(value).astype(dtype)
        for name, value, dtype in (
            *(("q", q, np.uint8), ("zero", zero, np.uint8)),
            ("scale", scale, np.float32),
        )
    }


RANGES = {
    "both signs": (-3, 5),
    "positive": (2, 7),
    "negative": (-9, -1),
    "zeros": (0, 0),
    "tiny": (-1e-43, 2e-43),
    "huge": (-1.6e38, 1.7e38),
}


@pytest.mark.parametrize("between", RANGES)
def test_a_quantization_is_one_step(rng, between) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    x = rng.uniform(*RANGES[between], (1, ROWS, DEPTH)).astype(np.float32)
    found = net.run(net.product(net.real(), levels.astype(np.float32) * scales), {"x": x})
    assert net.step_of("quotient") >= {"least", "greatest", "extent", "at", "round", "shift", "q"}
    assert len(net.steps) == 2
    assert DType.INT_32 in net.read_types[1]  # the zero point, without another conversion
    with np.errstate(all="ignore"):
        wanted = exact(quantized(x), levels, scales)
    np.testing.assert_array_max_ulp(found, wanted, 2)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_reach_every_result(rng, special) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    x[0, 2, 5] = special
    weights = levels.astype(np.float32) * scales
    found = net.run(net.product(net.real(), weights), {"x": x})
    assert len(net.steps) == 2
    assert np.isnan(found).all()


def test_what_else_is_read_of_a_quantization_is_computed(rng, evaluate) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    y = net.product(net.real(), levels.astype(np.float32) * scales)
    for name in ("extent", "point", "scale"):
        y = net.node("ElementWiseAdd", y, net.graph.tensor(name), name=f"plus_{name}")
    found = net.run(y, {"x": x})
    np.testing.assert_allclose(found, evaluate(net.graph, {"x": x})[y.name], rtol=1e-5, atol=1e-4)


def test_real_activations_may_be_quantized_again(rng, evaluate) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    weights, real = levels.astype(np.float32) * scales, net.real()
    first = net.product(real, weights, "p0")
    net.quantize(real, suffix="2")
    second = net.product(net.real(suffix="2"), weights, "p1")
    y = net.node("ElementWiseAdd", first, second, name="y")
    feed = {"x": rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)}
    found = net.run(y, feed)
    assert net.step_of("quotient2") >= {"least2", "greatest2", "q2"}
    # sums of float32 in another order
    np.testing.assert_allclose(found, evaluate(net.graph, feed)["y"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["signed", "far", "by column"])
@pytest.mark.parametrize("special", [0.0, np.nan, np.inf])
def test_references_of_the_ops_agree(rng, kind, special) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, kind)
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    x[0, 1, 2] = special
    bias = rng.standard_normal(UNITS).astype(np.float32)
    y = net.product(net.real(), levels.astype(np.float32) * scales, bias=bias)
    y.kind = TensorKind.APP_READ
    adapted = CpuBackend(OPS, CpuOptions()).adapted(check_ops(net.graph, OPS))
    assert [view.op_type for view in adapted.nodes] == ["DynamicQuantize", "DynamicMatMul"]
    with np.errstate(all="ignore"):
        wanted = values_of(adapted.graph, {"x": x}, OpRegistry.of(DYNAMIC))[y.name]
    np.testing.assert_allclose(net.run(y, {"x": x}), wanted, rtol=1e-6, atol=1e-6)


def test_results_of_a_quantization_may_be_outputs(rng) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    y = net.product(net.real(), levels.astype(np.float32) * scales)
    outputs = [y, *(net.graph.tensor(name) for name in ("q", "scale", "zero", "extent"))]
    for tensor in outputs:
        tensor.kind = TensorKind.APP_READ
    found = {t.name: np.zeros(t.shape, t.dtype.storage) for t in outputs}
    for observed in (NOTHING, EVERYTHING):
        backend = CpuBackend(OPS, CpuOptions())
        prepared = testing.prepare(backend, net.graph, OPS, observed=observed)
        prepared.run({"x": x}, found, RunControl())
        wanted = quantized(x)
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values)
        assert found["extent"] == np.maximum(x.max(), 0) - np.minimum(x.min(), 0)
        np.testing.assert_array_max_ulp(found[y.name], exact(wanted, levels, scales), 2)


def test_other_limits_are_no_such_quantization(rng) -> None:
    net, (levels, scales) = Dynamic(most=200.0), grid(rng, "signed")
    x = rng.uniform(-3, 5, (1, ROWS, DEPTH)).astype(np.float32)
    found = net.run(net.product(net.real(), levels.astype(np.float32) * scales), {"x": x})
    assert "least" not in net.step_of("quotient")
    wanted = exact(quantized(x, 200), levels, scales)
    np.testing.assert_array_max_ulp(found, wanted, 2)


def test_two_quantizations_may_share_their_scale(rng) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    first = net.product(net.real(), levels.astype(np.float32) * scales, "first")
    net.q = net.stored(net.graph.tensor("x"), suffix="2")
    second = net.product(net.real(suffix="2"), levels.astype(np.float32) * scales, "second")
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    found = net.run(net.node("ElementWiseAdd", first, second, name="y"), {"x": x})
    assert net.step_of("quotient") >= {"least", "greatest", "q"}
    assert net.step_of("first") >= {"less"}
    np.testing.assert_array_max_ulp(found, 2 * exact(quantized(x), levels, scales), 2)


def test_two_quantizations_with_common_extremes(rng) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    first = net.product(net.real(), levels.astype(np.float32) * scales, "first")
    low, high = net.graph.tensor("low"), net.graph.tensor("high")
    net.scale_of(low, high, "2")
    net.q = net.stored(net.graph.tensor("x"), suffix="2")
    second = net.product(net.real(suffix="2"), levels.astype(np.float32) * scales, "second")
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    found = net.run(net.node("ElementWiseSubtract", first, second, name="y"), {"x": x})
    assert net.step_of("second") >= {"less2"}
    np.testing.assert_array_equal(found, 0)


def test_names_of_the_user_that_new_nodes_would_have(rng) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    y = net.product(net.real(), levels.astype(np.float32) * scales)
    for name in ("q.quantize", "product.w.bytes1", "product.w.bytes1.scales"):
        y = net.node("ElementWiseAbs", y, name=name)
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    wanted = np.abs(exact(quantized(x), levels, scales))
    np.testing.assert_array_max_ulp(net.run(y, {"x": x}), wanted, 2)


def test_bytes_of_another_rank_than_the_numbers(rng) -> None:
    net, (levels, scales) = Dynamic(scale_shape=(1, 1, 1, 1)), grid(rng, "signed")
    x = rng.standard_normal((1, ROWS, DEPTH)).astype(np.float32)
    found = net.run(net.product(net.real(), levels.astype(np.float32) * scales), {"x": x})
    wanted = exact(quantized(x), levels, scales)
    np.testing.assert_array_max_ulp(found.reshape(wanted.shape), wanted, 2)


@pytest.mark.parametrize("elsewhere", ["greatest", "scale", "point", "x0", "less"])
def test_a_part_of_a_graph_reads_nothing_of_others(rng, elsewhere) -> None:
    net, (levels, scales) = Dynamic(), grid(rng, "signed")
    y = net.product(net.real(suffix="0"), levels.astype(np.float32) * scales)
    y.kind = TensorKind.APP_READ
    whole = check_ops(net.graph, OPS)
    # another backend runs this node and all before it
    last = net.graph.node(elsewhere if elsewhere != "less" else "less0")
    before, left = set(), [last]
    while left:
        node = left.pop()
        before.add(node)
        left += [p for t in node.inputs if t and (p := net.graph.producer(t)) is not None]
    nodes = [node for node in net.graph.nodes if node not in before]
    inputs = {t for node in nodes for t in node.inputs if t is not None and t.data is None}
    inputs -= {t for node in nodes for t in node.outputs}
    part = whole.part("part", nodes, sorted(inputs, key=lambda t: t.name), [y])
    adapted = CpuBackend(OPS, CpuOptions()).adapted(part)
    known = {*inputs}
    for view in adapted.nodes:
        assert {t for t in view.node.inputs if t is not None and t.data is None} <= known
        known.update(view.node.outputs)
    assert y in known


def test_a_dequantization_alone_is_fused_as_before(rng) -> None:
    net, given = Net(), feeds(rng)
    y = net.node("ElementWiseAbs", net.real(), name="y")
    net.run(y, given)
    assert ("less", "times", "y") in net.steps


@pytest.mark.parametrize(
    "options", [{"quantized": Quantized.SIMULATE}, {"engine": EngineChoice.NUMPY}]
)
def test_options_that_keep_the_product_real(rng, options) -> None:
    net, (levels, scales), given = Net(), grid(rng, "signed"), feeds(rng)
    found = net.run(net.product(net.real(), levels.astype(np.float32) * scales), given, **options)
    assert "less" not in net.step_of("product")
    np.testing.assert_allclose(found, exact(given, levels, scales), rtol=1e-5, atol=1e-4)


def test_a_context_binary_has_the_same_step(rng, tmp_path) -> None:
    net, (levels, scales), given = Net(), grid(rng, "by column"), feeds(rng)
    y = net.product(net.real(), levels.astype(np.float32) * scales)
    y.kind = TensorKind.APP_READ
    model = Model.of(net.graph, producer=Producer("test", "1"), registry=OPS)
    with dt.Session(model, backend="cpu") as session:
        wanted = session.run(given)[y.name]
        session.save_context(tmp_path / "net.bin")
    with dt.Session.from_context(tmp_path / "net.bin", backend="cpu") as session:
        np.testing.assert_array_equal(session.run(given)[y.name], wanted)
