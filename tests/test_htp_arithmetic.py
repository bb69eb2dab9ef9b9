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
    norms,
    products,
    recurrent,
    sums,
    tables,
)
from dovetail_numpy.integer.fixed import Requantization, definitions
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
    "Products": products.PRODUCTS,
    "Softmax and norms": norms.NORMS,
    "Recurrent": recurrent.LAYERS,
}
FIXED = "Fixed-point requantization"


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section '{title}'"
    return found[1]


def ops_of(title: str) -> tuple[list[str], list[str]]:
    """Return the ops that a section lists, and those of which it defines some nodes only."""
    listed = re.search(r"^Ops: (.*?)\.$", section(title), re.MULTILINE | re.DOTALL)
    assert listed is not None, f"no ops in '{title}'"
    every, _, some = listed[1].partition(";")
    return re.findall(r"`(\w+)`", every), re.findall(r"`(\w+)`", some)


@pytest.mark.parametrize("title", SECTIONS)
def test_section_lists_ops_of_module(title: str) -> None:
    assert ops_of(title)[0] == list(SECTIONS[title])


def test_all_sections_with_ops_are_compared() -> None:
    titles = re.findall(r"^## (.*)\n\nOps: ", DOCUMENT, re.MULTILINE)
    assert sorted(titles) == sorted((*SECTIONS, FIXED))


def test_each_definition_is_in_a_section() -> None:
    listed = [op for title in SECTIONS for op in ops_of(title)[0]]
    further = {op for title in SECTIONS for op in ops_of(title)[1]}
    assert len(set(listed)) == len(listed)
    assert {*listed, *further} == set(DEFINITIONS) <= set(PACKAGE.schemas)


@pytest.mark.parametrize("form", [Requantization.FIXED, Requantization.FIXED_SINGLE])
def test_ops_in_fixed_point_are_those_of_code(form: Requantization) -> None:
    assert [*products.PRODUCTS, *ops_of(FIXED)[1]] == list(definitions(form).own)


def test_float_cases_are_those_of_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", section("Float cases"), re.MULTILINE)
    assert rows == [(op, case.nodes, case.reason) for op, case in FLOAT_CASES.items()]
