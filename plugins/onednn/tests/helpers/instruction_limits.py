"""Fewer cases in tests of stored integers that run again with fewer instructions.

Which kernels compute depends on the processor's instructions, and types, shapes and fusions lead
to different ones; a part of the cases has all of these. The numbers in them matter to what is
around the kernels, which is the same with all instructions.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import settings

VARIABLE = "ONEDNN_MAX_CPU_ISA"
IS_LIMITED = VARIABLE in os.environ
_PART = 5  # prime to the numbers of values of most parameters, so that all of them are met
_MANY = 100


def examples(count: int) -> settings:
    """Return the settings of a test with this number of examples, or a part of them."""
    part = max(30, count // _PART)
    return settings(max_examples=min(count, part) if IS_LIMITED else count, derandomize=True)


def selected(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return a part of the cases of each test that has many."""
    names = [item.nodeid.split("[")[0] for item in items]
    totals, seen, kept = Counter(names), Counter[str](), []
    for item, name in zip(items, names, strict=True):
        if totals[name] < _MANY or seen[name] % _PART == 0:
            kept.append(item)
        seen[name] += 1
    return kept
