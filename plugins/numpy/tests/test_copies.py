"""Copies of arrays with gaps and of transposed ones, whose runs of elements are one item each."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail_numpy.kernels._calls import copy

# Target and source as views of (64, 16, 12), and the elements that are neighbors in both.
VIEWS = {
    "a part of rows": (np.s_[:, :, 2:7], np.s_[:, :, 5:10], 5),
    "whole rows": (np.s_[::2, 3:9], np.s_[32:, 10:], 6 * 12),
    "one axis of size 1": (np.s_[:, 4:5, :6], np.s_[:, 9:10, 6:], 6),
    "every other element": (np.s_[:, :, ::2], np.s_[:, :, ::2], 1),
    "backwards": (np.s_[:, :, ::-1], np.s_[:], 1),
    "everything": (np.s_[:], np.s_[:], 0),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("name", VIEWS)
def test_runs_are_copied_as_items(name, dtype) -> None:
    into, of, run = VIEWS[name]
    random = np.random.default_rng(3)
    source = random.integers(0, 255, (64, 16, 12)).astype(dtype)
    target, wanted = (np.full(source.shape, 7, dtype) for _ in range(2))
    call = copy(target[into], source[of])
    call()
    wanted[into] = source[of]
    np.testing.assert_array_equal(target, wanted)
    nbytes = run * source.itemsize
    is_item = run > 1 and nbytes <= 256 and target[into].nbytes >= 1 << 13
    assert call.args[0].dtype == (np.dtype((np.void, nbytes)) if is_item else dtype)


def test_outer_axes_in_another_order() -> None:
    source = np.arange(40 * 8 * 16, dtype=np.float32).reshape(40, 8, 16)
    target = np.zeros((8, 40, 16), np.float32)
    call = copy(target, source.transpose(1, 0, 2))
    call()
    np.testing.assert_array_equal(target, source.transpose(1, 0, 2))
    assert call.args[0].shape == (8, 40, 1)


@pytest.mark.parametrize("source", [np.float32(3), np.ones((1, 16), np.float32), np.ones((80, 16))])
def test_what_is_broadcast_or_converted(source) -> None:
    target = np.zeros((160, 32), np.float32)[::2, 4:20]
    copy(target, np.asarray(source))()
    np.testing.assert_array_equal(target, np.broadcast_to(source, target.shape))


def test_bits_of_nan_stay() -> None:
    bits = np.full((200, 16), 0x7F800001, np.uint32)  # a signalling NaN
    target = np.zeros((200, 32), np.float32)
    copy(target[:, :16], bits.view(np.float32))()
    np.testing.assert_array_equal(target.view(np.uint32)[:, :16], bits)
