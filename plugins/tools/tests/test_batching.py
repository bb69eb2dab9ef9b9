"""Several lines combined into one input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.ir import DType, Tensor


@pytest.fixture
def batched(new_net: Any) -> None:
    net = new_net()
    net.save(net.node("ElementWiseNeg", net.input("x", 4, 2), name="y"))


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
def test_lines_of_one_element_are_combined(
    batched: None, run: Any, raw: Any, listing: Any, result: Any, mode: list[str]
) -> None:
    given = [raw(f"{i}.raw", [i, i + 0.5]) for i in range(6)]
    listing(*(f"{i}.raw" for i in range(6)))
    done = net_run(run, *mode)
    assert done.code == 0, done.err
    (graph,) = done.data["graphs"]
    assert (graph["inferences"], graph["results"]) == (2, 6)
    for i, x in enumerate(given):
        np.testing.assert_array_equal(result("y.raw", index=i), -x)
    assert not Path("output/Result_6").exists()  # the padding gives no results


def test_files_of_whole_batches_are_left_whole(
    batched: None, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    given = [raw(f"{i}.raw", np.arange(8.0) + i) for i in range(3)]
    listing("0.raw", "1.raw", "2.raw")
    done = net_run(run)
    assert done.data["graphs"][0]["inferences"] == 3
    for i, x in enumerate(given):
        np.testing.assert_array_equal(result("y.raw", index=i), -x)


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])  # synchronous ones share a buffer
def test_a_part_filled_batch_is_padded_with_zeros(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any, mode: list[str]
) -> None:
    net = new_net()
    x = net.input("x", 2, 2)
    out = Tensor("y", DType.FLOAT_32, (2, 2))
    flipped = net.node("Transpose", x, name="flipped", out="flipped", perm=[1, 0])
    net.save(net.node("ElementWiseNeg", flipped, name="y", out=out))
    for i in range(3):
        raw(f"{i}.raw", [i + 1.0, 10.0 * (i + 1)])
    listing("0.raw", "1.raw", "2.raw")
    assert net_run(run, *mode).code == 0
    # the transpose mixes lines, so that what stands in the missing one's place can be seen
    np.testing.assert_array_equal(result("y.raw", index=0), [-1, -2])
    np.testing.assert_array_equal(result("y.raw", index=2), [-3, 0])


def test_scalars_of_a_batch(new_net: Any, run: Any, raw: Any, listing: Any, result: Any) -> None:
    net = new_net()
    net.save(net.node("ElementWiseNeg", net.input("x", 3), name="y"))
    for i in range(3):
        raw(f"{i}.raw", [i + 1.0])
    listing("0.raw", "1.raw", "2.raw")
    assert net_run(run).code == 0
    assert [result("y.raw", index=i).tolist() for i in range(3)] == [[-1], [-2], [-3]]


def test_mixed_lists_are_refused(
    new_net: Any, run: Any, raw: Any, listing: Any, entries: Any
) -> None:
    net = new_net()
    left, right = net.input("l", 2, 2), net.input("r", 2, 2)
    net.save(net.node("ElementWiseAdd", left, right, name="y"))
    raw("one.raw", np.zeros(2))
    raw("all.raw", np.zeros(4))
    raw("odd.raw", np.zeros(3))
    listing(
        "l:=one.raw r:=one.raw",
        "l:=one.raw r:=all.raw",
        "l:=all.raw r:=all.raw",
        "l:=odd.raw r:=one.raw",
    )
    before = entries()
    done = net_run(run)
    assert done.code == 3
    problems = [(p["where"], p["message"]) for p in done.error["problems"]]
    assert [where for where, _ in problems] == ["list.txt:2", "list.txt:3", "list.txt:4"]
    assert "some files have all 2 elements of the batch, others one" in problems[0][1]
    assert "have all of the 2 elements of the batch, those of line 1 have one" in problems[1][1]
    assert "or 8 (one element of the batch), got 12" in problems[2][1]
    assert entries() == before


def test_outputs_that_cannot_be_split_are_refused(
    new_net: Any, run: Any, raw: Any, listing: Any
) -> None:
    net = new_net()
    flat = net.node("Relu", net.input("x", 2, 3), name="r")
    out = Tensor("y", DType.FLOAT_32, (6,))
    net.save(net.node("Reshape", flat, name="y", out=out))
    raw("one.raw", np.zeros(3))
    raw("all.raw", np.zeros(6))
    listing("one.raw")
    done = net_run(run)
    assert done.code == 3
    assert "output 'y' of shape (6,) cannot be split into 2 results" in done.err
    listing("all.raw")
    assert net_run(run).code == 0


def test_inputs_of_different_batches_are_not_combined(
    new_net: Any, run: Any, raw: Any, listing: Any
) -> None:
    net = new_net()
    x, bias = net.input("x", 4, 2), net.input("b", 2)
    net.save(net.node("ElementWiseAdd", x, bias, name="y"))
    raw("one.raw", np.zeros(2))
    listing("x:=one.raw b:=one.raw")
    done = net_run(run)
    assert done.code == 3
    assert "expected 32 bytes (float32 of shape (4, 2)), got 8" in done.err
    assert "one element" not in done.err
