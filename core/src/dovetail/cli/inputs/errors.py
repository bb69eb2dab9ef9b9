"""The error of input data, and how many of its problems are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dovetail.errors import DovetailError, Problem

# A list of thousands of lines may be wrong in each of them.
SHOWN = 50


class InputError(DovetailError):
    """Input data, or the list that names them, do not fit the model."""

    default_code: ClassVar[str] = "INPUT_INVALID"


def shortened(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first SHOWN problems, and one more that counts the others."""
    if len(problems) <= SHOWN:
        return tuple(problems)
    return (*problems[:SHOWN], Problem(f"and {len(problems) - SHOWN} more"))
