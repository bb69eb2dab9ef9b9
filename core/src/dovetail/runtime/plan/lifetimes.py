"""The check of a restored plan: its steps use memory as a plan that is built does.

Kernels trust their plan: they write wherever a value is. A plan that a file describes may give two
values the same bytes, or write a constant that other graphs read.
"""

from __future__ import annotations

from bisect import bisect_left

from dovetail.runtime.plan.arena import Arena, lives_of
from dovetail.runtime.plan.binds import View
from dovetail.runtime.plan.builder import Plan
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.values import Storage, Value


def check_memory(plan: Plan, arena: Arena) -> None:
    """Check that the steps of a plan use memory that they may use.

    Raises:
        RecipeError: A step reads what nothing has written, or writes what it must not; an output is
            never written; values that are needed at the same time share bytes.
    """
    inputs = set(plan.inputs.values())
    outputs = set(plan.outputs.values())
    written = set(inputs)
    for step in plan.steps:
        for value in step.reads:
            root = value.root
            if root.storage is not Storage.CONSTANT and root not in written:
                raise RecipeError(f"'{value.name}' is read before it is written")
        for value in step.writes:
            root = value.root
            is_view = isinstance(step.bind, View) and root is not value
            if root.storage in (Storage.INPUT, Storage.CONSTANT) and not is_view:
                raise RecipeError(f"a step writes '{value.name}', which is only read")
            if root.storage is Storage.OUTPUT and root not in outputs:
                raise RecipeError(f"the graph has no output '{value.name}'")
            written.add(root)
        for value in step.scratch:
            if value.root.storage is not Storage.ARENA:
                raise RecipeError(f"the scratchpad '{value.name}' is not in the arena")
    for value in outputs - written:
        raise RecipeError(f"the output '{value.name}' is not written")
    _check_overlaps(plan, arena)


def _check_overlaps(plan: Plan, arena: Arena) -> None:
    """Raise if values that are needed at the same time share bytes of the arena."""
    lives = lives_of(plan.steps)
    starting: dict[int, list[Value]] = {}
    ending: dict[int, list[Value]] = {}
    for value, life in lives.items():
        if value.nbytes:
            starting.setdefault(life.first, []).append(value)
            ending.setdefault(life.last, []).append(value)
    present: list[tuple[int, int, str]] = []  # start, end and name; sorted, without overlaps
    for at in range(len(plan.steps)):
        for value in starting.get(at, ()):
            start = arena.offsets[value]
            entry = (start, start + value.nbytes, value.name)
            i = bisect_left(present, entry)
            for other in present[max(i - 1, 0) : i + 1]:
                if other[0] < entry[1] and entry[0] < other[1]:
                    raise RecipeError(f"'{value.name}' and '{other[2]}' share bytes of the arena")
            present.insert(i, entry)
        for value in ending.get(at, ()):
            start = arena.offsets[value]
            present.remove((start, start + value.nbytes, value.name))
