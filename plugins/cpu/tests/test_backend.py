"""The backend: capabilities, validation, fallbacks, errors, memory, other packages."""

import sys
import textwrap
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from dovetail import plugins
from dovetail.errors import BackendError
from dovetail.ir import DType, Graph, Node, ScaleOffset, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops, checked_node
from dovetail.plugins.ops import installed_ops
from dovetail.runtime.contract import FloatPrecision, PrepareRequest, RunControl
from dovetail.runtime.measurements import Recorder
from dovetail.testing import open_context
from dovetail.testing import prepare as prepare_on
from dovetail_cpu import CpuBackend, CpuOptions, Quantized
from dovetail_numpy import KERNELS
from dovetail_onednn import Precision
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

OPS = OpRegistry.of(PACKAGE)
SQUARE = {"stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}


def one_node(dtype):
    x = Tensor("x", dtype, (2,), TensorKind.APP_WRITE)
    y = Tensor("y", dtype, (2,), TensorKind.APP_READ)
    view, _ = checked_node(Node("relu", "qti.aisw", "Relu", [x], [y]), OPS)
    return view


@pytest.mark.parametrize("dtype", [d for d in DType if d not in (DType.STRING, DType.UNDEFINED)])
def test_validates_every_type_that_holds_numbers(dtype):
    assert CpuBackend(OPS, CpuOptions()).validate(one_node(dtype), None, None).ok


@pytest.mark.parametrize("dtype", [DType.STRING, DType.UNDEFINED])
def test_refuses_the_others_and_says_why(dtype):
    support = CpuBackend(OPS, CpuOptions()).validate(one_node(dtype), None, None)
    assert not support.ok
    assert (support.rule, support.field, support.found) == ("dtype", "in[0].dtype", dtype.name)
    assert "FLOAT_32" in support.allowed
    assert dtype.name not in support.allowed


def test_kernels_are_for_ops_that_exist():
    KERNELS.check(OPS)


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.uint8])
def test_other_types_go_through_the_reference(check_op, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    check_op("Relu", x, kernel=False)


@pytest.mark.parametrize("op_type", ["Conv2d", "Relu", "ElementWiseAdd"])
def test_quantized_tensors_are_simulated(run_graph, evaluate, op_type):
    graph, rng = Graph("quantized"), np.random.default_rng(3)
    shape = (1, 5, 5, 4)
    x = graph.add_tensor(
        Tensor(
            "x",
            DType.UFIXED_POINT_8,
            shape,
            TensorKind.APP_WRITE,
            encoding=ScaleOffset(0.05, -128),
        )
    )
    y = Tensor(
        "y", DType.UFIXED_POINT_8, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.2, -100)
    )
    inputs, params = [x], {}
    if op_type == "Conv2d":
        filters = rng.integers(-127, 128, (3, 3, 4, 4)).astype(np.int8)
        encoding = ScaleOffset(0.01)
        inputs.append(static(graph, "w", filters, DType.SFIXED_POINT_8, encoding=encoding))
        params = SQUARE
    elif op_type == "ElementWiseAdd":
        inputs.append(x)
    add(graph, op_type, inputs, name="node", outputs=y, **params)
    feeds = {"x": rng.integers(0, 256, shape).astype(np.uint8)}
    ran = run_graph(graph, feeds, quantized=Quantized.SIMULATE)
    assert ran.by_float_kernel == {"node"}
    wanted = evaluate(graph, feeds)["y"].astype(int)
    # In one case of 400 a convolution's sum is half-way between two steps, and a sum in another
    # order may round the other way; results without sums are equal.
    apart = np.abs(ran.outputs["y"].astype(int) - wanted)
    assert apart.max() <= (1 if op_type == "Conv2d" else 0)
    assert np.count_nonzero(apart) <= 3
    assert len(np.unique(ran.outputs["y"])) > 20


def network(batch=1):
    """Convolutions of each kind, a residual sum, pooling, a classifier."""
    graph, rng = Graph("network"), np.random.default_rng(4)

    def weights(name, *shape):
        return static(graph, name, rng.normal(0, 0.3, shape).astype(np.float32))

    shape = (batch, 33, 33, 3)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    halved = {"stride": (2, 2), "pad_amount": [[1, 1], [1, 1]]}
    params = [weights("w0", 3, 3, 3, 16), weights("b0", 16)]
    t = add(graph, "Conv2d", [x, *params], name="stem", **halved)
    t = entry = add(graph, "ReluMinMax", [t], name="clip", min_value=0.0, max_value=6.0)
    params = [weights("w1", 3, 3, 1, 16), weights("b1", 16)]
    t = add(graph, "DepthWiseConv2d", [t, *params], name="depthwise", **SQUARE)
    t = add(graph, "HardSwish", [t], name="swish")
    pointwise = {"stride": (1, 1), "pad_amount": [[0, 0], [0, 0]]}
    t = add(graph, "Conv2d", [t, weights("w2", 1, 1, 16, 16)], name="point", **pointwise)
    t = add(graph, "ElementWiseAdd", [t, entry], name="sum")
    t = add(graph, "PoolMax2d", [t], name="pool", filter_size=(3, 3), **halved)
    t = add(graph, "PoolAvg2d", [t], name="mean", filter_size=(9, 9), **pointwise)
    t = add(graph, "FullyConnected", [t, weights("w3", 10, 16)], name="classes")
    t = add(graph, "Softmax", [t], name="y")
    t.kind = TensorKind.APP_READ
    return graph, {"x": rng.normal(size=shape).astype(np.float32)}


@pytest.mark.parametrize("fuse", [True, False])
def test_a_whole_network(run_graph, evaluate, fuse):
    graph, feeds = network(batch=2)
    ran = run_graph(graph, feeds, fuse=fuse)
    assert not ran.by_reference
    assert len(ran.prepared.steps) == (8 if fuse else 10)
    # float32 sums of up to 150 terms in another order, through a chain of five layers
    np.testing.assert_allclose(ran.outputs["y"], evaluate(graph, feeds)["y"], rtol=1e-5)


def test_a_repeated_run_allocates_no_tensor(prepare):
    graph, feeds = network(batch=4)
    prepared, outputs = prepare(graph), {"y": np.empty((4, 10), np.float32)}
    control = RunControl()
    prepared.run(feeds, outputs, control)
    tracemalloc.start()
    try:
        prepared.run(feeds, outputs, control)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(3):
            prepared.run(feeds, outputs, control)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # NumPy's own buffers take 4 kB an operand; the smallest feature map has 20 kB, the largest 74
    assert peak - before < 16_000
    assert after - before < 1024


def test_runs_share_scratchpads_without_seeing_them(prepare, evaluate):
    """Garbage in the whole arena before each run: every step must write what later ones read."""
    graph, feeds = network()
    prepared, outputs = prepare(graph), {"y": np.empty((1, 10), np.float32)}
    expected = evaluate(graph, feeds)["y"]
    for _ in range(2):
        prepared.run(feeds, outputs, RunControl())
        np.testing.assert_allclose(outputs["y"], expected, rtol=1e-5)  # as above
        prepared._buffers._block.fill(0xFF)  # NaN in every float


def test_a_kernel_error_names_its_node(prepare):
    graph, feeds = network()
    prepared = prepare(graph)
    readonly = np.empty((1, 10), np.float32)
    readonly.flags.writeable = False
    with pytest.raises(BackendError) as caught:
        prepared.run(feeds, {"y": readonly}, RunControl())
    assert caught.value.where == "node y"
    assert "read-only" in caught.value.message


def test_a_stopped_run_says_so(prepare):
    graph, feeds = network()
    control = RunControl()
    control.stop()
    with pytest.raises(BackendError) as caught:
        prepare(graph).run(feeds, {"y": np.empty((1, 10), np.float32)}, control)
    assert caught.value.code == "GRAPH_ERROR_ABORTED"


TOY = """
    from dovetail.ops import In, Op, OpPackage
    from dovetail.runtime.plan import KernelRegistry

    PACKAGE = OpPackage("toy.pkg")
    KERNELS = KernelRegistry({backend!r})

    @PACKAGE.op("Double")
    class Double(Op):
        inputs = (In("in[0]"),)

        def infer(self, x, out):
            return x

        def reference(self, x):
            return x + x

    @KERNELS.register({package!r}, {op!r})
    def double(call):
        call.read(0)
        call.write()
        # one more than the reference gives, to tell them apart
        return call.array_step(lambda x, out: out.__setitem__(..., 2 * x + 1))
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Install a dist with an op package and kernels for it, in a separate folder."""

    made = []

    def install(backend="cpu", package="toy.pkg", op="Double", loads="KERNELS"):
        name = f"toy_kernels_{len(made)}"
        made.append(name)
        source = textwrap.dedent(TOY).format(backend=backend, package=package, op=op)
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            f"[dovetail.op_packages]\ntoy.pkg = {name}:PACKAGE\n"
            f"[dovetail.kernels]\ncpu:toy.pkg = {name}:{loads}\n"
        )
        plugins.refresh()
        return SimpleNamespace(module=name)

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    for name in made:
        sys.modules.pop(name, None)
    monkeypatch.undo()
    plugins.refresh()


def toy_graph():
    graph = Graph("toy")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (3,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (3,), TensorKind.APP_READ))
    graph.add_node(Node("double", "toy.pkg", "Double", [x], [y]))
    return graph


def prepare_toy():
    ops = installed_ops()  # with the dist that was installed
    return prepare_on(CpuBackend(ops, CpuOptions()), toy_graph(), ops)


def test_kernels_of_another_package_are_found(toy):
    toy()
    out = np.empty(3, np.float32)
    prepare_toy().run({"x": np.arange(3, dtype=np.float32)}, {"y": out}, RunControl())
    np.testing.assert_array_equal(out, [1, 3, 5])


def test_kernels_are_loaded_only_for_packages_in_the_graph(toy, prepare):
    module = toy().module
    prepare(network()[0])
    assert module not in sys.modules
    prepare_toy()
    assert module in sys.modules


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"backend": "htp"}, "'backend' is 'htp'"),
        ({"package": "qti.aisw", "op": "Relu"}, "qti.aisw"),
        ({"loads": "Double"}, "expected a KernelRegistry"),
        ({"loads": "MISSING"}, "MISSING"),
        ({"op": "Treble"}, "Treble"),
    ],
)
def test_broken_kernels_leave_the_ops_to_their_references(toy, caplog, wrong, message):
    toy(**wrong)
    out = np.empty(3, np.float32)
    prepare_toy().run({"x": np.arange(3, dtype=np.float32)}, {"y": out}, RunControl())
    np.testing.assert_array_equal(out, [0, 2, 4])
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "dovetail.kernels 'cpu:toy.pkg'" in warning
    assert message in warning


def test_profiles_have_the_arena_and_the_work_of_each_step(whole):
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 5, 5, 2), TensorKind.APP_WRITE))
    weight = static(graph, "w", whole(2, 3, 3, 2, 4))
    y = add(graph, "Conv2d", [x, weight], name="conv", **SQUARE)
    z = add(graph, "Softmax", [y], name="soft")
    z.kind = TensorKind.APP_READ
    record = Recorder(2, has_nodes=True)
    backend = CpuBackend(OPS, CpuOptions())
    prepared = open_context(backend).prepare(check_ops(graph, OPS), PrepareRequest(record=record))
    assert {event.identifier: event.value for event in record.events} == {
        "arena": prepared.arena.nbytes,
        "steps": len(prepared.steps),
    }
    record.events.clear()
    outputs = {z.name: np.empty(z.shape, np.float32)}
    prepared.run({"x": whole(1, 1, 5, 5, 2)}, outputs, RunControl(record=record))
    work = {
        event.identifier: counter.value
        for event in record.events
        for counter in event.counters
        if counter.name == "work"
    }
    assert work == {"conv": 25 * 9 * 2 * 4, "soft": 0}


def test_rounding_to_bfloat16_is_stated() -> None:
    """`auto` relies on it: the option takes effect only on some processors."""
    for precision in Precision:
        plugin = CpuBackend(OPS, CpuOptions(precision=precision))
        is_narrow = plugin.precision is not Precision.FLOAT32
        wanted = FloatPrecision.FLOAT16 if is_narrow else FloatPrecision.FLOAT32
        assert plugin.float_precision(None) is wanted
        plugin.close()
    exact = CpuBackend(OPS, CpuOptions())
    assert exact.float_precision(None) is FloatPrecision.FLOAT32
    assert exact.is_native
    exact.close()
