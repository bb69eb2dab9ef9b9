"""NaN and infinities through every kernel of both engines, against the ops' references."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace
from reference_values import run_node

from dovetail import testing
from dovetail.errors import DovetailError
from dovetail.ir import Array
from dovetail.ops import OpRegistry
from dovetail.runtime.contract import RunControl
from dovetail.testing import OpCase
from dovetail.testing.binding import BoundCase, bind
from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice
from dovetail_onednn import choose_engine
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES

REGISTRY = OpRegistry.of(PACKAGE)
NUMBERS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
ENGINES = (EngineChoice.NUMPY, EngineChoice.AUTO)
MOST_CASES = 5  # of an op

# Ops whose kernels on oneDNN may return NaN, where the reference returns a number, for an infinity.
MAY_BECOME_NAN = {
    "ElementWiseNeuron": "GELU multiplies infinity by 0",
    "Gelu": "infinity is multiplied by 0",
    "ResizeBilinear": "interpolation subtracts infinity from itself",
}


def has_kernel(case: OpCase) -> bool:
    return any(
        (case.package, case.op_type) in set(choose_engine("cpu", e).kernels) for e in ENGINES
    )


def is_float32(x: object) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.float32 and bool(x.size)


def is_beside_padding(case: OpCase, index: int) -> bool:
    """Return whether an input is the filters of a padded convolution.

    The reference multiplies them by the padding's 0, kernels leave the padding out.
    """
    pads = case.params.get("pad_amount", 0)
    return "Conv" in case.op_type and index == 1 and bool(np.any(pads))


def chosen_cases() -> dict[str, list[tuple[OpCase, int]]]:
    """Return some cases of each op with a kernel, each with one of its float32 inputs."""
    found: dict[str, list[tuple[OpCase, int]]] = {}
    for case in CASES:
        if case.dtype is None and has_kernel(case):
            inputs = [
                (case, i)
                for i, x in enumerate(case.inputs)
                if is_float32(x) and not is_beside_padding(case, i)
            ]
            found.setdefault(case.op_type, []).extend(inputs)
    return {name: cases for name, cases in found.items() if cases}


CHOSEN = chosen_cases()


@pytest.fixture(autouse=True, scope="module")
def of_any_size() -> Iterator[None]:
    """Let oneDNN's kernels take small tensors, which are NumPy's otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("elementwise._LEAST", "elementwise._LEAST_SLOW", "movement._LEAST"):
            patch.setattr(f"dovetail_onednn.{name}", 1)
        patch.setattr("dovetail_onednn.matrix._NARROWEST", 1)
        yield


def with_number(case: OpCase, index: int, number: float) -> BoundCase:
    """Return a case with some elements of an input replaced."""
    bound = bind(case)
    values = bound.inputs[index].values.copy()
    rng = np.random.default_rng((values.size, index))
    values.flat[rng.integers(values.size, size=1 + values.size // 40)] = number
    inputs = list(bound.inputs)
    inputs[index] = replace(inputs[index], values=values)
    return replace(bound, inputs=tuple(inputs))


def expected(bound: BoundCase) -> tuple[Array, ...]:
    schema = REGISTRY.find(bound.case.package, bound.case.op_type)
    node = bound.node(schema)
    inputs = [None if x is None else x.values for x in bound.inputs]
    return run_node(node, inputs, REGISTRY)


def computed(bound: BoundCase, choice: EngineChoice) -> tuple[Array, ...]:
    graph = bound.graph(REGISTRY.find(bound.case.package, bound.case.op_type))
    prepared = testing.prepare(CpuBackend(REGISTRY, CpuOptions(engine=choice)), graph, REGISTRY)
    outputs = {t.name: np.zeros(t.shape, t.dtype.storage) for t in graph.outputs}
    prepared.run(bound.feeds(), outputs, RunControl())
    return tuple(outputs[f"y{i}"] for i in range(len(outputs)))


def fault(found: Array, wanted: Array, case: OpCase, *, may_become_nan: bool) -> str:
    """Return what is wrong with an output, or nothing."""
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(found, wanted) else f"{found} is not {wanted}"
    same = np.isclose(found, wanted, case.rtol, case.atol, equal_nan=True)
    if may_become_nan:
        same |= np.isnan(found)
    return "" if same.all() else f"{found[~same][:4]} is not {wanted[~same][:4]}"


@pytest.mark.parametrize("choice", ENGINES, ids=lambda e: e.value)
@pytest.mark.parametrize("op_type", sorted(CHOSEN))
def test_each_kernel(op_type: str, choice: EngineChoice) -> None:
    cases, faults = CHOSEN[op_type], []
    for case, index in cases[:: 1 + (len(cases) - 1) // MOST_CASES]:
        for name, number in NUMBERS.items():
            bound = with_number(case, index, number)
            try:
                with np.errstate(all="ignore"):
                    wanted = expected(bound)
            except DovetailError:
                continue  # such a region or index is an error
            may = choice is EngineChoice.AUTO and name != "nan" and op_type in MAY_BECOME_NAN
            for found, right in zip(computed(bound, choice), wanted, strict=True):
                if text := fault(found, right, case, may_become_nan=may):
                    faults.append(f"{case.id}, {name} in in[{index}]: {text}")
    assert not faults, "\n".join(faults)
