"""HardSwish written out: each spelling becomes one op; what is another thing, or read, stays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Tensor, TensorKind
from dovetail_opset.passes import FuseHardSwish

Evaluate = Callable[..., Any]
HARD_SIGMOID = 2  # of ElementWiseNeuron
SIXTH = float(np.float32(1 / 6))
CLIPS = ("Relu6", "ReluMinMax", "min of max", "max of min", "min of Relu")
SIXTHS = ("divides product", "divides gate", "divides x")
TIMES = ("multiplies product", "multiplies gate", "multiplies x")


def clipped(net: Any, x: Tensor, how: str, most: float = 6) -> Tensor:
    zero, six = net.number(0), net.number(most)
    match how:
        case "Relu6":
            return net.step("Relu6", x)
        case "ReluMinMax":
            return net.step("ReluMinMax", x, min_value=0.0, max_value=most)
        case "min of max":
            return net.step("ElementWiseMinimum", net.step("ElementWiseMaximum", x, zero), six)
        case "max of min":
            return net.step("ElementWiseMaximum", zero, net.step("ElementWiseMinimum", six, x))
        case _:
            return net.step("ElementWiseMinimum", net.step("Relu", x), six)


def sixth(net: Any, how: str, y: Tensor) -> Tensor:
    if how.startswith("divides"):
        return net.step("ElementWiseDivide", y, net.number(6))
    return net.step("ElementWiseMultiply", net.number(SIXTH), y)


def written_out(net: Any, x: Tensor, clip: str, how: str, *, first: bool, shift: float = 3) -> Any:
    gate = clipped(net, net.step("ElementWiseAdd", x, net.number(shift)), clip)
    where = how.split()[1]
    gate = sixth(net, how, gate) if where == "gate" else gate
    left = sixth(net, how, x) if where == "x" else x
    y = net.step("ElementWiseMultiply", *((left, gate) if first else (gate, left)))
    return sixth(net, how, y) if where == "product" else y


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("how", [*SIXTHS, *TIMES])
@pytest.mark.parametrize("first", [True, False])
def test_each_spelling_fuses(
    net: Any, evaluate: Evaluate, clip: str, how: str, first: bool
) -> None:
    y = written_out(net, net.x, clip, how, first=first)
    assert net.check(y, FuseHardSwish(), evaluate) == ["HardSwish"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("beta", [0.5, None])
def test_x_times_its_hard_sigmoid_fuses(
    net: Any, evaluate: Evaluate, first: bool, beta: float | None
) -> None:
    params = {"operation": HARD_SIGMOID, "alpha": SIXTH, "beta": beta}
    gate = net.step("ElementWiseNeuron", net.x, **params)
    y = net.step("ElementWiseMultiply", *((net.x, gate) if first else (gate, net.x)))
    assert net.check(y, FuseHardSwish(), evaluate) == ["HardSwish"]


def test_a_scaled_input_is_still_the_input(net: Any, evaluate: Evaluate) -> None:
    x = net.step("ElementWiseMultiply", net.x, net.number(0.25))
    gate = net.step("ElementWiseNeuron", x, operation=HARD_SIGMOID, alpha=SIXTH)
    y = net.step("ElementWiseMultiply", gate, x)
    assert net.check(y, FuseHardSwish(), evaluate) == ["ElementWiseMultiply", "HardSwish"]


def test_a_gate_that_is_read_elsewhere_stays(net: Any) -> None:
    written_out(net, net.x, "Relu6", "divides gate", first=True)
    gate = net.graph.nodes[2].outputs[0]
    net.step("Relu", gate)
    net.untouched(FuseHardSwish())


def test_a_gate_with_a_range_of_its_own_stays(net: Any) -> None:
    written_out(net, net.x, "Relu6", "divides gate", first=True)
    net.graph.nodes[1].outputs[0].encoding = ScaleOffset(0.25)
    net.untouched(FuseHardSwish())


def test_an_updateable_number_stays(net: Any) -> None:
    written_out(net, net.x, "Relu6", "divides gate", first=True)
    net.graph.nodes[0].inputs[1].kind = TensorKind.UPDATEABLE_STATIC
    net.untouched(FuseHardSwish())


def gated(net: Any, x: Tensor, **params: Any) -> None:
    gate = net.step("ElementWiseNeuron", net.x, operation=HARD_SIGMOID, **params)
    net.step("ElementWiseMultiply", x, gate)


def product(net: Any, clip: str, most: float) -> Tensor:
    return net.step("ElementWiseMultiply", net.x, clipped(net, shifted(net), clip, most))


def shifted(net: Any) -> Tensor:
    return net.step("ElementWiseAdd", net.x, net.number(3))


@pytest.mark.parametrize(
    "write",
    [
        lambda net: written_out(net, net.x, "Relu6", "divides gate", first=True, shift=2.9),
        lambda net: gated(net, net.step("ElementWiseAbs", net.x), alpha=SIXTH),
        lambda net: gated(net, net.x),  # of slope 0.2
        lambda net: gated(net, net.x, alpha=SIXTH, beta=0.4),
        lambda net: sixth(net, "divides", product(net, "min of max", 5)),
        lambda net: sixth(net, "divides", product(net, "ReluMinMax", 5)),
        lambda net: product(net, "Relu6", 6),
        lambda net: net.step("ElementWiseMultiply", product(net, "Relu6", 6), net.number(0.167)),
    ],
    ids=["shift", "another tensor", "slope", "beta", "5", "ReluMinMax of 5", "no sixth", "0.167"],
)
def test_what_only_resembles_it_stays(net: Any, write: Callable[[Any], Any]) -> None:
    write(net)
    net.untouched(FuseHardSwish())


def test_numbers_that_add_a_dimension_stay(net: Any) -> None:
    gate = net.step("Relu6", net.step("ElementWiseAdd", net.x, net.number(3)))
    y = net.step("ElementWiseMultiply", net.x, gate)
    net.step("ElementWiseDivide", y, net.number(6, 1, 1, 1, 1, 1))
    net.untouched(FuseHardSwish())


def test_a_half_float_stays_written_out(net: Any) -> None:
    # HardSwish would round once where the parts round each
    net.graph.remove_tensor(net.x)
    net.x = net.graph.add_tensor(Tensor("x", DType.FLOAT_16, (2, 4), TensorKind.APP_WRITE))
    gate = net.step("ElementWiseNeuron", net.x, operation=HARD_SIGMOID, alpha=SIXTH)
    net.step("ElementWiseMultiply", net.x, gate)
    net.untouched(FuseHardSwish())
