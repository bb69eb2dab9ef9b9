"""Contract of verifiers, which compare two tensors.

A verifier is a function that an entry point of `dovetail.verifiers` loads. It takes two arrays and
keyword parameters and returns a `Comparison`. It has no state and reads no files, so it may be
called for any tensors in any order.

    def largest_error(golden: Array, target: Array, *, limit: float = 0.01) -> Comparison: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from dovetail.errors import ConfigError, DovetailError, PluginError, Problem, suggest_name
from dovetail.ir import Array

_ARRAYS = 2


class VerificationError(DovetailError):
    """Two tensors that cannot be compared."""

    default_code: ClassVar[str] = "COMPARISON_INVALID"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a verifier.

    Attributes:
        name: Name of the verifier's entry point.
        passed: Whether the value meets the threshold; never for NaN.
        value: The measure; may be infinite or NaN.
        threshold: The limit for the value.
        unit: Unit of value and threshold; empty for a plain number.
        details: Further numbers by name, such as the index and error of the worst element.
    """

    name: str
    passed: bool
    value: float
    threshold: float
    unit: str = ""
    details: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        unit = f" {self.unit}" if self.unit else ""
        details = "".join(f", {name} {value:g}" for name, value in self.details.items())
        return (
            f"{self.name} {verdict}: {self.value:g}{unit} (threshold {self.threshold:g}{unit}"
            f"{details})"
        )


@runtime_checkable
class Verifier(Protocol):
    """Compares two tensors."""

    def __call__(self, golden: Array, target: Array) -> Comparison:
        """Compare two tensors.

        Parameters follow as keywords, each with a default.

        Args:
            golden: Expected real values, any shape. Not changed.
            target: Real values to check, of the same shape. Not changed.
        """


def verifier_params(verifier: Verifier) -> dict[str, Any]:
    """Return the parameters of a verifier with their defaults.

    Raises:
        PluginError: The function does not take two arrays, and parameters as keywords with
            defaults.
    """
    where = f"verifier '{getattr(verifier, '__name__', type(verifier).__name__)}'"
    try:
        declared = list(inspect.signature(verifier).parameters.values())
    except (TypeError, ValueError) as error:
        raise PluginError("cannot inspect the parameters", where=where) from error
    arrays, params = declared[:_ARRAYS], declared[_ARRAYS:]
    wrong = [p.name for p in params if p.kind is not p.KEYWORD_ONLY or p.default is p.empty]
    positional = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in arrays)
    if len(arrays) < _ARRAYS or not positional or wrong:
        raise PluginError(
            f"unexpected signature {inspect.signature(verifier)}",
            where=where,
            hint="a verifier takes (golden, target, *, ...), followed by keywords with defaults",
        )
    return {p.name: p.default for p in params}


def compare(
    verifier: Verifier, golden: Array, target: Array, params: Mapping[str, Any] | None = None
) -> Comparison:
    """Run a verifier on two tensors.

    Args:
        verifier: The verifier.
        golden: Expected values, any shape.
        target: Values to check.
        params: Parameters of the verifier by name; others have their defaults.

    Raises:
        VerificationError: The tensors are of different shapes.
        ConfigError: Unknown parameters; all are named.
        PluginError: The function is not a verifier.
    """
    known = verifier_params(verifier)
    given = dict(params or {})
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(
            "unknown parameters of the verifier",
            problems=[Problem(f"'{name}'", hint=suggest_name(name, known)) for name in unknown],
        )
    if golden.shape != target.shape:
        raise VerificationError(
            f"cannot compare tensors of shapes {golden.shape} and {target.shape}",
            hint="compare tensors of the same name in the same layout; undo layout changes first",
        )
    return verifier(golden, target, **given)
