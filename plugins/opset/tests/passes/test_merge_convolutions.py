"""Sums of convolutions of one tensor become one convolution."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import MergeConvolutions

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32
Branch = dict[str, Any]


class Net:
    """x: (2, ..., 4), and branches of it."""

    def __init__(self, axes: int = 2) -> None:
        self.rng = np.random.default_rng(6)
        self.axes = axes
        self.graph = Graph("net")
        shape = (2, 9, 8, 7)[: axes + 1]
        self.x = self.graph.add_tensor(Tensor("x", F32, (*shape, 4), TensorKind.APP_WRITE))

    def constant(self, *shape: int) -> Tensor:
        return static(self.graph, "c", self.rng.standard_normal(shape).astype(np.float32))

    def conv(
        self,
        size: tuple[int, ...],
        pads: list[tuple[int, int]],
        *,
        op_type: str = "Conv",
        bias: bool = True,
        **params: Any,
    ) -> Tensor:
        group = params.get("group", 1)
        taken = 1 if op_type == "DepthWiseConv" else 4 // group
        made = params.pop("made", 4)
        inputs = [self.x, self.constant(*size, taken, made)]
        inputs += [self.constant(made)] if bias else []
        stride, dilation = params.pop("stride", 1), params.pop("dilation", 1)
        if self.axes == 1:
            params |= {"stride": stride, "dilation": dilation, "pad_amount": pads[0]}
        else:
            each = {"stride": stride, "dilation": dilation}
            params |= {k: v if isinstance(v, tuple) else (v,) * self.axes for k, v in each.items()}
            params["pad_amount"] = pads
        return add(self.graph, f"{op_type}{self.axes}d", inputs, name="conv", **params)

    def batchnorm(self, *, bias: bool = True) -> Tensor:
        inputs = [self.x, self.constant(4), *([self.constant(4)] if bias else [])]
        return add(self.graph, "Batchnorm", inputs, name="norm")

    def sum(self, *parts: Tensor) -> Tensor:
        total = parts[0]
        for part in parts[1:]:
            total = add(self.graph, "ElementWiseAdd", [total, part], name="sum")
        total.kind = TensorKind.APP_READ
        return total


def check(net: Net, y: Tensor, evaluate: Evaluate) -> list[str]:
    feed = {"x": net.rng.standard_normal(net.x.shape).astype(np.float32)}
    before = evaluate(net.graph, feed)[y.name]
    assert MergeConvolutions().run(net.graph)
    assert not MergeConvolutions().run(net.graph)
    assert not find_faults(net.graph)
    # up to 100 products of each sum in another order, some of which cancel
    np.testing.assert_allclose(evaluate(net.graph, feed)[y.name], before, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in net.graph.nodes]


ONES, NONE = [(1, 1), (1, 1)], [(0, 0), (0, 0)]


@pytest.mark.parametrize("bias", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_window_and_its_middle(evaluate: Evaluate, bias: Any, turned: bool) -> None:
    net = Net()
    parts = [net.conv((3, 3), ONES, bias=bias[0]), net.conv((1, 1), NONE, bias=bias[1])]
    assert check(net, net.sum(*(parts[::-1] if turned else parts)), evaluate) == ["Conv2d"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (((3, 3), ONES, {"stride": 2}), ((1, 1), NONE, {"stride": 2})),
        (((3, 3), ONES, {"stride": (2, 1)}), ((3, 3), ONES, {"stride": (2, 1)})),
        (
            ((3, 3), [(2, 2)] * 2, {"dilation": 2}),
            ((1, 1), NONE, {}),
        ),  # its one tap has no dilation
        (((5, 5), [(4, 4)] * 2, {"dilation": 2}), ((3, 3), [(2, 2)] * 2, {"dilation": 2})),
        (((3, 1), [(1, 1), (0, 0)], {}), ((1, 1), NONE, {})),
        (((3, 3), [(0, 2), (2, 0)], {}), ((2, 2), [(0, 1), (1, 0)], {})),  # a corner
        (((3, 3), ONES, {"group": 2}), ((1, 1), NONE, {"group": 2})),
        (((3, 3), ONES, {"made": 6}), ((1, 1), NONE, {"made": 6})),
    ],
)
def test_windows_that_fit_in_each_other(evaluate: Evaluate, first: Any, second: Any) -> None:
    net = Net()
    parts = [net.conv(size, pads, **dict(params)) for size, pads, params in (first, second)]
    assert check(net, net.sum(*parts), evaluate) == ["Conv2d"]


@pytest.mark.parametrize(
    ("op_type", "axes"),
    [*(("Conv", n) for n in (1, 2, 3)), *(("DepthWiseConv", n) for n in (1, 2))],
)
def test_all_branches_of_a_block(evaluate: Evaluate, op_type: str, axes: int) -> None:
    net = Net(axes)
    parts = [net.conv((1,) * axes, [(0, 0)] * axes, op_type=op_type), net.batchnorm()]
    parts += [net.conv((3,) * axes, [(1, 1)] * axes, op_type=op_type) for _ in range(3)]
    assert check(net, net.sum(*parts), evaluate) == [f"{op_type}{axes}d"]
    assert len(net.graph.nodes[0].sources) > 1


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_a_batchnorm_beside_groups(evaluate: Evaluate, group: int, bias: bool) -> None:
    net = Net()
    parts = [net.batchnorm(bias=bias), net.conv((3, 3), ONES, group=group, bias=False)]
    assert check(net, net.sum(*parts), evaluate) == ["Conv2d"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (((3, 3), ONES, {}), ((1, 1), NONE, {"group": 2})),
        (((3, 3), [(2, 2)] * 2, {"dilation": 2}), ((3, 3), ONES, {})),
        (((1, 3), [(0, 0), (1, 1)], {}), ((3, 1), [(1, 1), (0, 0)], {})),  # neither holds the other
        (((3, 3), ONES, {}), ((1, 1), NONE, {"op_type": "DepthWiseConv"})),
        (((3, 3), [(2, 2)] * 2, {"dilation": 2}), ((2, 2), [(1, 0)] * 2, {})),  # between two taps
        (((3, 3), [(1, 3)] * 2, {"dilation": 2}), ((1, 1), NONE, {})),  # one tap, too
    ],
)
def test_windows_that_do_not(first: Any, second: Any) -> None:
    net = Net()
    net.sum(*(net.conv(size, pads, **dict(params)) for size, pads, params in (first, second)))
    assert not MergeConvolutions().run(net.graph)


def test_strides_keep_a_batchnorm_out() -> None:
    net = Net()
    net.graph.remove_tensor(net.x)
    net.x = net.graph.add_tensor(Tensor("x", F32, (1, 1, 1, 4), TensorKind.APP_WRITE))
    net.sum(net.conv((1, 1), NONE, stride=2), net.batchnorm())
    assert not MergeConvolutions().run(net.graph)


def test_branches_that_others_need_stay() -> None:
    net = Net()
    first, second = net.conv((3, 3), ONES), net.conv((1, 1), NONE)
    first.kind = TensorKind.APP_READ
    net.sum(first, second)
    assert not MergeConvolutions().run(net.graph)


def test_twice_the_same_branch_stays() -> None:
    net = Net()
    first = net.conv((3, 3), ONES)
    net.sum(first, first)
    assert not MergeConvolutions().run(net.graph)


def test_weights_that_change_and_ranges_that_were_chosen_stay() -> None:
    net = Net()
    net.sum(net.conv((3, 3), ONES), net.conv((1, 1), NONE))
    net.graph.nodes[0].inputs[1].kind = TensorKind.UPDATEABLE_STATIC  # type: ignore[union-attr]
    assert not MergeConvolutions().run(net.graph)
    net = Net()
    net.sum(net.conv((3, 3), ONES), net.conv((1, 1), NONE))
    net.graph.nodes[0].outputs[0].encoding = ScaleOffset(0.1)
    assert not MergeConvolutions().run(net.graph)


def test_convolutions_of_two_tensors_stay() -> None:
    net = Net()
    first = net.conv((3, 3), ONES)
    net.x = add(net.graph, "Relu", [net.x], name="relu")
    net.sum(first, net.conv((1, 1), NONE))
    assert not MergeConvolutions().run(net.graph)
