"""Convolutions by Winograd's tiles, compared with those of `cpu`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_gpu import _backend
from dovetail_gpu.driver import choose_device
from dovetail_gpu.kernels import _choices
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.kernels._winograd import Winograd
from dovetail_opset.build import add, static

Same = Callable[..., None]
_RNG = np.random.default_rng(15)


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Winograd]:
    """Make tiles the faster choice, and return a list that receives those that are run."""
    found: list[Winograd] = []

    def is_faster(by_tiles: Winograd, *_: Any) -> bool:
        found.append(by_tiles)
        return True

    monkeypatch.setattr(Winograd, "is_faster", is_faster)
    return found


def _check(
    same: Same,
    shape: tuple[int, ...],
    made: int,
    *,
    pads: Any = ((1, 1), (1, 1)),
    dtype: DType = DType.FLOAT_32,
    **params: Any,
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    taken = shape[-1] // params.get("group", 1)
    w = static(graph, "w", _RNG.standard_normal((3, 3, taken, made)).astype(dtype.storage))
    b = static(graph, "b", _RNG.standard_normal(made).astype(dtype.storage))
    given: dict[str, Any] = {"stride": np.ones(2, np.uint32), "pad_amount": np.uint32(pads)}
    y = add(graph, "Conv2d", [x, w, b], name="conv", **given, **params)
    y = add(graph, "Relu", [y], name="relu")
    if shape[-1] == made and y.shape == shape:
        y = add(graph, "ElementWiseAdd", [y, x], name="residual")
    y.kind = TensorKind.APP_READ
    feeds = {"x": _RNG.standard_normal(shape).astype(dtype.storage)}
    same(graph, feeds, 1e-4 if dtype is DType.FLOAT_32 else 2e-2)


@pytest.mark.parametrize(
    ("shape", "made", "pads"),
    [
        ((1, 16, 16, 32), 32, ((1, 1), (1, 1))),
        ((2, 13, 14, 40), 64, ((0, 1), (2, 0))),
        ((1, 15, 22, 256), 32, ((0, 0), (0, 0))),
    ],
)
def test_tiles(
    same_as_cpu: Same, runs: list[Winograd], shape: tuple[int, ...], made: int, pads: Any
) -> None:
    """The error is below 1e-4 of the maximum, also at edges that are not whole tiles."""
    _check(same_as_cpu, shape, made, pads=pads)
    assert len(runs) == 1


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16], ids=["float", "half"])
def test_tiles_on_many_small_cores(
    same_as_cpu: Same, runs: list[Winograd], monkeypatch: pytest.MonkeyPatch, dtype: DType
) -> None:
    def chosen(wanted: str | None) -> Any:
        return dataclasses.replace(choose_device(wanted), is_cpu=False)

    monkeypatch.setattr(_backend, "choose_device", chosen)
    tile = Tile(16, 4, is_shared=True)  # one alone: drivers of processors compile them for long
    monkeypatch.setattr(_choices, "_of_groups", lambda product, **_: [tile])
    _check(same_as_cpu, (2, 13, 14, 40), 64, pads=((0, 1), (2, 0)), dtype=dtype)
    assert len(runs) == 1


def test_halves(same_as_cpu: Same, runs: list[Winograd]) -> None:
    _check(same_as_cpu, (1, 16, 16, 32), 32, dtype=DType.FLOAT_16)
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("shape", "made", "params"),
    [
        ((1, 16, 16, 64), 64, {"group": 2}),
        ((1, 20, 20, 32), 32, {"dilation": np.full(2, 2, np.uint32)}),
        ((1, 8, 8, 32), 32, {}),
        ((1, 16, 16, 36), 32, {}),
    ],
    ids=["groups", "dilation", "few tiles", "odd channels"],
)
def test_others_run_directly(
    same_as_cpu: Same,
    runs: list[Winograd],
    shape: tuple[int, ...],
    made: int,
    params: dict[str, Any],
) -> None:
    _check(same_as_cpu, shape, made, **params)
    assert not runs
