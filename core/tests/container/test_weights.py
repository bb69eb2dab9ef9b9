"""The WeightStore makes each form once, and aligned memory is aligned."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from dovetail.container import Packed, WeightStore, aligned_empty
from dovetail.ir import Array, Blob


def counted(make: Callable[[], Array]) -> tuple[Callable[[], Array], list[int]]:
    calls: list[int] = []

    def call() -> Array:
        calls.append(1)
        return make()

    return call, calls


def blob(*values: int) -> Blob:
    return Blob(np.array(values, np.uint8))


def test_a_form_is_made_once_for_equal_contents() -> None:
    store = WeightStore()
    make, calls = counted(lambda: np.arange(6.0))
    first = store.get(blob(1, 2), "blocked", make)
    assert store.get(blob(1, 2), "blocked", make) is first
    assert len(calls) == 1
    assert np.array_equal(first, np.arange(6.0))


def test_other_contents_or_layouts_are_other_forms() -> None:
    store = WeightStore()
    make, calls = counted(lambda: np.zeros(4, np.int8))
    keys = [(blob(1), "a"), (blob(2), "a"), (blob(1), "b")]
    assert len({id(store.get(*key, make)) for key in keys}) == 3
    assert len(calls) == 3
    assert store.nbytes == 12
    held = [(p.hash, p.layout, p.nbytes) for p in store.packed]
    assert held == sorted((b.hash, layout, 4) for b, layout in keys)


def test_packed_forms_can_be_read_from_the_store() -> None:
    store = WeightStore()
    form = store.get(blob(1), "a", lambda: np.arange(3))
    [packed] = store.packed
    assert isinstance(packed, Packed)
    assert packed.data is form


@pytest.mark.parametrize(
    "values",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(20, dtype=np.uint8)[3:],
        np.arange(20)[::2],
        np.array(3.0, np.float32),
        np.empty((0, 3), np.float32),
        np.broadcast_to(np.float32(2), (2, 3)),
    ],
    ids=["source_perm", "shifted", "strided", "rank 0", "empty", "broadcast"],
)
def test_results_are_aligned_contiguous_and_read_only(values: Array) -> None:
    form = WeightStore().get(blob(1), "a", lambda: values)
    assert np.array_equal(form, values)
    assert (form.dtype, form.shape) == (values.dtype, values.shape)
    assert form.size == 0 or form.ctypes.data % 64 == 0
    assert form.flags.c_contiguous
    assert not form.flags.writeable


def test_an_aligned_result_is_not_copied() -> None:
    mine = aligned_empty(256)
    form = WeightStore().get(blob(1), "a", lambda: mine)
    assert form.ctypes.data == mine.ctypes.data
    assert mine.flags.writeable  # the caller's array is not changed


def test_threads_that_ask_at_once_wait_for_one_maker() -> None:
    store = WeightStore()
    together = threading.Barrier(8)
    found: list[Array] = []

    def slow() -> Array:
        time.sleep(0.05)  # long enough for every thread to ask meanwhile
        return np.arange(4)

    make, calls = counted(slow)

    def ask() -> None:
        together.wait(timeout=10)
        found.append(store.get(blob(7), "a", make))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(found) == 8
    assert len(calls) == 1
    assert len({id(form) for form in found}) == 1


def test_two_forms_are_made_at_the_same_time() -> None:
    # each maker waits for the other: one lock for all would never let them meet
    store = WeightStore()
    meeting = threading.Barrier(2)

    def make() -> Array:
        meeting.wait(timeout=10)
        return np.zeros(1)

    other = threading.Thread(target=lambda: store.get(blob(1), "a", make))
    other.start()
    store.get(blob(2), "a", make)
    other.join(timeout=10)
    assert len(store.packed) == 2


def test_a_maker_may_ask_for_another_form() -> None:
    store = WeightStore()
    inner = store.get(blob(1), "outer", lambda: store.get(blob(1), "inner", lambda: np.arange(3)))
    assert inner.tolist() == [0, 1, 2]
    assert [p.layout for p in store.packed] == ["inner", "outer"]


def test_a_maker_that_asks_for_its_own_result_does_not_hang() -> None:
    store = WeightStore()

    def make() -> Array:
        return store.get(blob(1), "a", make)

    with pytest.raises(RecursionError):
        store.get(blob(1), "a", make)


def test_after_a_failure_the_next_call_tries_again() -> None:
    store = WeightStore()

    def fail() -> Array:
        raise MemoryError("no room")

    with pytest.raises(MemoryError):
        store.get(blob(1), "a", fail)
    assert store.packed == ()
    assert store.get(blob(1), "a", lambda: np.ones(1)).tolist() == [1]


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
@pytest.mark.parametrize("nbytes", [0, 1, 63, 100_000])
def test_aligned_memory(nbytes: int, alignment: int) -> None:
    arrays = [aligned_empty(nbytes, alignment) for _ in range(5)]
    for i, array in enumerate(arrays):
        # numpy names another place for arrays without elements
        assert nbytes == 0 or array.ctypes.data % alignment == 0
        assert (array.dtype, array.shape) == (np.uint8, (nbytes,))
        array[:] = i
    assert [int(a.sum()) for a in arrays] == [i * nbytes for i in range(5)]


@pytest.mark.parametrize(("nbytes", "alignment"), [(-1, 64), (1, 0), (1, 48), (1, -64)])
def test_impossible_memory_is_refused(nbytes: int, alignment: int) -> None:
    with pytest.raises(ValueError, match=f"got ({nbytes} bytes|{alignment}$)"):
        aligned_empty(nbytes, alignment)


def test_siblings_take_forms_from_each_other_as_long_as_one_holds_them() -> None:
    first = WeightStore()
    second, third = first.sibling(), first.sibling()
    make, calls = counted(lambda: np.arange(6.0))
    form = second.get(blob(1), "a", make)
    assert third.get(blob(1), "a", make) is form
    assert first.packed == ()  # it was not asked
    assert second.nbytes == third.nbytes == 48
    del second, form
    gc.collect()
    first.get(blob(1), "a", make)
    assert len(calls) == 1
    del first, third
    other = WeightStore()
    other.get(blob(1), "a", make)
    assert len(calls) == 2
    pool = other.sibling()
    del other
    gc.collect()
    pool.get(blob(1), "a", make)
    assert len(calls) == 3
