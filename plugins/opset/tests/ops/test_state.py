"""Ops that remember or draw numbers: Buffer against a Python list, numbers by their statistics."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops import simulate
from dovetail_opset import PACKAGE

Run = Callable[..., Any]
BLOCKING, LEFT, RIGHT = range(3)


def runner(op_type: str, out: Spec | None = None, **params: Any) -> Callable[..., Array]:
    """Return a function that calls one op again and again."""
    schema = PACKAGE.schemas[op_type]
    values = {k: schema.params[k].param_of(v, "op") for k, v in params.items()}
    op = schema.bind(values, [])

    def run(*ins: Array | None, specs: Sequence[Spec] = ()) -> Array:
        found = specs or [None if x is None else Spec(DType.of(x.dtype), x.shape) for x in ins]
        filled = [*found, *[None] * (len(schema.inputs) - len(found))]
        outs = schema.infer(op, filled, [out])
        given = [*ins, *[None] * (len(filled) - len(ins))]
        return simulate(schema, op, given, filled, outs)[0]

    return run


class Frames:
    """Run Buffer with a list of frames."""

    def __init__(self, size: int, stride: int, mode: int, padding: int, empty: Array) -> None:
        self.size, self.stride, self.mode, self.padding = size, stride, mode, padding
        self.empty = empty
        self.held = [empty] * padding

    def push(self, frames: Sequence[Array], reset: bool) -> list[Array]:
        if reset:
            self.held = [self.empty] * self.padding
        if len(self.held) + len(frames) > self.size:
            self.held = self.held[self.stride :]
        self.held = [*self.held, *frames]
        rest = [self.empty] * (self.size - len(self.held))
        return [*rest, *self.held] if self.mode == RIGHT else [*self.held, *rest]


@pytest.mark.parametrize("mode", [BLOCKING, LEFT, RIGHT])
@pytest.mark.parametrize(
    ("shape", "dim", "size", "stride", "padding"),
    [
        ((1,), 0, 4, 1, 0),
        ((1, 3), 0, 4, 3, 0),
        ((3, 2, 2), 1, 6, 2, 4),
        ((2, 3, 2), 1, 3, 3, 0),
        ((2, 3, 2), 2, 8, 4, 8),
        ((0, 1), 1, 2, 1, 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_buffer(
    rng: np.random.Generator,
    dtype: type[np.generic],
    shape: tuple[int, ...],
    dim: int,
    size: int,
    stride: int,
    padding: int,
    mode: int,
) -> None:
    run = runner(
        "Buffer",
        buffer_size=size,
        buffer_dim=dim,
        stride=stride,
        mode=mode,
        buffer_padding=padding,
    )
    empty = np.zeros((*shape[:dim], *shape[dim + 1 :]), dtype)
    frames = Frames(size, stride, mode, padding, empty)
    for call in range(12):
        x = rng.integers(-9, 9, shape).astype(dtype)
        wanted = np.stack(frames.push(list(np.moveaxis(x.copy(), dim, 0)), call == 8), dim)
        y = run(x, None if call % 2 else np.array(call == 8))
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, wanted)
        x[...] = 0  # what is kept is not the caller's array
        y[...] = 1


def test_a_window_slides_one_frame_by_default() -> None:
    run = runner("Buffer", buffer_size=3, buffer_dim=0)
    found = [run(np.array([i], np.float32)).tolist() for i in range(1, 6)]
    assert found == [[1, 0, 0], [1, 2, 0], [1, 2, 3], [2, 3, 4], [3, 4, 5]]


def test_two_prepared_graphs_remember_apart() -> None:
    first, second = (runner("Buffer", buffer_size=2, buffer_dim=0) for _ in range(2))
    first(np.array([1], np.float32))
    np.testing.assert_array_equal(second(np.array([2], np.float32)), [2, 0])
    np.testing.assert_array_equal(first(np.array([3], np.float32)), [1, 3])


def test_an_empty_place_of_fixed_point_holds_a_real_0() -> None:
    encoding = ScaleOffset(0.5, -10)
    spec = Spec(DType.UFIXED_POINT_8, (1,), encoding)
    out = Spec(DType.UFIXED_POINT_8, (3,), encoding)
    run = runner("Buffer", out, buffer_size=3, buffer_dim=0, mode=RIGHT)
    np.testing.assert_array_equal(run(np.array([200], np.uint8), specs=[spec]), [10, 10, 200])
    # between encodings the real values move
    wide = Spec(DType.UFIXED_POINT_8, (3,), ScaleOffset(1.0, -20))
    run = runner("Buffer", wide, buffer_size=3, buffer_dim=0, mode=RIGHT)
    np.testing.assert_array_equal(run(np.array([200], np.uint8), specs=[spec]), [20, 20, 115])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"buffer_size": 5}, "buffer_size is 5; it must be a multiple of the 2 frames"),
        ({"buffer_size": 0}, "buffer_size is 0"),
        ({"buffer_dim": 2}, "buffer_dim 2 is not an axis"),
        ({"stride": 1}, "stride is 1; it must be a multiple of the 2 frames"),
        ({"stride": 6}, "from 2 to buffer_size, 4"),
        ({"stride": 0}, "stride is 0"),
        ({"buffer_padding": 3}, "buffer_padding is 3; it must be a multiple of the 2 frames"),
        ({"buffer_padding": 6}, "buffer_padding is 6"),
    ],
)
def test_refusals(run_op: Run, params: dict[str, int], said: str) -> None:
    given = {"buffer_size": 4, "buffer_dim": 1, "stride": 2} | params
    with pytest.raises(OpError) as caught:
        run_op("Buffer", np.zeros((3, 2), np.float32), **given)
    assert said in str(caught.value)


def test_no_frames_to_keep(run_op: Run) -> None:
    with pytest.raises(OpError, match="has no frames along buffer_dim 0"):
        run_op("Buffer", np.zeros((0, 2), np.float32), buffer_size=4, buffer_dim=0)


# Of 40000 numbers the mean is off by 1/200 of the deviation: these bounds are some 6 times that,
# so that one run in 10^9 fails.
COUNT, BOUND = (400, 100), 0.03


@pytest.mark.parametrize("dtype", [DType.FLOAT_16, DType.FLOAT_32, DType.FLOAT_64])
def test_uniform(dtype: DType) -> None:
    out = Spec(dtype, COUNT)
    run = runner("RandomUniformLike", out, low=-2.0, high=6.0)
    y = run(np.array(COUNT, np.uint32)).astype(np.float64)
    assert y.shape == COUNT
    assert -2 <= y.min() < -1.9
    assert 5.9 < y.max() <= 6
    assert abs(y.mean() - 2) < BOUND * 8 / np.sqrt(12)
    assert abs(y.std() - 8 / np.sqrt(12)) < BOUND * 8 / np.sqrt(12)


def test_normal() -> None:
    run = runner("RandomNormalLike", Spec(DType.FLOAT_32, COUNT), mean=5.0, scale=3.0)
    y = run(np.array(COUNT, np.uint32))
    assert abs(y.mean() - 5) < BOUND * 3
    assert abs(y.std() - 3) < BOUND * 3
    assert abs((np.abs(y - 5) < 3).mean() - 0.6827) < BOUND


@pytest.mark.parametrize("op_type", ["RandomUniformLike", "RandomNormalLike"])
def test_numbers_are_others_each_time(op_type: str) -> None:
    shape, out = np.array([6], np.uint32), Spec(DType.FLOAT_32, (6,))
    run, other = runner(op_type, out), runner(op_type, out)
    drawn = np.stack([run(shape), run(shape), other(shape), other(shape)])
    assert len(np.unique(drawn)) > 12  # float32 numbers hardly ever meet
    # the bounds and moments by default
    many = runner(op_type, Spec(DType.FLOAT_32, COUNT))(np.array(COUNT, np.uint32))
    mean, deviation = (0.5, np.sqrt(1 / 12)) if "Uniform" in op_type else (0, 1)
    assert abs(many.mean() - mean) < BOUND
    assert abs(many.std() - deviation) < BOUND
    assert not PACKAGE.schemas[op_type].op.is_pure


def test_numbers_of_an_empty_shape_and_of_none() -> None:
    empty = runner("RandomNormalLike", Spec(DType.FLOAT_32, (0, 3)))(np.array([0, 3], np.uint32))
    assert empty.shape == (0, 3)
    one = runner("RandomUniformLike", Spec(DType.FLOAT_64, ()))(np.array([], np.uint32))
    assert one.shape == ()
    assert 0 <= one <= 1


@pytest.mark.parametrize("op_type", ["RandomUniformLike", "RandomNormalLike"])
def test_what_cannot_be_drawn(op_type: str) -> None:
    shape = np.array([2, 3], np.uint32)
    with pytest.raises(OpError, match="declare the output's shape"):
        runner(op_type)(shape)
    with pytest.raises(OpError, match="the output must be a float type, but is INT_32"):
        runner(op_type, Spec(DType.INT_32, (2, 3)))(shape)
    with pytest.raises(OpError, match=r"must have shape \(1,\)"):
        runner(op_type, Spec(DType.FLOAT_32, (6,)))(shape)
    with pytest.raises(OpError, match=r"requests shape \(2, 3\), but the output is declared"):
        runner(op_type, Spec(DType.FLOAT_32, (3, 2)))(shape)


def test_bounds_the_wrong_way_round() -> None:
    shape, out = np.array([2], np.uint32), Spec(DType.FLOAT_32, (2,))
    with pytest.raises(OpError, match=r"low 1\.0 is greater than high 0\.0"):
        runner("RandomUniformLike", out, low=1.0, high=0.0)(shape)
    with pytest.raises(OpError, match=r"scale is -1\.0; it must not be negative"):
        runner("RandomNormalLike", out, scale=-1.0)(shape)
