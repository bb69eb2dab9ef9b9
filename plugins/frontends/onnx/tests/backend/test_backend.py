"""ONNX's own backend tests; which of them are in scope, and which fail, scope.toml says."""

from __future__ import annotations

import logging
import unittest
from collections.abc import Iterator

import onnx.backend.test
import pytest
from _pytest.mark import ParameterSet
from onnx_cases import Case, load_cases, load_scope, run_case

from dovetail.plugins import names
from dovetail_onnx import backend

SCOPE = load_scope()
CASES = load_cases()
# of the cases in scope
LEAST_PASSED = 0.97

pytestmark = [
    pytest.mark.skipif(
        not SCOPE.is_of_installed, reason=f"the cases listed are those of onnx {SCOPE.onnx}"
    ),
    pytest.mark.skipif(
        backend.BACKEND not in names("dovetail.backends"), reason="nothing runs the models"
    ),
]


def in_scope() -> Iterator[ParameterSet]:
    """Return the cases in scope; those that are known to fail are marked so."""
    for case in CASES:
        if case.name in SCOPE.failing:
            why = SCOPE.failing[case.name]
            marks = [pytest.mark.xfail(strict=True, reason=why)]
            yield pytest.param(case, id=case.name, marks=marks)
        elif case.name not in SCOPE.out:
            yield pytest.param(case, id=case.name)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep warnings about shapes that the cases leave open out of the log."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("case", list(in_scope()))
def test_case(case: Case) -> None:
    run_case(case)


def test_every_name_is_that_of_a_case() -> None:
    listed = SCOPE.out.keys() | SCOPE.failing.keys()
    assert listed <= {case.name for case in CASES}


def test_enough_of_the_scope_passes() -> None:
    count = len(CASES) - len(SCOPE.out)
    assert count - len(SCOPE.failing) >= LEAST_PASSED * count


class Result(unittest.TestResult):
    """A result that counts what passed: Python 3.12 counts what is skipped in another way."""

    passed = 0

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        self.passed += 1


def test_the_suite_of_onnx_runs_on_the_module() -> None:
    suite = onnx.backend.test.BackendTest(backend, __name__)
    suite.include("^test_(relu|reshape_one_dim|operator_conv|sign_model)_c")
    result = Result()
    suite.test_suite.run(result)
    assert (result.failures, result.errors) == ([], [])
    assert result.passed == 4
