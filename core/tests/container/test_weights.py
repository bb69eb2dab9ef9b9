"""The WeightStore makes each form once, and aligned memory is aligned."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dovetail.container import FormKey, Packed, WeightStore, aligned_empty
from dovetail.ir import Array, AxisScaleOffset, DType, Encoding, ScaleOffset, Spec, Tensor


def counted(make: Callable[[], Array]) -> tuple[Callable[[], Array], list[int]]:
    calls: list[int] = []

    def call() -> Array:
        calls.append(1)
        return make()

    return call, calls


def blob(*values: int) -> Tensor:
    return Tensor.static("w", np.array(values, np.uint8))


def get(store: WeightStore, tensor: Tensor, form: str, make: Callable[[], Array]) -> Array:
    found = store.packed([tensor], form, lambda *_: make()).data
    assert isinstance(found, np.ndarray)
    return found


def test_a_form_is_made_once_for_equal_contents() -> None:
    store = WeightStore()
    make, calls = counted(lambda: np.arange(6.0))
    first = get(store, blob(1, 2), "blocked", make)
    assert get(store, blob(1, 2), "blocked", make) is first
    assert len(calls) == 1
    assert np.array_equal(first, np.arange(6.0))


def test_other_contents_or_layouts_are_other_forms() -> None:
    store = WeightStore()
    make, calls = counted(lambda: np.zeros(4, np.int8))
    keys = [(blob(1), "a"), (blob(2), "a"), (blob(1), "b")]
    assert len({id(get(store, *key, make)) for key in keys}) == 3
    assert len(calls) == 3
    assert store.nbytes == 12
    held = [(p.key, p.nbytes) for p in store.forms]
    assert held == sorted((FormKey.of([tensor], form), 4) for tensor, form in keys)


def test_packed_forms_can_be_read_from_the_store() -> None:
    store = WeightStore()
    form = get(store, blob(1), "a", lambda: np.arange(3))
    [packed] = store.forms
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
    form = get(WeightStore(), blob(1), "a", lambda: values)
    assert np.array_equal(form, values)
    assert (form.dtype, form.shape) == (values.dtype, values.shape)
    assert form.size == 0 or form.ctypes.data % 64 == 0
    assert form.flags.c_contiguous
    assert not form.flags.writeable


def test_an_aligned_result_is_not_copied() -> None:
    mine = aligned_empty(256)
    form = get(WeightStore(), blob(1), "a", lambda: mine)
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
        found.append(get(store, blob(7), "a", make))

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

    other = threading.Thread(target=lambda: get(store, blob(1), "a", make))
    other.start()
    get(store, blob(2), "a", make)
    other.join(timeout=10)
    assert len(store.forms) == 2


def test_a_maker_may_ask_for_another_form() -> None:
    store = WeightStore()
    inner = get(store, blob(1), "outer", lambda: get(store, blob(1), "inner", lambda: np.arange(3)))
    assert inner.tolist() == [0, 1, 2]
    assert [p.key.form for p in store.forms] == ["inner", "outer"]


def test_a_maker_that_asks_for_its_own_result_does_not_hang() -> None:
    store = WeightStore()

    def make() -> Array:
        return get(store, blob(1), "a", make)

    with pytest.raises(RecursionError):
        get(store, blob(1), "a", make)


def test_after_a_failure_the_next_call_tries_again() -> None:
    store = WeightStore()

    def fail() -> Array:
        raise MemoryError("no room")

    with pytest.raises(MemoryError):
        get(store, blob(1), "a", fail)
    assert store.forms == ()
    assert get(store, blob(1), "a", lambda: np.ones(1)).tolist() == [1]


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


QUANTIZED: tuple[Encoding | None, ...] = (
    None,
    ScaleOffset(0.5, 0),
    ScaleOffset(0.25, 0),
    ScaleOffset(0.5, -1),
    AxisScaleOffset(0, np.array([0.5, 0.5], np.float32), None),
    AxisScaleOffset(0, np.array([0.5, 0.25], np.float32), None),
)


def test_equal_bytes_with_other_encodings_are_other_forms() -> None:
    store = WeightStore()
    tensors = [
        Tensor.static("w", np.array([1, 2], np.uint8), DType.UFIXED_POINT_8, encoding=encoding)
        for encoding in QUANTIZED
    ]
    make, calls = counted(lambda: np.zeros(1))
    for tensor in (*tensors, *tensors):
        get(store, tensor, "a", make)
    assert len(calls) == len(QUANTIZED) == len(store.forms)


def test_a_form_of_several_inputs_depends_on_all_of_them() -> None:
    store = WeightStore()
    make, calls = counted(lambda: np.zeros(1))
    cases = [(blob(1), blob(2)), (blob(2), blob(1)), (blob(1), None), (None, blob(1))]
    for inputs in cases:
        store.packed(inputs, "joined", lambda *_: make())
    assert len(calls) == len(cases)
    with pytest.raises(ValueError, match="no input of the form 'joined' has data"):
        store.packed([None], "joined", lambda *_: make())


def test_a_maker_gets_stored_elements_and_specs() -> None:
    tensor = Tensor.static("w", np.array([-3, 4]), DType.SFIXED_POINT_4)

    def make(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
        assert arrays[1] is specs[1] is None
        assert arrays[0] is not None
        assert specs[0] == tensor.spec
        assert (arrays[0].tolist(), arrays[0].dtype) == ([-3, 4], np.int8)
        return arrays[0]

    assert WeightStore().packed([tensor, None], "unpacked", make).data.tolist() == [-3, 4]


def test_constants_are_shared_by_content() -> None:
    store = WeightStore()
    first, second = (store.constant(np.arange(n, dtype=np.float32)) for n in (3, 3))
    assert first.data is second.data
    others = [store.constant(a) for a in (np.arange(3, dtype=np.int32), np.zeros((3, 1)))]
    assert len({first.key, *(other.key for other in others)}) == 3


def test_siblings_find_computed_forms_by_key() -> None:
    store = WeightStore()
    key = FormKey.of([blob(1)], "a")
    assert store.lookup(key) is None
    form = get(store, blob(1), "a", lambda: np.arange(3))
    found = store.sibling().lookup(key)
    assert found is not None
    assert found.data is form


class Resident:
    """A form in the memory of a device."""

    def __init__(self, values: Array) -> None:
        self.values = values

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def to_host(self) -> Array:
        return self.values.copy()


def test_forms_in_other_spaces_can_be_read_back() -> None:
    store = WeightStore()
    upload: Any = lambda arrays, specs: Resident(arrays[0])  # noqa: E731 - an untyped make
    found = store.packed([blob(1, 2)], "a", upload, space="device")
    host = store.packed([blob(1, 2)], "a", lambda arrays, specs: np.zeros(2))
    assert found.data is not host.data
    assert isinstance(found.data, Resident)
    assert [form.to_host().tolist() for form in (found, host)] == [[1, 2], [0, 0]]
    assert store.nbytes == 2 + 16


def test_siblings_take_forms_from_each_other_as_long_as_one_holds_them() -> None:
    first = WeightStore()
    second, third = first.sibling(), first.sibling()
    make, calls = counted(lambda: np.arange(6.0))
    form = get(second, blob(1), "a", make)
    assert get(third, blob(1), "a", make) is form
    assert first.forms == ()  # it was not asked
    assert second.nbytes == third.nbytes == 48
    del second, form
    gc.collect()
    get(first, blob(1), "a", make)
    assert len(calls) == 1
    del first, third
    other = WeightStore()
    get(other, blob(1), "a", make)
    assert len(calls) == 2
    pool = other.sibling()
    del other
    gc.collect()
    get(pool, blob(1), "a", make)
    assert len(calls) == 3
