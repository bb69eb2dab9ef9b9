"""Rules beyond the table of types."""

import numpy as np
import pytest

import dovetail
from dovetail.container import Model, Producer
from dovetail.errors import UnsupportedOpError
from dovetail.ir import AxisScaleOffset, DType, Graph, Node, ScaleOffset, Tensor, TensorKind
from dovetail.ops import In, Op, OpPackage, OpRegistry, checked_node
from dovetail.runtime.plan import KernelRegistry
from dovetail.runtime.plan import backend as plan_backend
from dovetail_htp import HtpBackend, HtpDevice, HtpOptions, _backend
from dovetail_htp.processors import HTA, HTP, Processor
from dovetail_htp.rules import rules_of
from dovetail_htp.verdicts import verdict
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
U16 = DType.UFIXED_POINT_16
OPS = OpRegistry.of(PACKAGE)


def verdict_of(graph: Graph, family=HTP):
    view, faults = checked_node(graph.nodes[0], OPS)
    assert view is not None, faults
    return verdict(view, Processor(family, family.default), lambda: False)


def relu(rank: int) -> Graph:
    graph, shape = Graph("net"), (2,) * rank
    x = graph.add_tensor(Tensor("x", U8, shape, TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    y = Tensor("y", U8, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.1))
    add(graph, "Relu", [x], name="n", outputs=y)
    return graph


def function(op_type: str, dtype: DType, encoding: ScaleOffset) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, (4,), TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    y = Tensor("y", dtype, (4,), TensorKind.APP_READ, encoding=encoding)
    add(graph, op_type, [x], name="n", outputs=y)
    return graph


def gather(scale: float) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", U8, (4, 2), TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    indices = graph.add_tensor(Tensor.static("i", np.int32([0, 3]), DType.INT_32))
    y = Tensor("y", U8, (2, 2), TensorKind.APP_READ, encoding=ScaleOffset(scale))
    add(graph, "Gather", [x, indices], name="n", outputs=y, axis=0)
    return graph


def biased(weights: DType, bias: DType) -> Graph:
    graph, shape = Graph("net"), (1, 3, 3, 2)
    x = graph.add_tensor(Tensor("x", U8, shape, TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    constants = [
        graph.add_tensor(Tensor.static(name, np.ones(size), dtype, encoding=encoding))
        for name, size, dtype in (("w", (1, 1, 2, 2), weights), ("b", 2, bias))
        for encoding in [ScaleOffset(0.1) if dtype.is_fixed_point else None]
    ]
    y = Tensor("y", U8, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.1))
    pad = [[0, 0], [0, 0]]
    add(graph, "Conv2d", [x, *constants], name="n", outputs=y, stride=[1, 1], pad_amount=pad)
    return graph


def convolution(weights: DType, offsets: list[int]) -> Graph:
    graph = Graph("net")
    shape = (1, 3, 3, 2)
    x = graph.add_tensor(Tensor("x", U8, shape, TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    encoding = AxisScaleOffset(3, np.float32([0.1, 0.2]), np.int32(offsets))
    w = graph.add_tensor(Tensor.static("w", np.ones((1, 1, 2, 2)), weights, encoding=encoding))
    y = Tensor("y", U8, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.1))
    pad = [[0, 0], [0, 0]]
    add(graph, "Conv2d", [x, w], name="n", outputs=y, stride=[1, 1], pad_amount=pad)
    return graph


def channels() -> Graph:
    """An activation with a scale for each channel, as NNCF has before depthwise convolutions."""
    graph, encoding = Graph("net"), AxisScaleOffset(1, np.float32([0.1, 0.2]), np.int32([-1, 0]))
    x = graph.add_tensor(Tensor("x", S8, (1, 2), TensorKind.APP_WRITE, encoding=encoding))
    y = Tensor("y", DType.FLOAT_32, (1, 2), TensorKind.APP_READ)
    add(graph, "Dequantize", [x], name="n", outputs=y)
    return graph


def test_the_rules_are_of_ops_of_the_standard_set() -> None:
    rules = rules_of("htp")
    for op in (*rules.max_rank, *rules.one_encoding):
        OPS.find("qti.aisw", op)
    assert set(rules.max_rank.values()) == {4, 5}
    assert all(OPS.find("qti.aisw", op).op().result_encodings for op in rules.result_encodings)


@pytest.mark.parametrize(
    ("graph", "field", "text"),
    [
        (relu(6), "in[0].rank", "rank: in[0].rank is 6; allowed: 1, 2, 3, 4, 5; join axes"),
        (gather(0.2), "out[0].encoding", "insert a Convert after the node"),
        (convolution(U8, [0, 0]), "in[1].encoding", "UFIXED_POINT_8 with a scale for each"),
        (convolution(U8, [0, 0]), "in[1].encoding", "before, with ignore_encodings and samples"),
        (channels(), "in[0].encoding", "quantize with ignore_encodings and samples"),
        (
            convolution(S8, [0, -3]),
            "in[1].encoding",
            "SFIXED_POINT_8 with a scale for each",
        ),
        (
            function("Sigmoid", U16, ScaleOffset(2**-15)),
            "out[0].encoding",
            "allowed: (scale 1.5258789e-05, offset 0); give the output this encoding",
        ),
        (
            function("Tanh", U16, ScaleOffset(2**-15)),
            "out[0].encoding",
            "allowed: (scale 3.0517578e-05, offset -32768)",
        ),
    ],
)
def test_a_broken_rule(graph: Graph, field: str, text: str) -> None:
    found = verdict_of(graph)
    assert (found.ok, found.field) == (False, field)
    assert text in str(found)


@pytest.mark.parametrize(
    ("weights", "bias", "changes"),
    [
        (DType.SFIXED_POINT_16, S32, "in[1] to SFIXED_POINT_8 (weights_bitwidth=8)"),
        (DType.SFIXED_POINT_4, S32, "in[1] to SFIXED_POINT_8 (pack_4_bit_weights=False)"),
        (U8, DType.SFIXED_POINT_16, "in[2] to UFIXED_POINT_8 (bias_bitwidth=8)"),
        (U8, DType.FLOAT_32, "in[2] to SFIXED_POINT_32 (bias_bitwidth=32)"),
    ],
)
def test_the_type_of_a_constant_is_an_option_of_the_quantizer(
    weights: DType, bias: DType, changes: str
) -> None:
    found = verdict_of(biased(weights, bias))
    remedy = "use these options of the quantizer, or quantize otherwise"
    assert found.rewrite == f"change {changes}: {remedy}"


def test_a_verdict_on_an_input_names_the_node_that_writes_it() -> None:
    graph, shape = Graph("net"), (1, 2, 1, 3, 1, 1)
    x = graph.add_tensor(Tensor("x", U8, (2, 3), TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    wide = graph.add_tensor(Tensor("w", U8, shape, encoding=ScaleOffset(0.1)))
    y = Tensor("y", U8, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.1))
    add(graph, "Reshape", [x], name="widen", outputs=wide)
    add(graph, "Relu", [wide], name="cut", outputs=y)
    with pytest.raises(UnsupportedOpError) as caught:
        dovetail.Session(Model({"net": graph}, Producer("test", "1"), {}), "htp")
    hints = {problem.where: problem.hint for problem in caught.value.problems}
    assert hints["Relu node 'cut'"] == "in[0] is written by Reshape node 'widen'"


@pytest.mark.parametrize(
    "graph",
    [
        relu(5),
        gather(0.1),
        convolution(S8, [0, 0]),
        function("Sigmoid", U16, ScaleOffset(2**-16)),
        function("Sigmoid", U16, ScaleOffset(1 / 65535)),  # from the range 0 to 1
        function("Tanh", U16, ScaleOffset(1 / 32767.5, -32768)),
        function("Tanh", DType.SFIXED_POINT_16, ScaleOffset(1 / 32767)),
        function("Tanh", U8, ScaleOffset(0.1)),
    ],
)
def test_what_the_rules_allow(graph: Graph) -> None:
    assert verdict_of(graph).ok


def test_processors_without_rules_of_their_own_have_none() -> None:
    assert verdict_of(convolution(U8, [0, 0]), HTA).rule != "encoding"


class Half(Op):
    """x / 2."""

    inputs = (In("in[0]"),)
    source = "this test"

    def infer(self, x, out):
        return x

    def reference(self, x):
        return x / x.dtype.type(2)


def halving(kernels: KernelRegistry, monkeypatch: pytest.MonkeyPatch) -> tuple[Graph, OpRegistry]:
    """Return a quantized graph of an op package with kernels, and its ops."""
    package = OpPackage("half.ops", "1.0.0")
    package.op("Half")(Half)
    for module in (_backend, plan_backend):
        monkeypatch.setattr(module, "with_package_kernels", lambda own, *_: own.joined(kernels))
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", U8, (2,), TensorKind.APP_WRITE, encoding=ScaleOffset(0.1)))
    y = graph.add_tensor(Tensor("y", U8, (2,), TensorKind.APP_READ, encoding=ScaleOffset(0.1)))
    graph.add_node(Node("n", "half.ops", "Half", [x], [y], {}))
    return graph, OpRegistry.of(package)


@pytest.mark.parametrize("quantized", [True, False])
def test_a_quantized_op_of_another_package_needs_a_kernel_on_integers(
    monkeypatch: pytest.MonkeyPatch, quantized: bool
) -> None:
    kernels = KernelRegistry("htp")
    kernels.register("half.ops", "Half", quantized=quantized)(lambda call: None)
    graph, ops = halving(kernels, monkeypatch)
    view, _ = checked_node(graph.nodes[0], ops)
    assert view is not None
    backend = HtpBackend(ops, HtpOptions())
    found = backend.validate(view, HtpDevice(), None)
    assert (found.ok, found.rule) == ((True, "") if quantized else (False, "definition"))


def test_a_kernel_that_declines_a_quantized_node_is_not_replaced_by_a_simulation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = KernelRegistry("htp")
    kernels.register("half.ops", "Half", quantized=True)(lambda call: None)
    graph, ops = halving(kernels, monkeypatch)
    model = Model({"net": graph}, Producer("test", "1"), {})
    with pytest.raises(UnsupportedOpError, match="declines Half with") as caught:
        dovetail.Session(model, "htp", ops=ops)
    assert caught.value.where == "Half node 'n'"
