"""The error for input data, and the limit of the problems that it lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dovetail.errors import DovetailError, Problem, counted

# Thousands of lines of a list may be wrong.
SHOWN = 50


class InputError(DovetailError):
    """Input data, or their list, do not match the model."""

    default_code: ClassVar[str] = "INPUT_INVALID"


@dataclass(frozen=True, slots=True)
class ListProblem(Problem):
    """A fault of a line of an input list.

    Attributes:
        kind: What faults of the same kind have in common; by default the message.
    """

    kind: str = ""


def shortened(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first problem of each kind, with the number of the others.

    After SHOWN kinds, one more problem counts those that are left out.
    """
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        kind = problem.kind if isinstance(problem, ListProblem) else ""
        file = problem.where.rpartition(":")[0] or problem.where
        kinds.setdefault((file, kind or problem.message), []).append(problem)
    problems = [_merged(found) for found in kinds.values()]
    if len(problems) <= SHOWN:
        return tuple(problems)
    return (*problems[:SHOWN], Problem(f"and {len(problems) - SHOWN} more"))


def _merged(problems: Sequence[Problem]) -> Problem:
    first, others = problems[0], len(problems) - 1
    if not others:
        return first
    return replace(first, message=f"{first.message}; and {counted(others, 'other')} like it")
