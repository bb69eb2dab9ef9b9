"""What holds for every verifier: how it is called, and what its comparison says."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from dovetail.errors import ConfigError, PluginError
from dovetail.ir import Array
from dovetail.verification import (
    Comparison,
    VerificationError,
    Verifier,
    compare,
    verifier_params,
)


def largest(golden: Array, target: Array, *, limit: float = 0.5, scale: int = 1) -> Comparison:
    value = float(np.abs(golden - target).max(initial=0)) * scale
    return Comparison("Largest", value <= limit, value, limit, "V", {"elements": golden.size})


def test_params_take_their_defaults() -> None:
    found = compare(largest, np.array([1.0, 2]), np.array([1.0, 2.25]))
    assert found == Comparison("Largest", True, 0.25, 0.5, "V", {"elements": 2})
    found = compare(largest, np.array([1.0]), np.array([1.25]), {"limit": 0.25, "scale": 2})
    assert (found.passed, found.value, found.threshold) == (False, 0.5, 0.25)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert compare(largest, np.ones(shape), np.ones(shape)).value == 0


@pytest.mark.parametrize("other", [(3, 2), (6,), (1, 2, 3), ()])
def test_other_shapes_are_refused(other: tuple[int, ...]) -> None:
    with pytest.raises(VerificationError) as caught:
        compare(largest, np.ones((2, 3)), np.ones(other))
    assert caught.value.code == "COMPARISON_INVALID"
    assert caught.value.exit_code == 3
    assert "(2, 3)" in caught.value.message
    assert str(other) in caught.value.message


def test_all_unknown_params_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        compare(largest, np.ones(1), np.ones(1), {"limits": 1, "scale": 2, "k": 3})
    texts = [str(problem) for problem in caught.value.problems]
    assert texts == ["'limits' (did you mean 'limit'?)", "'k' (valid names: limit, scale)"]


def test_a_verifier_tells_its_params() -> None:
    assert verifier_params(largest) == {"limit": 0.5, "scale": 1}
    assert verifier_params(functools.partial(largest, scale=3)) == {"limit": 0.5, "scale": 3}
    assert isinstance(largest, Verifier)


def one(golden: Array) -> Comparison:
    raise NotImplementedError


def positional(golden: Array, target: Array, limit: float = 1) -> Comparison:
    raise NotImplementedError


def required(golden: Array, target: Array, *, limit: float) -> Comparison:
    raise NotImplementedError


def keywords(*, golden: Array, target: Array) -> Comparison:
    raise NotImplementedError


def anything(*arrays: Array, **params: Any) -> Comparison:
    raise NotImplementedError


@pytest.mark.parametrize("wrong", [one, positional, required, keywords, anything])
def test_what_is_no_verifier_is_refused_before_it_is_called(wrong: Any) -> None:
    with pytest.raises(PluginError, match="unexpected signature") as caught:
        compare(wrong, np.ones(1), np.ones(1))
    assert caught.value.where == f"verifier '{wrong.__name__}'"
    assert "(golden, target, *, ...)" in caught.value.hint


def test_what_has_no_signature_is_refused() -> None:
    with pytest.raises(PluginError, match="cannot inspect"):
        verifier_params("SQNR")  # type: ignore[arg-type]


def test_a_comparison_says_every_number() -> None:
    found = Comparison("SQNR", False, 12.5, 30, "dB", {"noise": 0.25})
    assert str(found) == "SQNR failed: 12.5 dB (threshold 30 dB, noise 0.25)"
    assert str(Comparison("X", True, math.inf, 1)) == "X passed: inf (threshold 1)"
