"""Plans on stored integers, restored from an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
from dovetail.ir import DType, ScaleOffset, Tensor, TensorKind
from dovetail.ops import NodeView, OpRegistry, check_ops
from dovetail.runtime.contract import (
    SUPPORTED,
    Fingerprint,
    Image,
    Options,
    PrepareRequest,
    RunControl,
    Support,
)
from dovetail.runtime.plan import PlanBackend
from dovetail_onednn import EngineChoice, choose_engine, library
from dovetail_opset import PACKAGE

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
S16 = DType.SFIXED_POINT_16
OPS = OpRegistry.of(PACKAGE)
SAME = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}


class Backend(PlanBackend):
    """The engine alone."""

    def fingerprint(self, device: Any) -> Fingerprint:
        return Fingerprint({"engine": self.engine.name})

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        return SUPPORTED


def context() -> Any:
    backend = Backend(OPS, Options(), choose_engine("test", EngineChoice.AUTO))
    return backend.open_context(None, None, WeightStore())


def residual(net: Any) -> Any:
    """A sum with a tensor that the convolution's result replaces, and a copy of another one."""
    grid = {"scale": 0.4, "zero": 30}
    x = net.input("x", (1, 9, 9, 32), U8, 7)
    for i in range(2):
        filters = net.weights(f"w{i}", (3, 3, 32, 32), axis=3)
        y = net.add("Conv2d", x, filters, net.bias(f"b{i}", 32), name=f"c{i}", **grid, **SAME)
        x = net.add("ElementWiseAdd", y, x, name=f"s{i}", **grid)
    return x


def parts(net: Any) -> Any:
    x = net.input("x", (1, 9, 9, 20), S8, 3)
    filters = net.weights("w", (3, 3, 20, 24), U8, zero=140)
    return net.add("Conv2d", x, filters, name="y", scale=0.3, **SAME)


def floats(net: Any) -> Any:
    x = net.input("x", (1, 9, 9, 20), U8, 3)
    filters = net.weights("w", (3, 3, 1, 20), U8, zero=140)
    return net.add("DepthWiseConv2d", x, filters, net.bias("b", 20), name="y", **SAME)


def words(net: Any) -> Any:
    x = net.input("x", (1, 9, 9, 20), U16, 3000)
    y = net.add("Conv2d", x, net.weights("w", (3, 3, 20, 24)), name="y", dtype=U16, **SAME)
    return net.add("Conv2d", y, net.weights("v", (3, 3, 24, 8)), name="z", dtype=U8, **SAME)


def matrices(net: Any) -> Any:
    a, b = net.input("a", (2, 40, 30), U8, 9), net.input("b", (2, 30, 50), U8, 130)
    y = net.add("MatMul", a, b, name="y", scale=2.0, zero=120)
    return net.add("MatMul", y, net.weights("w", (50, 20), U8, zero=126), name="z", scale=9.0)


def word_matrices(net: Any) -> Any:
    a, b = net.input("a", (2, 40, 30), U16, 900), net.input("b", (2, 30, 50), S16, -30)
    y = net.add("MatMul", a, b, name="y", dtype=U16, scale=2.0, zero=120)
    return net.add("MatMul", y, net.weights("w", (50, 20), U8, zero=126), name="z", dtype=U16)


def norms(net: Any) -> Any:
    x = net.input("x", (1, 9, 9, 20), U8, 3)
    return net.add("Batchnorm", x, net.weights("w", (20,), U8, zero=90), name="y", zero=101)


def signed_words(net: Any) -> Any:
    """Words that a product and another op read, in two layouts."""
    x = net.input("x", (1, 9, 9, 20), S16, 3000)
    y = net.add("Conv2d", x, net.weights("w", (3, 3, 20, 24)), name="y", dtype=S16, **SAME)
    z = net.add("Conv2d", y, net.weights("v", (3, 3, 24, 24)), name="z", dtype=S16, **SAME)
    return net.add("ElementWiseAdd", z, y, name="sum", dtype=U16)


def word_norms(net: Any) -> Any:
    x = net.input("x", (1, 9, 9, 20), U16, 3000)
    y = net.add("Batchnorm", x, net.weights("w", (20,), U8), name="y", dtype=U8)
    return net.add("Batchnorm", y, net.weights("v", (20,), U16), name="z", dtype=U16)


def conversions(net: Any) -> Any:
    """Bytes, one of them in a row of conversions that writes none."""
    shape = (1, 40, 60)
    x = net.graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    real = net.converted(net.converted(x, "y", U8, ScaleOffset(0.3, -3)), "real")
    return net.converted(real, "z", S8, ScaleOffset(0.4, 3))


def test_a_step_of_another_kernel_is_restored(new_network: Any) -> None:
    """The engine declines a sum of rows with one element each, which NumPy then computes."""
    net = new_network()
    a, b = net.input("a", (1, 16, 16, 64), U16), net.input("b", (1, 16, 16, 1), U16, 900)
    result = net.add("ElementWiseAdd", a, b, name="y", dtype=U16)
    net.check(result, engine=False)
    feeds, graph, origin = net.feeds(), check_ops(net.graph, OPS), context()
    image = origin.image({"net": origin.prepare(graph, PrepareRequest())})
    (found,) = context().restore(image, lambda _: graph, lambda _: PrepareRequest()).values()
    outputs = {"y": np.zeros(result.shape, np.uint16)}
    found.prepared.run(feeds, outputs, RunControl())
    np.testing.assert_array_equal(outputs["y"], net.defined(feeds)["y"])


@pytest.mark.parametrize(
    "build",
    [
        *(residual, parts, floats, words, signed_words, matrices, norms, word_norms),
        *(word_matrices, conversions),
    ],
)
def test_restored_plans_return_the_same_bits(new_network: Any, build: Callable[[Any], Any]) -> None:
    net = new_network()
    result = build(net)
    net.check(result, engine=False)
    feeds = net.feeds()
    wanted = net.run(net.prepare(), feeds)[result.name]

    graph, origin = check_ops(net.graph, OPS), context()
    image = Image.from_bytes(
        origin.image({"net": origin.prepare(graph, PrepareRequest())}).to_bytes()
    )
    # where every step is the engine's, no step is made again from the model
    model = None if library().has_vnni else lambda _: graph
    (found,) = context().restore(image, model, lambda _: PrepareRequest()).values()
    outputs = {result.name: np.zeros_like(wanted)}
    found.prepared.run(feeds, outputs, RunControl())
    np.testing.assert_array_equal(outputs[result.name], wanted)


def updateable(net: Any, scale: float) -> Any:
    """Add a move, a sum of windows and a clamp of an input whose encoding can be updated."""
    x = net.input("x", (1, 14, 14, 48), U8, 7)
    x.kind, x.encoding = TensorKind.UPDATEABLE_APP_WRITE, ScaleOffset(scale, -7)
    window = {"filter_size": (3, 3), "stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    results = (
        net.add("Transpose", x, name="moved", scale=0.02, zero=7, perm=(0, 2, 1, 3)),
        net.add("PoolAvg2d", x, name="mean", scale=0.02, zero=7, **window),
        net.add("Relu", x, name="clamped", scale=0.02, zero=7),
    )
    for result in results:
        result.kind = TensorKind.APP_READ
    return x


@pytest.mark.parametrize("engine", [EngineChoice.AUTO, EngineChoice.NUMPY])
@pytest.mark.parametrize("is_restored", [False, True])
def test_other_encodings_have_other_kernels(
    new_network: Any, engine: EngineChoice, is_restored: bool
) -> None:
    """A copy becomes a table when the scales of its ends differ."""
    first, same, other = new_network(), new_network(), new_network()
    for net, scale in ((first, 0.02), (same, 0.02), (other, 0.05)):
        updateable(net, scale)
    backend = Backend(OPS, Options(), choose_engine("test", engine))
    context = backend.open_context(None, None, WeightStore())
    prepared = context.prepare(check_ops(first.graph, OPS), PrepareRequest())
    if is_restored:
        image, graph = context.image({"net": prepared}), check_ops(same.graph, OPS)
        (found,) = context.restore(image, lambda _: graph, lambda _: PrepareRequest()).values()
        prepared = found.prepared
    feeds = first.feeds()
    for net in (other, same, other):
        prepared.update([net.graph.tensors["x"]])
        outputs, wanted = net.run(prepared, feeds), net.defined(feeds)
        for name, values in outputs.items():
            np.testing.assert_array_equal(values, wanted[name])
