"""Helpers for tests of the backend `gpu`: one graph on several backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from opencl_driver import require_opencl
from small_nets import model_of

import dovetail as dt
from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail.runtime.plan import PlanPrepared
from dovetail.testing import prepare
from dovetail_gpu import GpuBackend, GpuOptions
from dovetail_gpu.kernels import _rows
from dovetail_opset import PACKAGE
from dovetail_opset.build import add_all
from dovetail_opset.build import static as constant

Run = Callable[..., dict[str, Array]]


def run_on(backend: str, graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the results of a graph on a backend, as stored values."""
    model = model_of(graph)
    with dt.Session(model, backend=backend) as session:
        return dict(session.run(dict(feeds), native=True))


@pytest.fixture(scope="session", autouse=True)
def opencl_device() -> str:
    """Skip all tests, with the reason, if there is no device."""
    return require_opencl()


@pytest.fixture(scope="session")
def same_as_cpu() -> Callable[..., None]:
    """Return a function that runs a graph on `gpu` and `cpu`, and compares."""

    def compare(graph: Graph, feeds: Mapping[str, Array], rtol: float = 1e-4) -> None:
        found, wanted = (run_on(backend, graph, feeds) for backend in ("gpu", "cpu"))
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            assert found[name].dtype == array.dtype
            if array.dtype.kind == "f":
                scale = np.abs(array[np.isfinite(array)]).max(initial=1e-6)
                np.testing.assert_allclose(found[name], array, rtol, rtol * float(scale))
            else:
                np.testing.assert_array_equal(found[name], array)

    return compare


@pytest.fixture(scope="session")
def check_op(same_as_cpu: Callable[..., None]) -> Callable[..., None]:
    """Return a function that runs one node on `gpu` and `cpu`, and compares.

    With `lanes`, as many work items share a row on a processor, as they do on GPUs.
    """

    def check(
        op_type: str,
        *inputs: Array | None,
        is_half: bool = False,
        lanes: int = 1,
        static: Sequence[int] = (),
        specs: Sequence[Spec | None] = (None,),
        rtol: float | None = None,
        **params: Any,
    ) -> None:
        graph, feeds, tensors = Graph("net"), {}, []
        for i, given in enumerate(inputs):
            if given is None:
                tensors.append(None)
                continue
            is_real = given.dtype.kind == "f"
            array = given.astype(np.float16 if is_half and is_real else given.dtype)
            if i in static:
                tensors.append(constant(graph, f"x{i}", array))
                continue
            tensor = Tensor(f"x{i}", DType.of(array.dtype), array.shape, TensorKind.APP_WRITE)
            tensors.append(graph.add_tensor(tensor))
            feeds[f"x{i}"] = array
        for result in add_all(graph, op_type, tensors, name="node", specs=specs, **params):
            result.kind = TensorKind.APP_READ
        with mock.patch.dict(_rows.LANES, {True: lanes}):
            same_as_cpu(graph, feeds, rtol or (2e-2 if is_half else 1e-4))

    return check


@pytest.fixture(scope="session")
def run() -> Run:
    """Return a function that runs a graph on `gpu`."""
    return lambda graph, feeds: run_on("gpu", graph, feeds)


@pytest.fixture(scope="session")
def steps_of() -> Callable[[Graph], list[tuple[str, ...]]]:
    """Return a function that prepares a graph, and returns the nodes of each step on the device."""
    registry = OpRegistry.of(PACKAGE)
    backend = GpuBackend(registry, GpuOptions())

    def steps(graph: Graph) -> list[tuple[str, ...]]:
        prepared = prepare(backend, graph, registry)
        assert isinstance(prepared, PlanPrepared)
        return [step.nodes for step in prepared.steps if step.nodes]

    return steps
