"""NaN in an input: every float result that depends on that element is NaN."""

from __future__ import annotations

import numpy as np
import pytest
from reference_values import run_node

from dovetail.errors import OpError
from dovetail.ir import Array
from dovetail.ops import OpRegistry
from dovetail.testing import OpCase
from dovetail.testing.binding import bind
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES

REGISTRY = OpRegistry.of(PACKAGE)
# Ops that choose by comparing; NaN loses every comparison with a threshold.
CHOICE = "chooses elements: which ones they are says the docstring"
OUTSIDE = "a coordinate that is NaN is outside the image"
EXEMPT = {
    ("BboxTransform", 0): "an angle of NaN is not upright, so that its box is not clipped",
    ("BoxWithNmsLimit", 0): CHOICE,
    ("BoxWithNmsLimit", 1): CHOICE,
    ("CombinedNms", 0): CHOICE,
    ("CombinedNms", 1): CHOICE,
    ("CropAndResize", 1): OUTSIDE,
    ("DetectionOutput", 0): CHOICE,
    ("DetectionOutput", 1): CHOICE,
    ("DetectionOutput", 2): CHOICE,
    ("DistributeFpnProposals", 0): CHOICE,
    ("GenerateProposals", 0): CHOICE,
    ("GenerateProposals", 1): CHOICE,
    ("GenerateProposals", 2): CHOICE,
    ("GridSample", 1): OUTSIDE,
    ("ImageProjectionTransform", 1): OUTSIDE,
    ("MultiClassNms", 0): CHOICE,
    ("MultiClassNms", 1): CHOICE,
    ("TopK", 0): CHOICE,
    **{("CollectRpnProposals", i): CHOICE for i in range(10)},
}
FLOAT_INPUTS = [
    (case, i)
    for case in CASES
    if REGISTRY.find(case.package, case.op_type).op.is_pure and case.dtype is None
    for i, x in enumerate(case.inputs)
    if isinstance(x, np.ndarray) and x.dtype == np.float32 and x.size
]


def run(case: OpCase, i: int, at: int, value: float) -> tuple[Array, ...] | None:
    """Run a case with another value of one element of input i; None where the op raises."""
    bound = bind(case)
    schema = REGISTRY.find(case.package, case.op_type)
    node = bound.node(schema)
    inputs = [None if x is None else x.values for x in bound.inputs]
    changed = np.array(inputs[i])
    changed.flat[at] = value
    inputs[i] = changed
    try:
        return run_node(node, inputs, REGISTRY)
    except OpError:
        return None


def plausible_numbers(case: OpCase, i: int, seed: int = 0) -> int:
    """Count the float results that depend on an element of input i, but are numbers if it is NaN.

    A result depends on an element if it differs between some values of the element.
    """
    x = np.asarray(case.inputs[i])
    at = int(np.random.default_rng((seed, x.size, i)).integers(x.size))
    base = float(np.nan_to_num(x.flat[at], posinf=1, neginf=-1))
    found = run(case, i, at, np.nan)
    others = (run(case, i, at, base + step) for step in (0.37, -0.37, 7, -7))
    results = [r for r in others if r is not None]
    if found is None or not results:
        return 0
    count = 0
    for k, result in enumerate(found):
        if result.dtype.kind == "f":
            depends = np.any([r[k] != results[0][k] for r in results], axis=0)
            count += int(np.count_nonzero(depends & ~np.isnan(result)))
    return count


@pytest.mark.parametrize(
    ("case", "i"),
    [(case, i) for case, i in FLOAT_INPUTS if (case.op_type, i) not in EXEMPT],
    ids=lambda v: getattr(v, "id", str(v)),
)
def test_results_that_depend_on_nan_are_nan(case: OpCase, i: int) -> None:
    assert plausible_numbers(case, i) == 0


@pytest.mark.parametrize("op_type", sorted({op for op, _ in EXEMPT}))
def test_each_exempt_op_needs_it(op_type: str) -> None:
    inputs = [(case, i) for case, i in FLOAT_INPUTS if case.op_type == op_type]
    assert any(plausible_numbers(case, i, seed) for seed in range(9) for case, i in inputs)
