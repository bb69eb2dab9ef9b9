"""The arena: values that live at once never share bytes, those that do not live at once do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import DType, Spec
from dovetail.runtime.plan import Arena, Step, Storage, Value, plan_arena
from dovetail.runtime.plan.arena import ALIGNMENT, ArenaBuffers


def value(name: str, nbytes: int, alias_of: Value | None = None, offset: int = 0) -> Value:
    spec = Spec(DType.UINT_8, (nbytes,))
    return Value(name, spec, Storage.ARENA, alias_of=alias_of, offset=offset)


def step(reads, writes, scratch=(), in_place=()) -> Step:
    return Step(("n",), tuple(reads), tuple(writes), lambda b: print, tuple(scratch), in_place)


@st.composite
def programs(draw) -> list[Step]:
    """Step that read what earlier ones wrote; sizes, views, scratchpads and in-place at random."""
    sizes = st.sampled_from([0, 1, 64, 65, 200])
    made = [value("v0", draw(sizes))]
    steps = [step([], made)]
    for i in range(1, draw(st.integers(2, 12))):
        reads = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
        if draw(st.integers(0, 4)) == 0:
            offset = draw(st.integers(0, reads[0].nbytes))
            nbytes = draw(st.integers(0, reads[0].nbytes - offset))
            out = value(f"v{i}", nbytes, alias_of=reads[0], offset=offset)
            steps.append(step(reads[:1], [out]))
        else:
            same = draw(st.booleans())
            out = value(f"v{i}", reads[0].nbytes if same else draw(sizes))
            scratch = [value("s", draw(sizes)) for _ in range(draw(st.integers(0, 2)))]
            pairs = [(0, j) for j in range(len(reads))] if draw(st.booleans()) else []
            steps.append(step(reads, [out], scratch, tuple(pairs)))
        made.append(out)
    return steps


def execute(steps: list[Step], arena: Arena) -> None:
    """Run over memory that holds, for each byte, who wrote it last."""
    memory = np.full(arena.nbytes, -1)
    tokens: dict[Value, int] = {}

    def place(v: Value):
        root, offset = v.root_and_offset
        start = arena.offsets[root] + offset
        return memory[start : start + v.nbytes]

    for i, current in enumerate(steps):
        views = [w for w in current.writes if any(w.alias_of is r for r in current.reads)]
        views = [w for w in views if not current.in_place]  # of these nothing is written
        for j, pad in enumerate(current.scratch):
            place(pad)[:] = 1000 + j
        for read in current.reads:
            assert (place(read) == tokens[read]).all(), "a value was overwritten before its use"
        for written in current.writes:
            if written in views:
                tokens[written] = tokens[current.reads[0]]
            else:
                tokens[written] = i
                place(written)[:] = i
        for j, pad in enumerate(current.scratch):
            assert (place(pad) == 1000 + j).all(), "a result lies in a scratchpad"
        shared = {w.root for w in current.writes}
        for read in current.reads:
            if read.root not in shared:
                assert (place(read) == tokens[read]).all(), "a result lies in an operand"


@given(programs())
def test_what_is_read_is_what_was_written(steps):
    arena = plan_arena(steps)
    execute(steps, arena)
    assert all(offset % ALIGNMENT == 0 for offset in arena.offsets.values())
    block = arena.allocate()
    assert block.nbytes == arena.nbytes
    assert block.ctypes.data % ALIGNMENT == 0


def test_a_chain_needs_two_places():
    values = [value(f"v{i}", 640) for i in range(20)]
    steps = [step([], values[:1])]
    steps += [step([a], [b]) for a, b in itertools.pairwise(values)]
    assert plan_arena(steps).nbytes == 2 * 640


def test_a_chain_in_place_needs_one():
    values = [value(f"v{i}", 640) for i in range(20)]
    steps = [step([], values[:1])]
    steps += [step([a], [b], (), ((0, 0),)) for a, b in itertools.pairwise(values)]
    assert plan_arena(steps).nbytes == 640
    assert {v.root for v in values} == {values[0]}


def test_what_is_read_later_is_not_overwritten():
    a, b, c = value("a", 64), value("b", 64), value("c", 64)
    plan_arena([step([], [a]), step([a], [b], (), ((0, 0),)), step([a, b], [c])])
    assert b.root is b


def test_an_operand_read_twice_is_not_overwritten():
    a, b = value("a", 64), value("b", 64)
    plan_arena([step([], [a]), step([a, a], [b], (), ((0, 0),))])
    assert b.root is b


def test_another_size_is_not_in_place():
    a, b = value("a", 64), value("b", 32)
    plan_arena([step([], [a]), step([a], [b], (), ((0, 0),))])
    assert b.root is b


def test_a_view_keeps_its_bytes_alive():
    a, other = value("a", 64), value("other", 64)
    view = value("view", 64, alias_of=a)
    last = value("last", 64)
    steps = [step([], [a]), step([a], [view]), step([], [other]), step([view, other], [last])]
    offsets = plan_arena(steps).offsets
    assert offsets[a] != offsets[other]


def test_a_part_is_not_overwritten_by_what_is_as_large_as_the_whole():
    """As a function of two tensors might, whose operand is one row of many."""
    whole, other = value("whole", 128), value("other", 128)
    part = value("part", 64, alias_of=whole, offset=64)
    result = value("result", 128)
    steps = [step([], [whole]), step([whole], [part]), step([], [other])]
    plan_arena([*steps, step([part, other], [result], (), ((0, 0),))])
    assert result.root is result


@pytest.mark.parametrize("storage", Storage)
def test_views_begin_where_they_say(storage):
    content = np.arange(64, dtype=np.float32)
    whole = Value("whole", Spec(DType.FLOAT_32, (8, 8)), storage)
    whole.array = content.reshape(8, 8) if storage is Storage.CONSTANT else None
    rows = Value("rows", Spec(DType.FLOAT_32, (4, 8)), storage, alias_of=whole, offset=96)
    part = Value("part", Spec(DType.FLOAT_32, (2, 3)), storage, alias_of=rows, offset=20)
    first = value("first", 640)
    buffers = ArenaBuffers(plan_arena([step([], [first]), step([], [whole]), step([first], [])]))
    if storage in (Storage.INPUT, Storage.OUTPUT):
        buffers.application[whole] = np.empty((8, 8), np.float32)
    np.copyto(buffers.array(whole), content.reshape(8, 8))
    np.testing.assert_array_equal(buffers.array(rows).ravel(), content[24:56])
    np.testing.assert_array_equal(buffers.array(part), content[29:35].reshape(2, 3))
    start = buffers.address(whole)
    assert start == buffers.array(whole).ctypes.data
    assert (buffers.address(rows) - start, buffers.address(part) - start) == (96, 116)


@pytest.mark.parametrize("array", [np.empty(3), np.empty((0, 4))])
@pytest.mark.parametrize("writeable", [True, False])
def test_addresses_of_any_array_of_the_application(array, writeable):
    x = Value("x", Spec(DType.FLOAT_64, array.shape), Storage.INPUT)
    array.flags.writeable = writeable
    buffers = ArenaBuffers(plan_arena([]))
    buffers.application[x] = array
    assert buffers.address(x) == array.ctypes.data


def test_scratchpads_of_different_steps_share_their_bytes():
    values = [value(f"v{i}", 64) for i in range(5)]
    steps = [step([], values[:1])]
    for a, b in itertools.pairwise(values):
        steps.append(step([a], [b], [value("s", 6400)]))
    assert plan_arena(steps).nbytes == 6400 + 2 * 64


def test_no_steps_no_bytes():
    assert plan_arena([]) == Arena({})
