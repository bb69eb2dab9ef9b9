"""Buffers of net-run that are registered with the backend."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from commands import net_run

from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime import Memory
from dovetail_cpu import CpuBackend


class Buffers:
    """The calls on memory, and the kinds of buffers of executions."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.kinds: set[type] = set()

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        if call.function.startswith("memory_"):
            self.calls[call.function] += 1
        if call.function in ("graph_execute", "graph_execute_async"):
            for name in ("inputs", "outputs"):
                buffers: Any = call.arguments[name]
                self.kinds |= {type(buffer) for buffer in buffers.values()}


@pytest.fixture
def three(two_steps: str, raw: Any, listing: Any) -> list[Any]:
    given = [raw(f"{i}.raw", np.arange(12.0) - i) for i in range(3)]
    listing("0.raw", "1.raw", "2.raw")
    return given


@pytest.mark.parametrize(
    ("options", "registered"),
    [
        (["--synchronous"], 2 * 2),  # input and output of each part
        (["--synchronous", "--max-input-cache-tensor-sets", -1], (3 + 1) * 2),
        (["--synchronous", "--max-input-cache-tensor-sets", 1], (1 + 1 + 1) * 2),
        ([], 2 * 2 * 2),  # two sets of buffers
    ],
)
def test_buffers_are_registered_once(
    three: list[Any], run: Any, result: Any, options: list[object], registered: int
) -> None:
    buffers = Buffers()
    given = ("--shared-buffer", "--batch-multiplier", 2, "--num-inferences", 9)
    with hooks.registered(buffers):
        done = net_run(run, *given, *options)
    assert done.code == 0, done.err
    assert buffers.kinds == {Memory}
    assert buffers.calls == {"memory_register": registered, "memory_deregister": registered}
    for i, x in enumerate(three):
        np.testing.assert_array_equal(result("y.raw", index=i), -np.maximum(x, 0))


def test_without_the_option_nothing_is_registered(three: list[Any], run: Any) -> None:
    buffers = Buffers()
    with hooks.registered(buffers):
        assert net_run(run, "--batch-multiplier", 2).code == 0
    assert buffers.kinds == {np.ndarray}
    assert not buffers.calls


def test_the_type_of_handles_has_no_effect_here(three: list[Any], run: Any) -> None:
    given = ("--batch-multiplier", 2, "--shared-buffer", "--io-tensor-mem-handle-type", "dma_buf")
    done = net_run(run, *given)
    assert done.code == 0
    assert done.err.count("--io-tensor-mem-handle-type dma_buf has no effect") == 1


def test_a_backend_without_memory_handles(
    three: list[Any], run: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities = CpuBackend.capabilities
    monkeypatch.setattr(
        CpuBackend,
        "capabilities",
        lambda self: msgspec.structs.replace(capabilities(self), memory_handles=False),
    )
    before = entries()
    done = net_run(run, "--shared-buffer")
    assert (done.code, done.error["code"]) == (7, "MEM_ERROR_NOT_SUPPORTED")
    assert entries() == before
