"""Cases of attention with fewer heads of keys, and of rotary embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array
from microsoft_cases._case import F32, Case, Data, Known, case

_HEADS, _GROUPS, _SIZE = 4, 2, 16


def cases() -> Iterator[Case]:
    """Return the cases."""
    rng = np.random.default_rng(8)

    def data(*shape: int) -> Array:
        return rng.normal(size=shape).astype(F32)

    yield from _rotary(data)
    yield from _prompts(data)
    yield from _prompts_with_turns(data)
    yield from _pasts(data)


def _turns(data: Data, places: int, pairs: int) -> tuple[Known, Known]:
    angles = data(places, pairs)
    return Known(np.cos(angles)), Known(np.sin(angles))


def _rotary(data: Data) -> Iterator[Case]:
    op = "RotaryEmbedding"
    flat, apart = data(2, 4, 32), data(2, 2, 4, 16)
    places = np.array([[3, 1, 0, 2], [1, 1, 4, 8]], np.int64)
    whole, part = _turns(data, 9, 8), _turns(data, 9, 4)
    fed = tuple(t.values for t in whole)
    for interleaved in (0, 1):
        kind = {"interleaved": interleaved}
        about = "interleaved" if interleaved else "halves"
        yield case(op, f"{about}, rows", [flat, places, *whole], **kind)
        yield case(op, f"{about}, heads", [apart, places, *whole], **kind)
        few = {"rotary_embedding_dim": 8, "num_heads": 2, **kind}
        yield case(op, f"{about}, a part of rows", [flat, places, *part], **few)
        yield case(op, f"{about}, a part of heads", [apart, places, *part], **few)
    first = np.array([3], np.int64)
    yield case(op, "a first place", [flat, first, *whole])
    yield case(op, "a first place that is known", [flat, Known(first), *whole])
    yield case(op, "known places", [flat, Known(places), *whole], num_heads=2)
    yield case(op, "tables that are fed", [flat, places, *fed])


def _given(
    data: Data, rows: int, batch: int = 2, size: int = _SIZE, packed: bool = False
) -> list[Array | None]:
    query = data(batch, rows, _HEADS * size)
    key, value = (data(batch, rows, _GROUPS * size) for _ in range(2))
    if packed:
        return [np.concatenate([query, key, value], -1), None, None]
    return [query, key, value]


def _lengths(batch: int, total: int) -> list[Known]:
    return [Known(np.full(batch, total - 1, np.int32)), Known(np.array(total, np.int32))]


def _prompt(
    about: str, given: Sequence[Any], *more: Array | Known | None, **attributes: Any
) -> Case:
    """Create a case of a prompt; more inputs are those from the tables on."""
    batch, rows = given[0].shape[:2]
    inputs = [*given, None, None, *_lengths(batch, rows), *more]
    heads = {"num_heads": _HEADS, "kv_num_heads": _GROUPS}
    return case("GroupQueryAttention", about, inputs, outputs=3, **heads, **attributes)


def _prompts(data: Data) -> Iterator[Case]:
    given = _given(data, 5)
    nothing = (None, None, None)
    yield _prompt("a prompt", given)
    yield _prompt("packed", _given(data, 5, packed=True))
    yield _prompt("one row", _given(data, 1))
    yield _prompt("a scale", given, scale=0.1)
    yield _prompt("a window", given, local_window_size=2)
    yield _prompt("not causal", given, causal=0)
    yield _prompt("a soft cap", given, softcap=0.5)
    yield _prompt("a smooth softmax", given, smooth_softmax=1)
    yield _prompt("a smooth softmax with a window", given, smooth_softmax=1, local_window_size=2)
    bias = data(1, 1, 5, 5)
    yield _prompt("scores with one bias", given, *nothing, bias)
    yield _prompt("scores with a bias and a cap", given, *nothing, bias, softcap=0.5)
    yield _prompt("scores with a bias for each head", given, *nothing, data(2, _HEADS, 5, 5))
    sink = data(_HEADS)
    yield _prompt("a sink", given, *nothing, None, Known(sink))
    yield _prompt("a sink that is fed", given, *nothing, None, sink)
    heads = {"num_heads": 2, "kv_num_heads": 2}
    own = [*(data(2, 3, 16) for _ in range(3)), None, None, *_lengths(2, 3)]
    yield case("GroupQueryAttention", "as many heads of keys", own, **heads)
    one = [data(2, 3, 24), data(2, 3, 8), data(2, 3, 8), None, None, *_lengths(2, 3)]
    yield case("GroupQueryAttention", "one head of keys", one, num_heads=3, kv_num_heads=1)
    lengths = [np.full(2, 4, np.int32), np.array([5], np.int32)]
    fed = [*given, None, None, *lengths]
    heads = {"num_heads": _HEADS, "kv_num_heads": _GROUPS}
    yield case("GroupQueryAttention", "lengths that are fed", fed, outputs=3, **heads)


def _prompts_with_turns(data: Data) -> Iterator[Case]:
    given, turns = _given(data, 5), _turns(data, 12, 8)
    rotary = {"do_rotary": 1}
    yield _prompt("rotary", given, *turns, **rotary)
    yield _prompt("rotary, interleaved", given, *turns, rotary_interleaved=1, **rotary)
    yield _prompt("rotary, packed", _given(data, 5, packed=True), *turns, **rotary)
    wide = _given(data, 5, size=32)
    yield _prompt("rotary, of a part", wide, *turns, **rotary)
    yield _prompt("rotary, tables that are fed", given, *(t.values for t in turns), **rotary)
    places = np.array([[4, 0, 1, 2, 3], [1, 1, 1, 1, 1]], np.int64)
    yield _prompt("rotary, places", given, *turns, places, **rotary)
    yield _prompt("rotary, known places", given, *turns, Known(places), **rotary)


def _pasts(data: Data) -> Iterator[Case]:
    op, heads = "GroupQueryAttention", {"num_heads": _HEADS, "kv_num_heads": _GROUPS}
    turns = _turns(data, 12, 8)

    def past(batch: int, rows: int) -> list[Array]:
        return [data(batch, _GROUPS, rows, _SIZE) for _ in range(2)]

    empty = [*_given(data, 5), *past(2, 0), *_lengths(2, 5), *turns]
    yield case(op, "an empty past", empty, outputs=3, do_rotary=1, **heads)
    buffer = [*_given(data, 5), *past(2, 9), *_lengths(2, 5), *turns]
    yield case(op, "a prompt and a buffer", buffer, outputs=3, do_rotary=1, **heads)
    fits = [*_given(data, 5), *past(2, 5), *_lengths(2, 5)]
    yield case(op, "a prompt that fills the buffer", fits, outputs=3, **heads)
    token = [*_given(data, 1), *past(2, 4), *_lengths(2, 5), *turns]
    yield case(op, "one row after a past", token, outputs=3, do_rotary=1, **heads)
    chunk = [*_given(data, 3, batch=1), *past(1, 4), *_lengths(1, 7), *turns]
    yield case(op, "rows after a past", chunk, outputs=3, do_rotary=1, **heads)
    window = {"local_window_size": 3, **heads}
    yield case(op, "rows after a past, a window", chunk, outputs=3, do_rotary=1, **window)
    places = [*chunk, np.array([[1, 5, 9]], np.int64)]
    yield case(op, "rows after a past, places", places, outputs=3, do_rotary=1, **heads)
    length = [*chunk[:5], np.array([6], np.int32), *chunk[6:]]
    about = "rows after a past of one sequence"
    yield case(op, about, length, outputs=3, do_rotary=1, **heads)
