"""Random numbers of a test do not depend on the tests before it."""

from __future__ import annotations

import numpy as np
import pytest
from quantized_models import scales

OWN = np.random.default_rng(1)
HELPERS: list[np.ndarray] = []


@pytest.mark.parametrize("time", range(2))
def test_every_test_draws_the_same_numbers(time: int) -> None:
    np.testing.assert_array_equal(OWN.random(3), np.random.default_rng(1).random(3))
    HELPERS.append(scales(9))
    np.testing.assert_array_equal(HELPERS[0], HELPERS[-1])
