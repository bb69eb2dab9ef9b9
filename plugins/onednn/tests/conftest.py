"""Fixtures: graphs, plans on oneDNN, and the results of the ops' references."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from reference_values import values_of

from dovetail.container import WeightStore
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.ops import EVERYTHING, NOTHING, CheckedGraph, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, Step, build_plan
from dovetail_onednn import convolution, onednn_kernels, reorder
from dovetail_onednn.convolution import arrangements
from dovetail_onednn.threads import threads
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

OPS = OpRegistry.of(PACKAGE)


@pytest.fixture(autouse=True, scope="session")
def packaged_platform() -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("the oneDNN library is packaged for Linux x86-64 only")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Use two threads, whatever number the environment or the machine allows."""
    with threads(2):
        yield


@dataclass
class Model:
    """A graph under construction, with random data."""

    graph: Graph = field(default_factory=lambda: Graph("net"))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def input(self, name: str, *shape: int) -> Tensor:
        tensor = Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE)
        return self.graph.add_tensor(tensor)

    def conv(
        self,
        x: Tensor,
        name: str,
        channels: int,
        *,
        size: int = 3,
        group: int = 1,
        bias: bool = True,
        **params: Any,
    ) -> Tensor:
        """Add a convolution, by default 3x3 with a padding of 1, which keeps the spatial sizes."""
        taken = x.shape[3] // group
        inputs = [x, self.random(f"{name}.w", size, size, taken, channels)]
        inputs += [self.random(f"{name}.b", channels)] if bias else []
        given = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1)), "group": group} | params
        return add(self.graph, "Conv2d", inputs, name=name, **given)

    def random(self, name: str, *shape: int) -> Tensor:
        values = self.rng.standard_normal(shape, np.float32)
        return static(self.graph, name, values)

    def static(self, name: str, values: Any) -> Tensor:
        return static(self.graph, name, np.asarray(values, np.float32))

    def add(self, op_type: str, *inputs: Tensor, name: str, **params: Any) -> Tensor:
        return add(self.graph, op_type, inputs, name=name, **params)

    def output(self, tensor: Tensor) -> None:
        """Let the application read a tensor."""
        tensor.kind = TensorKind.APP_READ

    def feeds(self) -> dict[str, Array]:
        return {t.name: self.rng.standard_normal(t.shape, np.float32) for t in self.graph.inputs}

    def buffers(self) -> dict[str, Array]:
        return {t.name: np.full(t.shape, np.nan, np.float32) for t in self.graph.outputs}

    def checked(self, *, fuse: bool = True) -> CheckedGraph:
        return check_ops(self.graph, OPS, NOTHING if fuse else EVERYTHING)

    def prepare(self, weights: WeightStore | None = None, *, fuse: bool = True) -> PlanPrepared:
        kernels = onednn_kernels("test")
        store = WeightStore() if weights is None else weights
        plan = build_plan(self.checked(fuse=fuse), kernels, store, None, reorder=reorder)
        return PlanPrepared(plan)

    def run(self, prepared: PlanPrepared, feeds: Mapping[str, Array]) -> dict[str, Array]:
        outputs = self.buffers()
        prepared.run(feeds, outputs, RunControl())
        return outputs

    def expected(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return all tensors' values by the ops' references."""
        return values_of(self.graph, feeds, OPS)


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library choose blocks of channels, as it does where it has no dense code."""

    def choices(geometry: Any, layout: object) -> list[Any]:
        return arrangements(geometry, layout)[1:]

    monkeypatch.setattr(convolution, "arrangements", choices)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture(name="new_model", scope="session")
def fixture_new_model() -> type[Model]:
    return Model


def close(found: Array, wanted: Array) -> None:
    """Compare float32 sums in another order.

    1e-5 of the largest magnitude is some 80 rounding errors (ulp); sums of up to 600 products
    differ by a few.
    """
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * float(np.abs(wanted).max()))


@pytest.fixture(name="close", scope="session")
def fixture_close() -> Any:
    return close


def agrees(model: Model, result: Tensor, *, engine: str | None = None) -> None:
    """Check a model's only result against the ops' references.

    Args:
        model: Without outputs yet.
        result: Tensor that becomes its output.
        engine: The nodes of the only step; None for any steps.
    """
    model.output(result)
    prepared, feeds = model.prepare(), model.feeds()
    if engine is not None:
        assert kinds(prepared.steps) == [f"engine {engine}"]
    close(model.run(prepared, feeds)[result.name], model.expected(feeds)[result.name])


@pytest.fixture(name="agrees", scope="session")
def fixture_agrees() -> Any:
    return agrees


def kinds(steps: Sequence[Step]) -> list[str]:
    """Return the kind of each step: 'reorder', 'engine NODES' or 'reference NODES'."""
    return [_kind(step) for step in steps]


def _kind(step: Step) -> str:
    if not step.nodes:
        return "reorder"
    function = getattr(step.bind, "func", step.bind)
    is_ours = function.__module__.startswith("dovetail_onednn")
    return f"{'engine' if is_ours else 'reference'} {'+'.join(step.nodes)}"


@pytest.fixture(name="kinds", scope="session")
def fixture_kinds() -> Any:
    return kinds
