"""Fixtures: running a graph on the backend, and comparing an op with its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from reference_values import values_of

from dovetail import testing
from dovetail.errors import PluginError
from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import EVERYTHING, NOTHING, OpRegistry
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared
from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice, Quantized
from dovetail_onednn import checked_library
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, add_all

REGISTRY = OpRegistry.of(PACKAGE)


@pytest.fixture
def onednn() -> None:
    """Skip the test where oneDNN cannot be used."""
    try:
        checked_library()
    except PluginError as error:
        pytest.skip(f"no oneDNN here: {error.message}")


@dataclass(frozen=True)
class Ran:
    """A graph that ran: its outputs, and how each node ran."""

    outputs: dict[str, Array]
    prepared: PlanPrepared

    @property
    def by_reference(self) -> set[str]:
        """Names of the nodes without a kernel."""
        return self._bound_in("dovetail.runtime.plan.reference")

    @property
    def on_integers(self) -> set[str]:
        """Names of the fixed-point nodes that ran by the definition of integer arithmetic."""
        return self._bound_in("dovetail_numpy.integer.steps")

    @property
    def by_float_kernel(self) -> set[str]:
        """Names of the fixed-point nodes that a float kernel computed."""
        return self._bound_in("dovetail.runtime.plan.dequantized")

    def _bound_in(self, module: str) -> set[str]:
        steps = self.prepared.steps
        return {n for s in steps if s.bind.__module__ == module for n in s.nodes}


def prepare(
    graph: Graph, *, fuse: bool = True, quantized: Quantized = Quantized.INTEGER
) -> PlanPrepared:
    """Prepare a graph on NumPy's kernels; those of oneDNN are tested in its own dist."""
    options = CpuOptions(engine=EngineChoice.NUMPY, quantized=quantized)
    backend = CpuBackend(REGISTRY, options)
    observed = NOTHING if fuse else EVERYTHING
    prepared = testing.prepare(backend, graph, REGISTRY, observed=observed)
    assert isinstance(prepared, PlanPrepared)
    return prepared


def run_graph(
    graph: Graph,
    feeds: Mapping[str, Array],
    *,
    fuse: bool = True,
    quantized: Quantized = Quantized.INTEGER,
) -> Ran:
    """Run twice into memory full of garbage: the second run must not depend on the first."""
    prepared = prepare(graph, fuse=fuse, quantized=quantized)
    before = {name: x.copy() for name, x in feeds.items()}
    outputs = {t.name: np.empty(t.shape, t.dtype.storage) for t in graph.outputs}
    for rubbish in (0x55, 0xFF):
        for out in outputs.values():
            out.reshape(-1).view(np.uint8).fill(rubbish % 2 if out.dtype == bool else rubbish)
        prepared.run(feeds, outputs, RunControl())
    for name, x in before.items():
        np.testing.assert_array_equal(feeds[name], x, err_msg="an input was written")
    return Ran(outputs, prepared)


def evaluate(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the stored values of all tensors, by the references of the ops."""
    return values_of(graph, feeds, REGISTRY)


def op_graph(
    op_type: str,
    inputs: Sequence[Array | None],
    *,
    static: Sequence[int] = (),
    inside: bool = False,
    specs: Sequence[Spec | None] = (),
    **params: Any,
) -> tuple[Graph, dict[str, Array]]:
    """Create a graph of one op; with `inside`, its inputs and outputs are in the arena."""
    graph, feeds = Graph("one"), {}
    tensors: list[Tensor | None] = []
    for i, x in enumerate(inputs):
        if x is None:
            tensors.append(None)
        elif i in static:
            tensors.append(graph.add_tensor(Tensor.static(f"x{i}", x)))
        else:
            dtype = DType.of(x.dtype)
            tensor = graph.add_tensor(Tensor(f"x{i}", dtype, x.shape, TensorKind.APP_WRITE))
            feeds[tensor.name] = x
            if inside and dtype is DType.FLOAT_32:
                tensor = add(graph, "ElementWiseNeg", [tensor], name=f"in{i}")
            tensors.append(tensor)
    outs = add_all(graph, op_type, tensors, name="op", specs=specs, **params)
    for i, out in enumerate(outs):
        if inside and out.dtype is DType.FLOAT_32:
            last = Tensor(f"y{i}", out.dtype, out.shape, TensorKind.APP_READ)
            add(graph, "ElementWiseNeg", [out], name=f"out{i}", outputs=last)
        else:
            out.kind = TensorKind.APP_READ
    return graph, feeds


def check_op(
    op_type: str,
    *inputs: Array | None,
    static: Sequence[int] = (),
    specs: Sequence[Spec | None] = (),
    rtol: float = 0,
    atol: float = 0,
    kernel: bool = True,
    **params: Any,
) -> dict[str, Array]:
    """Compare an op with its reference, at the application's buffers and inside the arena.

    Exactly, unless a tolerance is given; `kernel` is whether a kernel, not the reference, must run.
    """
    for inside in (False, True):
        graph, feeds = op_graph(
            op_type, inputs, static=static, inside=inside, specs=specs, **params
        )
        with np.errstate(all="ignore"):
            expected = evaluate(graph, feeds)
        ran = run_graph(graph, feeds)
        assert ("op" not in ran.by_reference) is kernel
        for name, out in ran.outputs.items():
            assert out.dtype == expected[name].dtype
            np.testing.assert_allclose(out, expected[name], rtol=rtol, atol=atol, strict=True)
    return ran.outputs


@pytest.fixture(name="check_op", scope="session")
def fixture_check_op() -> Callable[..., dict[str, Array]]:
    return check_op


@pytest.fixture(name="run_graph", scope="session")
def fixture_run_graph() -> Callable[..., Ran]:
    return run_graph


@pytest.fixture(name="prepare", scope="session")
def fixture_prepare() -> Callable[..., PlanPrepared]:
    return prepare


@pytest.fixture(name="evaluate", scope="session")
def fixture_evaluate() -> Callable[..., dict[str, Array]]:
    return evaluate


@pytest.fixture(name="op_graph", scope="session")
def fixture_op_graph() -> Callable[..., tuple[Graph, dict[str, Array]]]:
    return op_graph


@pytest.fixture(name="whole", scope="session")
def fixture_whole() -> Callable[..., Array]:
    """Return whole numbers as float32: their sums and products are exact, in whatever order."""

    def whole(seed: int, *shape: int, most: int = 4) -> Array:
        rng = np.random.default_rng(seed)
        return rng.integers(-most, most + 1, shape).astype(np.float32)

    return whole
