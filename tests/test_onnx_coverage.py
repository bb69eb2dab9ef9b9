"""docs/onnx_coverage.md says what the tests of the frontend hold: their data file decides."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from microsoft_cases import load_cases

from dovetail_onnx.operators import MICROSOFT

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import onnx_coverage  # noqa: E402 - a script, which lies in no dist

DOCUMENT = (ROOT / "docs" / "onnx_coverage.md").read_text("utf-8")
SCOPE = onnx_coverage.load_scope()


@pytest.mark.skipif(not SCOPE.is_of_installed, reason=f"it is about onnx {SCOPE.onnx}")
def test_the_figures_are_those_of_the_tests() -> None:
    cases = onnx_coverage.load_cases()
    scope = len(cases) - len(SCOPE.out)
    passed = scope - len(SCOPE.failing)
    assert f"Of the {len(cases)} backend tests" in DOCUMENT
    assert f"{scope} are in\nscope and **{passed} pass ({passed / scope:.1%})**" in DOCUMENT
    node = re.findall(r" \| (\d+) / (\d+) / (\d+) \| ", DOCUMENT)
    assert sum(int(count) for *_, count in node) == sum(c.kind == "node" for c in cases)


def test_versions_are_the_importers() -> None:
    assert onnx_coverage.versions("Relu") == "6 13 14"
    assert onnx_coverage.versions("ai.onnx.ml:Binarizer") == "1"
    assert onnx_coverage.versions("ai.onnx.ml:Relu") == "-"
    assert onnx_coverage.versions("If") == "written out"
    assert onnx_coverage.versions("Attention") == "by definition"
    assert onnx_coverage.versions("ImageDecoder") == "-"


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("test_relu", {"Relu"}),
        ("test_blackmanwindow", set()),
        ("test_bitcast_2d_float32_to_int32", None),
    ],
)
def test_what_a_case_becomes_is_read_off_its_graph(name, ops) -> None:
    (case,) = (c for c in onnx_coverage.load_cases() if c.name == name)
    assert onnx_coverage.measured(case).ops == ops


def test_all_operators_of_onnx_runtime_are_listed() -> None:
    rows = re.findall(r"^\| com\.microsoft:(\w+) \| ([\d ]+) \| .* \| (\d+) \| ", DOCUMENT, re.M)
    assert [name for name, *_ in rows] == list(MICROSOFT.operators)
    cases = Counter(case.op_type for case in load_cases() if case.domain)
    assert Counter({name: int(count) for name, _, count in rows}) == cases
    assert all(int(version) in MICROSOFT.versions(name) for name, version, _ in rows)
