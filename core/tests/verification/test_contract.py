"""Requirements on every verifier: how it is configured and run, and what its comparison says."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest

from dovetail.errors import ConfigError, PluginError
from dovetail.ir import Array
from dovetail.verification import (
    Comparison,
    VerificationError,
    Verifier,
    Worst,
    configure,
    verifier_params,
    verifier_tensors,
)


class Largest:
    def __init__(
        self, *, limit: float = 0.5, scale: Annotated[int, msgspec.Meta(ge=1)] = 1
    ) -> None:
        self.limit, self.scale, self.value = limit, scale, 0.0

    def update(self, golden: Array, target: Array) -> None:
        found = float(np.abs(golden - target).max(initial=0)) * self.scale
        self.value = max(self.value, found)

    def finish(self) -> Comparison:
        return Comparison(self.value <= self.limit, self.value, self.limit, "V")


class Pairs:
    def __init__(self) -> None:
        self.seen: list[tuple[int, ...]] = []

    def update(
        self, golden_boxes: Array, target_boxes: Array, golden_classes: Array, target_classes: Array
    ) -> None:
        self.seen.append((golden_boxes.size, target_classes.size))

    def finish(self) -> Comparison:
        return Comparison(True, len(self.seen), 0)


def test_params_have_their_defaults() -> None:
    found = configure(Largest).compare(np.array([1.0, 2]), np.array([1.0, 2.25]))
    assert found == Comparison(True, 0.25, 0.5, "V", name="Largest", elements=2)
    params = {"limit": 0.25, "scale": 2}
    found = configure(Largest, params, name="L").compare(np.array([1.0]), np.array([1.25]))
    assert (found.passed, found.value, found.threshold, found.name) == (False, 0.5, 0.25, "L")


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert configure(Largest).compare(np.ones(shape), np.ones(shape)).value == 0


def test_a_stream_of_blocks_is_one_comparison() -> None:
    run = configure(Largest).begin()
    run.update(np.array([1.0, 2]), np.array([1.0, 2.25]))
    assert run.finish().value == 0.25
    run.update(np.array([[1.0]]), np.array([[3.0]]))
    assert (run.finish().value, run.finish().elements) == (2, 3)


def test_comparisons_are_independent() -> None:
    configured = configure(Largest)
    assert configured.compare(np.zeros(1), np.ones(1)).value == 1
    assert configured.compare(np.zeros(1), np.zeros(1)).value == 0


@pytest.mark.parametrize("other", [(3, 2), (6,), (1, 2, 3), ()])
def test_other_shapes_are_rejected(other: tuple[int, ...]) -> None:
    run = configure(Largest).begin()
    with pytest.raises(VerificationError) as caught:
        run.update(np.ones((2, 3)), np.ones(other))
    assert caught.value.code == "COMPARISON_INVALID"
    assert caught.value.exit_code == 3
    assert caught.value.where == "verifier 'Largest'"
    assert "(2, 3)" in caught.value.message
    assert str(other) in caught.value.message
    assert run.finish().elements == 0


@pytest.mark.parametrize("dtype", [np.complex64, "S1", object])
def test_values_that_are_not_real_are_rejected(dtype: Any) -> None:
    with pytest.raises(VerificationError, match="of type"):
        configure(Largest).compare(np.zeros(2, dtype), np.zeros(2))


def test_a_verifier_of_two_tensors_takes_four_arrays() -> None:
    configured = configure(Pairs)
    assert configured.tensors == 2
    found = configured.compare(np.ones(4), np.ones(4), np.ones(1), np.ones(1))
    assert (found.value, found.elements) == (1, 4)
    with pytest.raises(VerificationError, match="expected 4 arrays, got 2"):
        configured.compare(np.ones(4), np.ones(4))
    with pytest.raises(VerificationError, match=r"\(1,\) and \(2,\)"):
        configured.compare(np.ones(4), np.ones(4), np.ones(1), np.ones(2))


def test_all_wrong_params_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        configure(Largest, {"limits": 1, "scale": 0, "limit": "x", "k": 3}, where="c.json")
    texts = [str(problem) for problem in caught.value.problems]
    assert caught.value.where == "c.json"
    assert texts[:2] == [
        "parameters.limits: unknown key (did you mean 'limit'?)",
        "parameters.k: unknown key (valid names: limit, scale)",
    ]
    assert sorted(t.partition(":")[0] for t in texts[2:]) == [
        "parameters.limit",
        "parameters.scale",
    ]


def test_nan_is_not_a_parameter() -> None:
    with pytest.raises(ConfigError, match="wrong values") as caught:
        configure(Largest, {"limit": math.nan})
    assert [str(p) for p in caught.value.problems] == [
        "parameters.limit: expected a number, got NaN"
    ]


def test_a_verifier_describes_its_params() -> None:
    first, second = verifier_params(Largest)
    assert (first.name, first.type, first.default) == ("limit", float, 0.5)
    assert (second.name, second.default) == ("scale", 1)
    assert (verifier_tensors(Largest), verifier_tensors(Pairs)) == (1, 2)
    assert isinstance(Largest(), Verifier)


class Required(Largest):
    def __init__(self, *, limit: float) -> None: ...


class Positional(Largest):
    def __init__(self, limit: float = 1) -> None: ...


class Anything(Largest):
    def __init__(self, **params: Any) -> None: ...


@pytest.mark.parametrize("wrong", [Required, Positional, Anything])
def test_constructors_take_keywords_with_defaults(wrong: Any) -> None:
    with pytest.raises(PluginError, match="unexpected signature") as caught:
        configure(wrong)
    assert caught.value.where == f"verifier '{wrong.__name__}'"
    assert "keywords with defaults" in caught.value.hint


class Odd(Largest):
    def __init__(self, *, limits: dict[float, float] | dict[str, int] | None = None) -> None: ...


def test_parameters_have_types_that_can_be_decoded() -> None:
    with pytest.raises(PluginError, match="unsupported type of a parameter") as caught:
        configure(Odd)
    assert caught.value.where == "verifier 'Odd'"


class One(Largest):
    def update(self, golden: Array) -> None: ...  # type: ignore[override]


class Keywords(Largest):
    def update(self, *, golden: Array, target: Array) -> None: ...  # type: ignore[override]


class Many(Largest):
    def update(self, *arrays: Array) -> None: ...


@pytest.mark.parametrize("wrong", [One, Keywords, Many])
def test_updates_take_two_arrays_for_each_tensor(wrong: Any) -> None:
    with pytest.raises(PluginError, match="unexpected signature of 'update'") as caught:
        configure(wrong)
    assert "two arrays for each tensor" in caught.value.hint


def test_a_comparison_says_every_number_that_is_not_0() -> None:
    worst = Worst(1, (0, 2), 1.5, -2)
    found = Comparison(False, 12.5, 30, "dB", worst, {"noise": 0.25}, "SQNR", 7)
    assert str(found) == (
        "SQNR failed: 12.5 dB (threshold 30 dB, 7 elements, noise 0.25, "
        "worst -2 at [0, 2] of block 1, expected 1.5)"
    )
    first = Comparison(False, 1, 0, worst=Worst(0, (3,), 1, 2), details={"nan": 0}, name="X")
    assert str(first) == "X failed: 1 (threshold 0, 0 elements, worst 2 at [3], expected 1)"
    assert str(Comparison(True, math.inf, 1, name="X")) == (
        "X passed: inf (threshold 1, 0 elements)"
    )
