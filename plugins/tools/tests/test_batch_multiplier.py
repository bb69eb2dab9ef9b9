"""Inputs and outputs with a multiple of the graph's batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.ir import AxisScaleOffset, DType, Tensor
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl


class Executions:
    """The shapes of the inputs of each execution."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.calls: Counter[str] = Counter()

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        if call.function in ("graph_execute", "graph_execute_async"):
            inputs: Any = call.arguments["inputs"]
            self.shapes += [array.shape for array in inputs.values()]
            self.calls[call.function] += 1


@pytest.mark.parametrize("mode", [[], ["--synchronous"], ["--timeout", 10**9]])
def test_each_execution_has_the_batch_of_the_graph(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any, mode: list[object]
) -> None:
    given = [raw(f"{i}.raw", np.arange(18.0) - i) for i in range(2)]  # three times (2, 3)
    listing("0.raw", "1.raw")
    executions = Executions()
    with hooks.registered(executions):
        done = net_run(run, "--batch-multiplier", 3, *mode)
    assert done.code == 0, done.err
    (graph,) = done.data["graphs"]
    assert (graph["inferences"], graph["results"]) == (2, 2)
    assert executions.shapes == [(2, 3)] * 6
    for i, x in enumerate(given):
        np.testing.assert_array_equal(result("y.raw", index=i), -np.maximum(x, 0))
    assert "dimensions: [6, 3]" in Path("output/execution_metadata.yaml").read_text("utf-8")


def test_lines_of_one_element_fill_all_parts(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    for i in range(5):
        raw(f"{i}.raw", [i, i + 0.5, -i])
    listing(*(f"{i}.raw" for i in range(5)))
    done = net_run(run, "--batch-multiplier", 2)  # four lines are one inference
    (graph,) = done.data["graphs"]
    assert (graph["inferences"], graph["results"]) == (2, 5)
    for i in range(5):
        np.testing.assert_array_equal(result("y.raw", index=i), [-i, -i - 0.5, 0])


def test_quantized_inputs_and_native_outputs(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    from dovetail.ir import ScaleOffset

    net, encoding = new_net(), ScaleOffset(0.5, 0)
    x = net.input("x", 1, 2, dtype=DType.UFIXED_POINT_8, encoding=encoding)
    net.save(net.node("Relu", x, name="y"))
    raw("a.raw", [0.5, 1.0, 1.5, 2.0])
    listing("a.raw")
    done = net_run(run, "--batch-multiplier", 2, "--output-data-type", "float_and_native")
    assert done.code == 0, done.err
    assert result("y.raw").tolist() == [0.5, 1.0, 1.5, 2.0]
    assert result("y_native.raw", "u1").tolist() == [1, 2, 3, 4]


def test_time_of_all_executions_is_the_time_of_an_inference(
    two_steps: str, run: Any, raw: Any, listing: Any
) -> None:
    raw("a.raw", np.zeros(24))
    listing("a.raw")
    given = ("--batch-multiplier", 4, "--num-inferences", 3, "--profiling-level", "basic")
    data = net_run(run, *given).data
    (times,) = data["profiling"]["graphs"]
    assert times["client"]["inferences"] == 3
    assert times["execute"]["count"] == 12
    total_ms = data["graphs"][0]["inference_ms"]["mean"] * 3
    assert total_ms == pytest.approx(times["execute"]["mean_us"] * 12 / 1e3)


def test_what_cannot_be_multiplied_is_refused(
    new_net: Any, run: Any, raw: Any, listing: Any, entries: Any
) -> None:
    net = new_net()
    rows = AxisScaleOffset(0, np.array([0.5, 0.25], "f4"), None)
    x = net.input("x", 2, 3, dtype=DType.SFIXED_POINT_8, encoding=rows)
    scalar = net.input("s")
    y = net.node("ElementWiseNeg", scalar, name="y", out=Tensor("y", DType.FLOAT_32, ()))
    net.save(net.node("Relu", x, name="z"), y)
    raw("x.raw", np.zeros(12))
    raw("s.raw", [0.0])
    listing("x:=x.raw s:=s.raw")
    before = entries()
    done = net_run(run, "--batch-multiplier", 2)
    assert done.code == 3
    problems = [(p["where"], p["message"]) for p in done.error["problems"]]
    assert [where for where, _ in problems[:4]] == ["--batch-multiplier 2"] * 4
    texts = [text.partition(" cannot be multiplied: ") for _, text in problems[:4]]
    assert [text[0].rpartition(" ")[2] for text in texts] == ["'x'", "'s'", "'y'", "'z'"]
    assert "expected scales of shape (4,) for axis 0, got (2,)" in texts[0][2]
    assert texts[1][2] == "a scalar has no axis"
    assert entries() == before
