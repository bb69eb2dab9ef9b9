"""Random graphs of many ops: the same results as `cpu`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opencl_driver import ALL
from random_graphs import random_graph

COUNT = 200 if ALL else 6


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_graph_computes_the_same(seed: int, same_as_cpu: Callable[..., None]) -> None:
    graph, feeds, _ = random_graph(seed)
    same_as_cpu(graph, feeds)
