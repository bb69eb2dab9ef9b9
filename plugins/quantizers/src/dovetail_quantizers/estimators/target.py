"""The grid that an estimator minimizes the error for."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import ConfigError
from dovetail_quantizers.grid import Scheme


@dataclass(frozen=True, slots=True)
class Target:
    """The grid that a range is chosen for.

    bitwidth: 2 to 16; symmetric: whether the grid is; unsigned_symmetric: whether a symmetric grid
    is unsigned if no value is negative.

    Raises:
        ConfigError: The bitwidth is out of range.
    """

    bitwidth: int = 8
    symmetric: bool = False
    unsigned_symmetric: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.bitwidth, int) and not isinstance(self.bitwidth, bool)
        if not whole or not 2 <= self.bitwidth <= 16:
            raise ConfigError(
                f"a range for a bitwidth of {self.bitwidth}",
                hint="pass an integer from 2 to 16; use min-max for more bits",
            )

    def scheme(self, minimum: float) -> Scheme:
        """Return the scheme of the grid for values of at least `minimum`."""
        if not self.symmetric:
            return Scheme.ASYMMETRIC
        unsigned = self.unsigned_symmetric and minimum >= 0
        return Scheme.UNSIGNED_SYMMETRIC if unsigned else Scheme.SYMMETRIC
