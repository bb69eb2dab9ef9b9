"""oneDNN inside core's plan: opaque layouts, post-ops, packed weights, scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dovetail.container import Packed, WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, DType, Spec
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import Storage
from dovetail_onednn import OneDnnLayout, library
from dovetail_onednn.post_ops import BINARY


def test_convolution_relu_and_residual_add(model: Any, close: Any, kinds: Any) -> None:
    x = model.input("x", 2, 10, 12, 32)
    y = model.add("Relu", model.conv(x, "conv1", 32), name="relu1")
    y = model.add("ElementWiseAdd", model.conv(y, "conv2", 32), x, name="add")
    model.output(model.add("Relu", y, name="relu2"))
    prepared, feeds = model.prepare(), model.feeds()

    close(model.run(prepared, feeds)["relu2"], model.expected(feeds)["relu2"])
    engine = [k for k in kinds(prepared.steps) if k != "reorder"]
    assert engine == ["engine conv1+relu1", "engine conv2+add+relu2"]


@pytest.mark.parametrize("channels", [5, 16, 33])
def test_every_post_op_in_one_chain_in_a_padded_layout(
    model: Any, close: Any, kinds: Any, channels: int
) -> None:
    # from 3 channels the library chooses blocks of channels, so 5 and 33 are padded
    x, other = model.input("x", 1, 9, 7, 3), model.input("other", 1, 9, 7, channels)
    y = model.add("Relu", model.conv(x, "conv", channels), name="relu")
    y = model.add("ElementWiseAdd", other, y, name="add")  # the chain is the second operand
    model.output(model.add("ReluMinMax", y, name="clip", min_value=0.0, max_value=2.0))
    prepared, feeds = model.prepare(), model.feeds()

    close(model.run(prepared, feeds)["clip"], model.expected(feeds)["clip"])
    assert "engine conv+relu+add+clip" in kinds(prepared.steps)


def test_a_block_that_adds_its_own_source(model: Any, close: Any) -> None:
    y = model.conv(model.input("x", 1, 6, 6, 3), "first", 8)
    for i in range(3):
        y = model.add("ElementWiseAdd", model.conv(y, f"conv{i}", 8), y, name=f"add{i}")
    model.output(y)
    feeds = model.feeds()

    close(model.run(model.prepare(), feeds)["add2"], model.expected(feeds)["add2"])


@pytest.mark.parametrize("shape", [(4,), (1,), (1, 1, 1, 4), (2, 6, 6, 4), ()])
@pytest.mark.parametrize("op_type", sorted(BINARY))
def test_operands_that_broadcast_are_absorbed(
    model: Any, close: Any, kinds: Any, op_type: str, shape: tuple[int, ...]
) -> None:
    y = model.conv(model.input("x", 2, 6, 6, 4), "conv", 4)
    model.output(model.add(op_type, y, model.random("other", *shape), name="after"))
    prepared, feeds = model.prepare(), model.feeds()

    assert "engine conv+after" in kinds(prepared.steps)
    close(model.run(prepared, feeds)["after"], model.expected(feeds)["after"])


@pytest.mark.parametrize("op_type", sorted(BINARY))
def test_the_result_as_second_operand(model: Any, close: Any, kinds: Any, op_type: str) -> None:
    y = model.conv(model.input("x", 2, 6, 6, 4), "conv", 4)
    model.output(model.add(op_type, model.random("other", 4), y, name="after"))
    prepared, feeds = model.prepare(), model.feeds()

    is_absorbed = "engine conv+after" in kinds(prepared.steps)
    assert is_absorbed is (op_type not in ("ElementWiseSubtract", "ElementWiseDivide"))
    close(model.run(prepared, feeds)["after"], model.expected(feeds)["after"])


def test_what_widens_the_result_and_second_readers_are_not_absorbed(
    model: Any, close: Any, kinds: Any
) -> None:
    x = model.input("x", 1, 6, 6, 4)
    y = model.conv(x, "conv1", 4)
    model.output(model.add("ElementWiseAdd", y, model.random("row", 2, 1, 1, 4), name="wider"))
    z = model.conv(x, "conv2", 4)
    model.output(model.add("Relu", z, name="relu"))
    model.output(model.add("ElementWiseAbs", z, name="abs"))
    prepared, feeds = model.prepare(), model.feeds()

    wanted = model.expected(feeds)
    for name, found in model.run(prepared, feeds).items():
        close(found, wanted[name])
    assert {"engine conv1", "engine conv2"} <= set(kinds(prepared.steps))


def test_a_chain_beyond_the_library_s_limit_is_cut(model: Any, close: Any, kinds: Any) -> None:
    y = model.conv(model.input("x", 1, 6, 6, 4), "conv", 4)
    for i in range(40):  # the library takes 32 post-ops
        y = model.add("ReluMinMax", y, name=f"clip{i}", min_value=0.0, max_value=3.0 - i / 20)
    model.output(y)
    prepared, feeds = model.prepare(), model.feeds()

    assert any(kind.startswith("engine conv+clip0+clip1") for kind in kinds(prepared.steps))
    close(model.run(prepared, feeds)[y.name], model.expected(feeds)[y.name])


def test_fused_equals_unfused(model: Any, close: Any, kinds: Any) -> None:
    y = model.conv(model.input("x", 1, 8, 8, 16), "conv", 16)
    model.output(model.add("Relu", y, name="relu"))
    feeds, plain = model.feeds(), model.prepare(fuse=False)

    assert [k for k in kinds(plain.steps) if k != "reorder"] == ["engine conv", "reference relu"]
    close(model.run(model.prepare(), feeds)["relu"], model.run(plain, feeds)["relu"])


@pytest.mark.usefixtures("blocked")
def test_blocked_layout_goes_from_one_convolution_to_the_next(
    model: Any, close: Any, kinds: Any
) -> None:
    y = model.conv(model.input("x", 1, 12, 12, 3), "conv1", 16)
    model.output(model.conv(y, "conv2", 24))
    prepared, feeds = model.prepare(), model.feeds()

    what = kinds(prepared.steps)
    first, second = what.index("engine conv1"), what.index("engine conv2")
    assert second == first + 1
    written = prepared.steps[first].writes[0]
    assert isinstance(written.layout, OneDnnLayout)
    assert written in prepared.steps[second].reads
    close(model.run(prepared, feeds)["conv2"], model.expected(feeds)["conv2"])


@pytest.mark.usefixtures("blocked")
def test_a_layout_that_would_make_the_next_one_slow_is_left(
    model: Any, close: Any, kinds: Any
) -> None:
    # blocks of channels cut through groups of 5, for which there is only the generic code
    y = model.conv(model.input("x", 1, 9, 9, 3), "conv1", 15)
    model.output(model.conv(y, "conv2", 15, group=3))
    prepared, feeds = model.prepare(), model.feeds()

    assert kinds(prepared.steps)[1:4] == ["engine conv1", "reorder", "engine conv2"]
    close(model.run(prepared, feeds)["conv2"], model.expected(feeds)["conv2"])


@pytest.mark.usefixtures("blocked")
def test_one_reorder_serves_all_who_want_dense_values(model: Any, close: Any, kinds: Any) -> None:
    y = model.conv(model.input("x", 1, 12, 12, 3), "conv", 16)
    model.output(model.add("ElementWiseAbs", y, name="abs"))
    model.output(model.add("ElementWiseNeg", y, name="neg"))
    prepared, feeds = model.prepare(), model.feeds()

    after = kinds(prepared.steps)[kinds(prepared.steps).index("engine conv") + 1 :]
    assert after == ["reorder", "reference abs", "reference neg"]
    wanted = model.expected(feeds)
    for name, found in model.run(prepared, feeds).items():
        close(found, wanted[name])


class CountingStore(WeightStore):
    """A store that counts how often it packs."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def packed(self, inputs: Any, form: str, make: Any, **options: Any) -> Packed:
        def counted(arrays: Any, specs: Any) -> Array:
            self.made += 1
            found: Array = make(arrays, specs)
            return found

        return super().packed(inputs, form, counted, **options)


def test_graphs_that_share_weights_share_packed_ones(new_model: Any, close: Any) -> None:
    store = CountingStore()
    packed = []
    for height in (8, 16):
        model = new_model()  # of the same seed: equal weights, in separate blobs
        model.output(model.conv(model.input("x", 1, height, 8, 32), "conv", 32))
        prepared, feeds = model.prepare(store), model.feeds()
        close(model.run(prepared, feeds)["conv"], model.expected(feeds)["conv"])
        values = [v for s in prepared.steps for v in s.reads if v.name == "conv.constant"]
        packed += [v.array for v in values]

    assert store.made == 1
    assert len(packed) == 2
    assert np.shares_memory(packed[0], packed[1])


def test_other_groups_of_one_blob_are_packed_for_themselves(new_model: Any, close: Any) -> None:
    store = CountingStore()
    for channels, group in ((16, 1), (32, 2)):
        model = new_model()
        model.output(model.conv(model.input("x", 1, 8, 8, channels), "conv", 16, group=group))
        prepared, feeds = model.prepare(store), model.feeds()
        close(model.run(prepared, feeds)["conv"], model.expected(feeds)["conv"])
    assert store.made == 2


@pytest.mark.usefixtures("blocked")
def test_scratchpad_lies_in_the_arena(model: Any, close: Any, kinds: Any) -> None:
    # 3 groups of 5 channels fit no block, so the library unfolds the windows into its scratchpad
    y = model.conv(model.input("x", 1, 20, 20, 15), "conv", 15, group=3)
    model.output(y)
    prepared, feeds = model.prepare(), model.feeds()

    step = prepared.steps[kinds(prepared.steps).index("engine conv")]
    assert [pad.storage for pad in step.scratch] == [Storage.ARENA]
    at, size = prepared.arena.offsets[step.scratch[0]], step.scratch[0].nbytes
    assert size >= 20 * 20 * 4
    assert at + size <= prepared.arena.nbytes
    close(model.run(prepared, feeds)["conv"], model.expected(feeds)["conv"])


class Seen:
    """A watcher that records a run."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, ...]] = []
        self.values: dict[str, Array] = {}

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        self.nodes.append(nodes)
        self.values |= {name: array.copy() for name, array in outputs.items()}


@pytest.mark.usefixtures("blocked")
def test_watching_shows_dense_arrays(model: Any, close: Any, kinds: Any) -> None:
    y = model.add("Relu", model.conv(model.input("x", 1, 12, 12, 3), "conv1", 5), name="relu")
    model.output(model.conv(y, "conv2", 5))
    prepared, feeds, seen = model.prepare(), model.feeds(), Seen()
    written = prepared.steps[kinds(prepared.steps).index("engine conv1+relu")].writes[0]
    assert written.layout is not None  # else this test would prove nothing

    prepared.run(feeds, model.buffers(), RunControl(seen))
    assert seen.nodes == [("conv1", "relu"), ("conv2",)]
    assert seen.values.keys() == {"relu", "conv2"}
    wanted = model.expected(feeds)
    for name, found in seen.values.items():
        assert found.dtype == np.float32
        close(found, wanted[name])


def test_other_buffers_are_bound_and_old_ones_left_alone(model: Any, close: Any) -> None:
    y = model.conv(model.input("x", 1, 8, 8, 32), "conv1", 32)
    model.output(model.add("Relu", model.conv(y, "conv2", 32), name="relu"))
    prepared = model.prepare()
    feeds = [model.feeds() for _ in range(3)]
    results = [model.run(prepared, f)["relu"] for f in feeds]
    for feed, result in zip(feeds, results, strict=True):
        close(result, model.expected(feed)["relu"])

    # the same buffers with other content need no binding, and are read again
    outputs = {"relu": results[2]}
    prepared.run(feeds[2], outputs, RunControl())
    feeds[2]["x"][...] *= 2
    prepared.run(feeds[2], outputs, RunControl())
    close(results[2], model.expected(feeds[2])["relu"])


def test_what_the_kernel_is_not_for_runs_by_its_reference(
    model: Any, close: Any, kinds: Any
) -> None:
    x = model.input("x", 1, 6, 6, 4)
    half = Spec(DType.FLOAT_16, x.shape)
    low = model.add("Cast", x, name="half", spec=half)
    w = model.random("w", 1, 1, 4, 4)
    w16 = model.add("Cast", w, name="w16", spec=Spec(DType.FLOAT_16, w.shape))
    y16 = model.add("Conv2d", low, w16, name="narrow", stride=(1, 1), pad_amount=((0, 0), (0, 0)))
    wide = model.add("Cast", y16, name="wide", spec=Spec(DType.FLOAT_32, y16.shape))
    model.output(wide)
    prepared, feeds = model.prepare(), model.feeds()

    assert "reference narrow" in kinds(prepared.steps)
    wanted = model.expected(feeds)
    for name, found in model.run(prepared, feeds).items():
        close(found, wanted[name])


def test_failures_name_the_node(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    y = model.conv(model.input("x", 1, 8, 8, 32), "conv", 32)
    model.output(model.add("Relu", y, name="relu"))
    weights = WeightStore()
    prepared = model.prepare(weights)  # packs the weights

    functions = library().functions
    monkeypatch.setitem(functions, "primitive_create", lambda *_: 1)
    with pytest.raises(BackendError, match="out of memory") as caught:
        model.prepare(weights)
    assert caught.value.where == "Conv2d node 'conv'"
    assert "a float32 convolution + relu: source 1x32x8x8" in caught.value.message

    for name in ("primitive_execute", "primitive_execute_held"):
        monkeypatch.setitem(functions, name, lambda *_: 5)
    with pytest.raises(BackendError, match="executing a float32 convolution") as caught:
        model.run(prepared, model.feeds())
    assert caught.value.where == "node conv, relu"


GATES = {
    "swish": ("Sigmoid", {}),
    "hard swish of its own": ("ElementWiseNeuron", {"operation": 2, "alpha": 0.3, "beta": 0.4}),
}


def gated(model: Any, x: Any, gate: str, *, first: bool = True) -> Any:
    """x times a function of x."""
    op_type, params = GATES[gate]
    factor = model.add(op_type, x, name="gate", **params)
    return model.add("ElementWiseMultiply", *((x, factor) if first else (factor, x)), name="joint")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("head", ["conv", "product"])
def test_a_gate_is_absorbed(
    model: Any, close: Any, kinds: Any, head: str, gate: str, first: bool
) -> None:
    if head == "conv":
        y = model.conv(model.input("x", 1, 6, 5, 16), "head", 32)
    else:
        y = model.add("MatMul", model.input("x", 6, 16), model.random("w", 16, 32), name="head")
    y = gated(model, model.add("Relu6", y, name="relu"), gate, first=first)
    model.output(model.add("ElementWiseAdd", y, model.random("b", 32), name="y"))
    prepared, feeds = model.prepare(), model.feeds()
    close(model.run(prepared, feeds)["y"], model.expected(feeds)["y"])
    assert [k for k in kinds(prepared.steps) if k != "reorder"] == ["engine head+relu+gate+joint+y"]


@pytest.mark.parametrize("other", ["a reader", "another factor", "another gate", "an output"])
def test_what_only_looks_like_a_gate_stays(model: Any, close: Any, kinds: Any, other: str) -> None:
    y = model.conv(model.input("x", 1, 6, 5, 16), "head", 16)
    if other == "a reader":
        joint = gated(model, y, "swish")
        z = model.add("ElementWiseAdd", joint, y, name="z")
    elif other == "another factor":
        factor = model.add("Sigmoid", y, name="gate")
        z = model.add("ElementWiseSubtract", y, factor, name="z")
    elif other == "another gate":
        z = model.add("ElementWiseMultiply", y, model.add("Tanh", y, name="tanh"), name="z")
    else:
        model.output(y)
        z = gated(model, y, "swish")
    model.output(z)
    prepared, feeds = model.prepare(), model.feeds()
    found, wanted = model.run(prepared, feeds), model.expected(feeds)
    for tensor in model.graph.outputs:
        close(found[tensor.name], wanted[tensor.name])
    assert "engine head" in kinds(prepared.steps)


@pytest.mark.parametrize("slopes", ["one", "each channel", "computed"])
@pytest.mark.parametrize("head", ["conv", "depthwise", "transposed", "product", "pool", "sum"])
def test_prelu(model: Any, close: Any, kinds: Any, head: str, slopes: str) -> None:
    channels = 24
    x = model.input("x", 1, 9, 7, channels)
    filters = model.random("w", 3, 3, channels, channels)
    window = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    if head == "conv":
        y = model.conv(x, "head", channels)
    elif head == "depthwise":
        once = model.random("w1", 3, 3, 1, channels)
        y = model.add("DepthWiseConv2d", x, once, name="head", **window)
    elif head == "transposed":
        y = model.add("TransposeConv2d", x, filters, name="head", **window)
    elif head == "product":
        y = model.add("MatMul", x, model.random("w2", channels, channels), name="head")
    elif head == "pool":
        y = model.add("PoolAvg2d", x, name="head", filter_size=(3, 3), **window)
    else:
        y = model.add("ElementWiseAdd", x, model.input("z", 1, 9, 7, channels), name="head")
    if slopes == "computed":
        slope = model.add("Tanh", model.input("slope", channels), name="tanh")
    else:
        slope = model.random("slope", 1 if slopes == "one" else channels)
    model.output(model.add("Prelu", y, slope, name="y"))
    prepared, feeds = model.prepare(), model.feeds()
    close(model.run(prepared, feeds)["y"], model.expected(feeds)["y"])
    by_channel = head in ("conv", "depthwise", "transposed")
    is_one_step = "engine head+y" in kinds(prepared.steps)
    assert is_one_step is (by_channel or (slopes == "one" and head != "sum"))
