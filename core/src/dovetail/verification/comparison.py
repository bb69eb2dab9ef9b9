"""The result of a verifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dovetail.errors import DovetailError


class VerificationError(DovetailError):
    """Two tensors that cannot be compared."""

    default_code: ClassVar[str] = "COMPARISON_INVALID"


@dataclass(frozen=True, slots=True)
class Worst:
    """The element that differs most.

    Attributes:
        block: Number of the update that it was in, from 0: the sample, if each update is one.
        index: Its index in the arrays of that update.
        golden: The expected value.
        target: The value found.
    """

    block: int
    index: tuple[int, ...]
    golden: float
    target: float

    def __str__(self) -> str:
        block = f" of block {self.block}" if self.block else ""
        where = f"{list(self.index)}{block}"
        return f"{self.target:g} at {where}, expected {self.golden:g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a verifier.

    Attributes:
        passed: Whether the value meets the threshold; never for NaN.
        value: The measure; may be infinite or NaN.
        threshold: The limit for the value.
        unit: Unit of value and threshold; empty for a plain number.
        worst: The element that differs most; None if the verifier does not judge single elements,
            or none differs.
        details: Further numbers by name, such as the count of NaNs.
        name: Name of the verifier; core fills it in.
        elements: Count of the elements compared, of the first tensor if the verifier reads several;
            core fills it in.
    """

    passed: bool
    value: float
    threshold: float
    unit: str = ""
    worst: Worst | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    name: str = ""
    elements: int = 0

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        unit = f" {self.unit}" if self.unit else ""
        parts = [f"threshold {self.threshold:g}{unit}", f"{self.elements} elements"]
        parts += [f"{name} {value:g}" for name, value in self.details.items() if value]
        if self.worst is not None:
            parts.append(f"worst {self.worst}")
        return f"{self.name} {verdict}: {self.value:g}{unit} ({', '.join(parts)})"
