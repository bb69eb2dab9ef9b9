"""Partition and moves on random data flows: convex parts, in an order, as few as promised."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dovetail.runtime.placement.flow import Flow, Link, ordered, seam_bytes
from dovetail.runtime.placement.moves import MOST, moved
from dovetail.runtime.placement.partition import partition


@st.composite
def flows(draw: Any) -> tuple[Flow, list[int]]:
    """A flow of up to 12 nodes, and the owner of each."""
    count = draw(st.integers(1, 12))
    links = []
    for writer in range(count - 1):
        readers = draw(st.sets(st.integers(writer + 1, count - 1), max_size=3))
        if readers:
            links.append(Link(writer, tuple(sorted(readers)), draw(st.integers(1, 9))))
    owner = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return Flow(count, tuple(links)), owner


def reachable(flow: Flow) -> list[set[int]]:
    """Return for each node all nodes that depend on it."""
    found: list[set[int]] = [set() for _ in range(flow.count)]
    for i in reversed(range(flow.count)):
        for j in flow.after[i]:
            found[i] |= {j} | found[j]
    return found


def assert_sound(flow: Flow, owner: list[int], part: list[int]) -> None:
    """Each part has one owner, is convex, and reads only from parts before it and itself."""
    assert len(part) == flow.count
    assert sorted(set(part)) == list(range(max(part) + 1))
    for p in set(part):
        assert len({owner[i] for i in range(flow.count) if part[i] == p}) == 1
    for i, after in enumerate(reachable(flow)):
        for j in after:
            assert part[i] <= part[j]
            if part[i] == part[j]:
                between = after & {k for k in range(flow.count) if j in reachable(flow)[k]}
                assert all(part[k] == part[i] for k in between)


@given(flows())
def test_parts_are_convex_and_in_order(case: tuple[Flow, list[int]]) -> None:
    flow, owner = case
    part = partition(flow, owner)
    assert_sound(flow, owner, part)


@given(flows())
def test_no_two_parts_could_be_one(case: tuple[Flow, list[int]]) -> None:
    flow, owner = case
    part = partition(flow, owner)
    owner_of = dict(zip(part, owner, strict=True))
    for p, q in combinations(sorted(set(part)), 2):
        if owner_of[p] == owner_of[q]:
            assert ordered(flow, [p if each == q else each for each in part]) is None


@given(flows())
def test_one_owner_is_one_part(case: tuple[Flow, list[int]]) -> None:
    flow, _ = case
    assert partition(flow, [0] * flow.count) == [0] * flow.count


@given(flows(), st.data())
def test_moves_save_bytes_and_add_no_part(case: tuple[Flow, list[int]], data: Any) -> None:
    flow, owner = case
    part = partition(flow, owner)
    more = st.lists(st.sets(st.integers(0, 2)), min_size=flow.count, max_size=flow.count)
    allowed = [also | {own} for also, own in zip(data.draw(more), owner, strict=True)]
    later, better = moved(flow, owner, part, lambda node, backend: backend in allowed[node])
    assert_sound(flow, later, better)
    assert all(own in each for own, each in zip(later, allowed, strict=True))
    assert max(better) <= max(part)
    saved = seam_bytes(flow.links, part) - seam_bytes(flow.links, better)
    assert saved > 0 or later == owner


def test_a_chain_alternates() -> None:
    flow = Flow(5, tuple(Link(i, (i + 1,)) for i in range(4)))
    assert partition(flow, [0, 0, 1, 1, 0]) == [0, 0, 1, 1, 2]


def test_independent_branches_join_one_part() -> None:
    # 0 and 3 do not depend on each other, 1 and 4 neither: two parts, not four
    flow = Flow(6, (Link(0, (1,)), Link(3, (4,)), Link(1, (5,)), Link(4, (5,))))
    part = partition(flow, [0, 1, 1, 0, 1, 1])
    assert part == [0, 1, 1, 0, 1, 1]


def test_a_detour_over_another_backend_splits_a_part() -> None:
    # 0 -> 1 -> 2 and 0 -> 2: with 1 elsewhere, 0 and 2 cannot run together
    flow = Flow(3, (Link(0, (1, 2)), Link(1, (2,))))
    assert partition(flow, [0, 1, 0]) == [0, 1, 2]


def test_nodes_move_to_where_less_passes() -> None:
    # a large tensor passes from 1 to 2, a small one from 0 to 1: 1 moves to the owner of 2
    flow = Flow(3, (Link(0, (1,), 10), Link(1, (2,), 1000)))
    owner = [0, 0, 1]
    part = partition(flow, owner)
    assert moved(flow, owner, part, lambda node, _: node == 1) == ([0, 1, 1], [0, 1, 1])
    assert moved(flow, owner, part, lambda node, backend: backend == owner[node])[0] == owner


def test_nodes_move_together_if_one_alone_saves_nothing() -> None:
    flow = Flow(4, (Link(0, (1,), 10), Link(1, (2,), 99), Link(2, (3,), 99)))
    owner = [0, 0, 0, 1]
    found, _ = moved(flow, owner, partition(flow, owner), lambda node, _: node in (1, 2))
    assert found == [0, 1, 1, 1]


def test_a_part_is_not_carried_away() -> None:
    count = MOST + 2
    flow = Flow(count, tuple(Link(i, (i + 1,), 100 - i) for i in range(count - 1)))
    owner = [0, *[1] * MOST, 0]
    found, _ = moved(flow, owner, partition(flow, owner), lambda node, _: 0 < node < count - 1)
    assert found == [0] * count
    more = [0, *[1] * (MOST + 1), 0]
    longer = Flow(count + 1, tuple(Link(i, (i + 1,), 100 - i) for i in range(count)))
    found, _ = moved(longer, more, partition(longer, more), lambda node, _: 0 < node < count)
    assert 1 in found


def test_a_detour_that_vanishes_joins_the_parts() -> None:
    flow = Flow(3, (Link(0, (1,), 10), Link(1, (2,), 10)))
    owner = [0, 1, 0]
    found = moved(flow, owner, partition(flow, owner), lambda node, _: node == 1)
    assert found == ([0, 0, 0], [0, 0, 0])


def test_no_nodes_are_no_parts() -> None:
    assert partition(Flow(0, ()), []) == []
