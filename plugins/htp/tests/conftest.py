"""Fixtures: nodes of an op with given types, and graphs on the backend."""

from __future__ import annotations

import pytest

from dovetail.ops import OpRegistry
from dovetail_opset import PACKAGE


@pytest.fixture(name="ops", scope="session")
def fixture_ops() -> OpRegistry:
    return OpRegistry.of(PACKAGE)
