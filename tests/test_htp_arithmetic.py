"""docs/htp_arithmetic.md lists the ops and float cases of the definitions in code."""

import re
from pathlib import Path

import pytest

from dovetail_numpy.integer import (
    DEFINITIONS,
    FLOAT_CASES,
    binary,
    by_real_values,
    choices,
    conversions,
    interpolation,
    moves,
    sums,
    tables,
)
from dovetail_opset import PACKAGE

DOCUMENT = (Path(__file__).parents[1] / "docs" / "htp_arithmetic.md").read_text("utf-8")
SECTIONS = {
    "Functions of one tensor": tables.FUNCTIONS,
    "Functions of two tensors": binary.BINARY,
    "Moves": moves.MOVES,
    "Choices": choices.CHOICES,
    "Sums and means": sums.SUMS,
    "Interpolation": interpolation.INTERPOLATIONS,
    "Images and boxes": (*by_real_values.SUPPRESSIONS, *by_real_values.ARITHMETIC),
    "Conversions": (*conversions.CONVERSIONS, *conversions.STORED),
}


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section '{title}'"
    return found[1]


@pytest.mark.parametrize("title", SECTIONS)
def test_section_lists_ops_of_module(title: str) -> None:
    listed = re.search(r"^Ops: (.*?)[.;]", section(title), re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == list(SECTIONS[title])


def test_ops_have_definitions_in_one_section_each() -> None:
    listed = [op for ops in SECTIONS.values() for op in ops]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= set(DEFINITIONS) <= set(PACKAGE.schemas)
    rest = set(DEFINITIONS) - set(listed)
    assert {op for op in rest if f"`{op}`" in DOCUMENT} >= {"ElementWiseSelect"}


def test_float_cases_are_those_of_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", section("Float cases"), re.MULTILINE)
    assert rows == [(op, case.nodes, case.reason) for op, case in FLOAT_CASES.items()]
