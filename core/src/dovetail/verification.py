"""The verifier contract: how two tensors are compared, and what a comparison says.

A verifier is an entry point of `dovetail.verifiers` that loads a function: two arrays and keyword
parameters in, a `Comparison` out. It keeps nothing and reads no file, so that whoever compares may
call it for any tensors in any order.

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
    """What a verifier found, every number of it.

    Attributes:
        name: The verifier, as its entry point is named.
        passed: Whether the value is on the right side of the threshold; never for NaN.
        value: The measure. Infinite or NaN values are results, too.
        threshold: What the value was held against.
        unit: Of value and threshold; empty for a plain number.
        details: Further numbers by name: where the worst element is, how large it is there.
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
        """Return what the comparison says.

        Parameters follow as keywords, each with a default.

        Args:
            golden: What is right: real values, any shape. Not changed.
            target: What is judged, of the same shape. Not changed.
        """


def verifier_params(verifier: Verifier) -> dict[str, Any]:
    """Return the parameters of a verifier with their defaults.

    Raises:
        PluginError: It does not take two arrays, and parameters as keywords with defaults.
    """
    where = f"verifier '{getattr(verifier, '__name__', type(verifier).__name__)}'"
    try:
        declared = list(inspect.signature(verifier).parameters.values())
    except (TypeError, ValueError) as error:
        raise PluginError("its parameters cannot be told", where=where) from error
    arrays, params = declared[:_ARRAYS], declared[_ARRAYS:]
    wrong = [p.name for p in params if p.kind is not p.KEYWORD_ONLY or p.default is p.empty]
    positional = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in arrays)
    if len(arrays) < _ARRAYS or not positional or wrong:
        raise PluginError(
            f"it takes {inspect.signature(verifier)}",
            where=where,
            hint="a verifier takes (golden, target, *, ...), the rest keywords with defaults",
        )
    return {p.name: p.default for p in params}


def compare(
    verifier: Verifier, golden: Array, target: Array, params: Mapping[str, Any] | None = None
) -> Comparison:
    """Run a verifier on two tensors.

    Args:
        verifier: What compares.
        golden: What is right, any shape.
        target: What is judged.
        params: Parameters of the verifier by name; those left out take their defaults.

    Raises:
        VerificationError: The tensors are of different shapes.
        ConfigError: The verifier has no such parameters; all are named.
        PluginError: The verifier is none.
    """
    known = verifier_params(verifier)
    given = dict(params or {})
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(
            "the verifier has no such parameters",
            problems=[Problem(f"'{name}'", hint=suggest_name(name, known)) for name in unknown],
        )
    if golden.shape != target.shape:
        raise VerificationError(
            f"tensors of the shapes {golden.shape} and {target.shape} cannot be compared",
            hint="compare tensors of one name in one layout; a changed layout is undone before",
        )
    return verifier(golden, target, **given)
