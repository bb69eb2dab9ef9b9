"""The error for input data, and the limit of the problems that it lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dovetail.errors import DovetailError, Problem

# Thousands of lines of a list may be wrong.
SHOWN = 50


class InputError(DovetailError):
    """Input data, or their list, do not match the model."""

    default_code: ClassVar[str] = "INPUT_INVALID"


def shortened(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first SHOWN problems, and one more that counts the others."""
    if len(problems) <= SHOWN:
        return tuple(problems)
    return (*problems[:SHOWN], Problem(f"and {len(problems) - SHOWN} more"))
