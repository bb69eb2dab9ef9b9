"""Random graphs of many ops: the same results as `cpu`."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from random_graphs import random_graph

# All of them take minutes on a driver that compiles slowly: `make test-gpu` runs them.
COUNT = int(os.environ.get("DOVETAIL_TEST_RANDOM_GRAPHS", "8"))


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_graph_computes_the_same(seed: int, same_as_cpu: Callable[..., None]) -> None:
    graph, feeds, _ = random_graph(seed)
    same_as_cpu(graph, feeds)
