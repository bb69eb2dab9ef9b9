"""The engines: their choice and agreement."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail import testing
from dovetail.errors import ConfigError, PluginError
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.ops import EVERYTHING, OpRegistry
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared
from dovetail.typed import convert
from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice, MemoryPlan
from dovetail_onednn import Computing, Kind, Library, Precision, checked_library, choice
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, add_all, static

OPS = OpRegistry.of(PACKAGE)
NUMPY_ALONE = """
import os, platform, sys
sys.path.insert(0, os.environ["TESTS"])
if "HIDDEN" in os.environ:
    platform.system, platform.machine = lambda: "Plan9", lambda: "riscv64"
    from dovetail_onednn import _library
    _library.candidates = lambda: iter(["libno-such.so.3"])
import numpy as np
from test_engine import CpuOptions, EngineChoice, CpuBackend, OPS, network, run
print(*CpuBackend(OPS, CpuOptions()).platform().notes, sep="\\n")
graph, feeds = network()
auto, modules = run(graph, feeds, EngineChoice.AUTO)
assert not any(m.startswith("dovetail_onednn") for m in modules), modules
assert np.array_equal(auto, run(graph, feeds, EngineChoice.NUMPY)[0])
print("same")
"""
ONEDNN = "dovetail_onednn."


@pytest.fixture
def no_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise PluginError("oneDNN is not installed", code="PLUGIN_MISSING", hint="install it")

    monkeypatch.setattr(choice, "checked_library", missing)


def network(*, adds_up: bool = False) -> tuple[Graph, dict[str, Array]]:
    """A convolution, a depthwise one, a residual sum and a pooling; sums along rows for Relu."""
    rng = np.random.default_rng(3)
    graph = Graph("net")
    x = _input(graph, "x", (1, 12, 10, 8))
    w = static(graph, "w", rng.standard_normal((3, 3, 8, 16), np.float32))
    feeds = {"x": rng.standard_normal(x.shape, np.float32)}
    window = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    y = add(graph, "Conv2d", [x, w], name="conv", **window)
    relu = (
        add(graph, "CumulativeSum", [y], name="sums", axis=2)
        if adds_up
        else add(graph, "Relu", [y], name="relu")
    )
    deep = static(graph, "deep.w", rng.standard_normal((3, 3, 1, 16), np.float32))
    z = add(graph, "DepthWiseConv2d", [relu, deep], name="deep", **window)
    total = add(graph, "ElementWiseAdd", [z, relu], name="sum")
    out = add(
        graph,
        "PoolMax2d",
        [total],
        name="pool",
        filter_size=(2, 2),
        stride=(2, 2),
        pad_amount=((0, 0), (0, 0)),
    )
    out.kind = TensorKind.APP_READ
    return graph, feeds


def run(
    graph: Graph, feeds: dict[str, Array], choice: EngineChoice, **others: Any
) -> tuple[Array, list[str]]:
    """Return the result, and the module of each step's function."""
    options = CpuOptions(engine=choice, **others)
    prepared: Any = testing.prepare(CpuBackend(OPS, options), graph, OPS)
    assert isinstance(prepared, PlanPrepared)
    out = {t.name: np.empty(t.shape, np.float32) for t in graph.outputs}
    prepared.run(feeds, out, RunControl())
    modules = [getattr(s.bind, "func", s.bind).__module__ for s in prepared.steps]
    return out["pool"], modules


@pytest.mark.usefixtures("onednn")
def test_engines_agree_and_auto_is_onednn() -> None:
    graph, feeds = network()
    numpy, by_numpy = run(graph, feeds, EngineChoice.NUMPY)
    onednn, by_onednn = run(graph, feeds, EngineChoice.ONEDNN)
    assert not any(m.startswith(ONEDNN) for m in by_numpy)
    assert any(m == f"{ONEDNN}execution" for m in by_onednn)
    # sums of 72 and 9 products in another order
    np.testing.assert_allclose(onednn, numpy, rtol=1e-5, atol=1e-5)
    auto, by_auto = run(graph, feeds, EngineChoice.AUTO)
    assert by_auto == by_onednn
    np.testing.assert_array_equal(auto, onednn)


@pytest.mark.usefixtures("onednn")
def test_what_onednn_declines_numpy_takes() -> None:
    graph, feeds = network(adds_up=True)
    numpy, _ = run(graph, feeds, EngineChoice.NUMPY)
    mixed, modules = run(graph, feeds, EngineChoice.ONEDNN)
    assert "dovetail_numpy.kernels.reduction" in modules
    assert "dovetail.runtime.plan.reference" not in modules
    np.testing.assert_allclose(mixed, numpy, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("no_onednn")
def test_without_onednn() -> None:
    graph, feeds = network()
    _, modules = run(graph, feeds, EngineChoice.AUTO)
    assert not any(m.startswith(ONEDNN) for m in modules)
    with pytest.raises(PluginError, match="not installed"):
        run(graph, feeds, EngineChoice.ONEDNN)
    first, *_ = CpuBackend(OPS, CpuOptions()).platform().notes
    assert first == "engine numpy: oneDNN is not installed"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        # the processor's own limit, as oneDNN sees it
        ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, "is used from AVX2 on, and this processor has SSE4.1"),
        ({"HIDDEN": "1"}, "is not packaged for Plan9 on riscv64"),
    ],
)
def test_numpy_computes_where_onednn_does_not_run(variables: dict[str, str], reason: str) -> None:
    """In a process of its own: oneDNN is loaded once in a process."""
    if "HIDDEN" not in variables and platform.machine() != "x86_64":
        pytest.skip("oneDNN is packaged for x86-64")
    done = subprocess.run(
        [sys.executable, "-c", NUMPY_ALONE],
        env={**os.environ, **variables, "TESTS": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert first.startswith(f"engine numpy: oneDNN {reason}")
    assert last == "same"


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize(("size", "threads"), [(8, 1), (40, 3)])
def test_a_small_network_runs_in_one_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, threads: int
) -> None:
    """Whatever the user allows; a larger one in as many as that."""
    counts: list[int | None] = []

    def computing(count: int | None) -> Computing:
        counts.append(count)
        return Computing(count)

    monkeypatch.setattr(choice, "Computing", computing)
    graph = Graph("net")
    y = _input(graph, "x", (1, size, size, 32))
    w = static(graph, "w", np.ones((3, 3, 32, 32), np.float32))
    out = add(graph, "Conv2d", [y, w], name="conv", stride=(1, 1), pad_amount=((1, 1), (1, 1)))
    out.kind = TensorKind.APP_READ
    options = CpuOptions(engine=EngineChoice.ONEDNN, num_threads=3)
    testing.prepare(CpuBackend(OPS, options), graph, OPS)
    assert counts == [threads]


@pytest.mark.usefixtures("onednn")
def test_wrong_convolutions_are_left_to_numpy_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(kinds: Iterable[Kind] = Kind) -> Library:
        if Kind.CONVOLUTION in kinds:
            raise PluginError("a convolution: wrong results")
        return checked_library(kinds)

    for module in ("dovetail_onednn.choice", "dovetail_onednn.known_answer"):
        monkeypatch.setattr(f"{module}.checked_library", checked)
    graph, feeds = network()
    numpy, _ = run(graph, feeds, EngineChoice.NUMPY)
    mixed, modules = run(graph, feeds, EngineChoice.AUTO)
    assert "dovetail_numpy.kernels.convolution" in modules
    assert f"{ONEDNN}maximum" in modules
    np.testing.assert_allclose(mixed, numpy, rtol=1e-5, atol=1e-5)  # as above
    with pytest.raises(PluginError, match="wrong results"):
        run(graph, feeds, EngineChoice.ONEDNN)
    first, *_ = CpuBackend(OPS, CpuOptions()).platform().notes
    assert re.fullmatch(
        "engine onednn .*, but numpy for some kernels: a convolution: wrong results", first
    )


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("memory", MemoryPlan)
def test_parts_of_a_result_are_read_where_they_lie(memory: MemoryPlan) -> None:
    rng = np.random.default_rng(4)
    graph = Graph("parts")
    w, v = (static(graph, n, rng.standard_normal((16, 16), np.float32)) for n in "wv")
    y = add(graph, "MatMul", [_input(graph, "x", (6, 16)), w], name="first")
    parts = add_all(graph, "Split", [y], name="parts", axis=0, split_index=[1, 3])
    row = add(graph, "StridedSlice", [parts[2]], name="row", ranges=[[1, 3, 1], [0, 16, 1]])
    for name, part in (("one", parts[1]), ("two", row)):
        add(graph, "MatMul", [part, v], name=name).kind = TensorKind.APP_READ
    options = CpuOptions(engine=EngineChoice.ONEDNN, memory=memory)
    prepared = testing.prepare(CpuBackend(OPS, options), graph, OPS)
    x = rng.standard_normal((6, 16), np.float32)
    found = {t.name: np.empty(t.shape, np.float32) for t in graph.outputs}
    prepared.run({"x": x}, found, RunControl())
    product = x @ w.values() @ v.values()
    # sums of 16 products, of a few units, in another order
    np.testing.assert_allclose(found["one"], product[1:3], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["two"], product[4:6], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("onednn")
def test_a_lower_precision_rounds_and_no_further() -> None:
    graph, feeds = network()
    exact, _ = run(graph, feeds, EngineChoice.ONEDNN)
    rounded, _ = run(graph, feeds, EngineChoice.ONEDNN, precision=Precision.BF16)
    # 8 bits in each factor and result; without instructions for it nothing is rounded at all
    assert np.abs(rounded - exact).max() < 2**-7 * np.abs(exact).max()
    has_bf16 = checked_library().instruction_set & 0xE7 == 0xE7
    assert np.array_equal(rounded, exact) is not has_bf16
    again, _ = run(graph, feeds, EngineChoice.ONEDNN)
    np.testing.assert_array_equal(again, exact)


def test_a_plain_memory_keeps_every_tensor() -> None:
    graph, feeds = network()
    exact, _ = run(graph, feeds, EngineChoice.NUMPY)
    plain, _ = run(graph, feeds, EngineChoice.NUMPY, memory=MemoryPlan.PLAIN)
    np.testing.assert_array_equal(plain, exact)
    sizes = {}
    for memory in MemoryPlan:
        options = CpuOptions(engine=EngineChoice.NUMPY, memory=memory)
        prepared: Any = testing.prepare(CpuBackend(OPS, options), graph, OPS, observed=EVERYTHING)
        sizes[memory] = prepared.arena.nbytes
    tensors = [t.spec.nbytes for node in graph.nodes for t in node.outputs if not t.kind.is_output]
    # the rest is scratchpads, which are not shared either
    assert sizes[MemoryPlan.PLAIN] - sizes[MemoryPlan.ARENA] >= sum(tensors[:-1])
    assert sizes[MemoryPlan.PLAIN] >= sum(tensors)


def test_engine_in_a_config() -> None:
    assert convert({"engine": "numpy"}, CpuOptions, where="cpu").engine is EngineChoice.NUMPY
    with pytest.raises(ConfigError, match="engine"):
        convert({"engine": "blas"}, CpuOptions, where="cpu")


def _input(graph: Graph, name: str, shape: tuple[int, ...]) -> Tensor:
    return graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE))
