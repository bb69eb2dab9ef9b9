"""Algorithms of tests, as if they were installed."""

from __future__ import annotations

import pytest

from dovetail.quantization import QuantizationAlgorithm
from dovetail_quantizers import algorithms_run


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[QuantizationAlgorithm]]:
    """Algorithms by name, as if they were installed."""
    found: dict[str, type[QuantizationAlgorithm]] = {}
    monkeypatch.setattr(algorithms_run, "load_plugin", lambda group, name: found[name])
    return found
