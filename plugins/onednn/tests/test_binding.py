"""The binding: handles, descriptors, layouts, errors."""

from __future__ import annotations

import functools
import gc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dovetail.errors import BackendError
from dovetail.ir import DType, Spec
from dovetail.runtime.plan import Storage, Value
from dovetail_onednn import OneDnnLayout, checked_library, library
from dovetail_onednn._api import Arg
from dovetail_onednn.descriptors import Memory, MemoryDesc
from dovetail_onednn.errors import check, failure
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import dense, filters, images, layout_of, vector
from dovetail_onednn.primitives import Primitive, reorder_primitive
from dovetail_onednn.reorder import pack, reorder
from dovetail_onednn.threads import threads


@pytest.fixture
def geometry() -> Geometry:
    """3 to 16 channels of 8 x 8."""
    return Geometry(
        images((1, 8, 8, 3)),
        filters((3, 3, 3, 16), 1),
        vector(16),
        images((1, 8, 8, 16)),
        stride=(1, 1),
        dilation=(1, 1),
        before=(1, 1),
        after=(1, 1),
    )


def test_an_impossible_descriptor_is_described(geometry: Geometry) -> None:
    wrong = replace(geometry, target=images((1, 9, 8, 16)))
    with pytest.raises(BackendError) as caught:
        convolution_desc(wrong)
    text = str(caught.value)
    assert "status 2 (invalid arguments" in text
    assert "a float32 convolution: source 1x3x8x8, filters 16x3x3x3, bias 16" in text
    assert "result 1x16x9x8, stride (1, 1), dilation (1, 1), pads (1, 1) and (1, 1)" in text
    assert caught.value.code == "BACKEND_FAILED"


def test_a_reorder_between_tensors_of_other_extents_is_refused(geometry: Geometry) -> None:
    with pytest.raises(BackendError, match=r"a reorder from t3:1x3x8x8.* to t3:1x16x8x8"):
        reorder_primitive(geometry.source, geometry.target)


def test_statuses() -> None:
    check(0, "nothing")
    with pytest.raises(BackendError, match=r"status 1 \(out of memory\): a big thing"):
        check(1, "a big thing")
    assert "status 99 (undocumented status)" in failure(99, "").message


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the number of objects of each kind that were created since and still exist."""
    functions = checked_library().functions  # the check makes some
    gc.collect()  # descriptors that exist are shared
    counts: Counter[str] = Counter()
    engine()  # there is one per process, which is never freed

    def counted(function: Any, kind: str, by: int, *arguments: Any) -> Any:
        status = function(*arguments)
        counts[kind] += by if status == 0 else 0
        return status

    for name, function in list(functions.items()):
        for suffix, by in (("_create", 1), ("_clone", 1), ("_destroy", -1)):
            kind = name.split("_create_with")[0].removesuffix(suffix)
            kind = "primitive_desc" if kind.endswith("primitive_desc") else kind
            if name.endswith(suffix) or (suffix == "_create" and "_create_with" in name):
                bound = functools.partial(counted, function, kind, by)
                monkeypatch.setitem(functions, name, bound)
    return counts


@pytest.mark.usefixtures("blocked")
def test_all_objects_are_freed_with_their_plan(model: Any, alive: Counter[str]) -> None:
    y = model.conv(model.input("x", 1, 8, 8, 3), "conv", 16)
    model.output(model.add("Relu", y, name="relu"))
    with threads(1):
        prepared = model.prepare()
    # a plan keeps compiled primitives and layouts, not descriptors but those for fewer threads
    assert alive["primitive"] == 3
    assert alive["memory_desc"] > 0
    assert alive["primitive_desc"] == alive["primitive_attr"] == alive["post_ops"] == 0

    model.run(prepared, model.feeds())
    once = dict(alive)
    assert once["memory"] > 0
    assert once["stream"] == 3
    for _ in range(5):  # other buffers each time
        model.run(prepared, model.feeds())
    assert dict(alive) == once

    del prepared
    assert {kind for kind, count in alive.items() if count} == set()


def test_a_failure_while_planning_frees_what_was_made(
    geometry: Geometry, alive: Counter[str]
) -> None:
    convolution_desc(geometry).close()
    before = dict(alive)  # the geometry's descriptors, which are created when they are needed
    with pytest.raises(BackendError):
        convolution_desc(replace(geometry, stride=(0, 1)))
    assert dict(alive) == before


def test_closing_frees_once_and_the_rest_is_refused(alive: Counter[str]) -> None:
    memory = Memory(vector(3), 0)
    assert alive["memory"] == 1
    assert memory.is_open
    for _ in range(2):
        memory.close()
        assert alive["memory"] == 0
        assert not memory.is_open
    assert memory.address == 0
    with pytest.raises(BackendError, match="invalid arguments"):
        memory.move(64)


def test_a_descriptor_is_created_when_it_is_needed_and_shared(alive: Counter[str]) -> None:
    desc = MemoryDesc.strided((3, 77), (77, 1))
    assert MemoryDesc.strided((3, 77), (77, 1)) is desc
    assert MemoryDesc.any((3, 77)) is MemoryDesc.any((3, 77))
    assert alive["memory_desc"] == 0
    assert desc.nbytes == 3 * 77 * 4
    assert alive["memory_desc"] == 1
    assert dense((3, 77)).address == desc.address
    assert alive["memory_desc"] == 1
    del desc
    assert alive["memory_desc"] == 0


def test_descriptors_are_compared_by_what_they_describe() -> None:
    one, same = images((2, 4, 5, 6)), images((2, 4, 5, 6))
    assert one == same
    assert hash(one) == hash(same)
    others = [
        images((2, 5, 4, 6)),
        MemoryDesc.strided(one.dims, (120, 20, 5, 1)),
        MemoryDesc.any(one.dims),
        vector(6),
    ]
    for other in others:
        assert one != other
        assert one.key != other.key
    assert one != "something else"
    # the stride of an axis of size 1 does not matter
    a, b = MemoryDesc.strided((1, 3), (3, 1)), MemoryDesc.strided((1, 3), (77, 1))
    assert a == b
    assert hash(a) == hash(b)


def test_layouts_have_their_padding_in_nbytes(geometry: Geometry) -> None:
    with convolution_desc(
        replace(geometry, weights=filters((3, 3, 3, 5), 1), bias=None, target=images((1, 8, 8, 5)))
    ) as desc:
        layout = layout_of(desc.desc(Arg.DESTINATION), images((1, 8, 8, 5)))
    assert layout is not None
    assert layout.nbytes > 8 * 8 * 5 * 4
    assert layout.nbytes % (8 * 8 * 4) == 0
    assert layout == layout_of(layout.desc, images((1, 8, 8, 5)))
    assert layout_of(images((1, 8, 8, 5)), layout.dense) is None


@pytest.mark.parametrize(("shape", "groups"), [((3, 2, 4, 5), 1), ((3, 2, 4, 6), 2)])
def test_filters_are_packed_as_the_library_names_them(shape: tuple[int, ...], groups: int) -> None:
    data = np.random.default_rng(0).standard_normal(shape, np.float32)
    h, w, c, k = shape
    grouped = data.reshape(h, w, c, groups, k // groups).transpose(3, 4, 2, 0, 1)
    dense = filters(shape, groups)
    dims = grouped.shape if groups > 1 else grouped.shape[1:]
    strides = tuple(s // 4 for s in np.empty(dims, np.float32).strides)
    packed = pack(data, OneDnnLayout(MemoryDesc.strided(dims, strides), dense))
    np.testing.assert_array_equal(packed.view(np.float32), grouped.reshape(-1))


def test_there_and_back_keeps_every_element() -> None:
    data = np.random.default_rng(0).standard_normal((2, 5, 6, 7), np.float32)
    dense = images(data.shape)
    planes = OneDnnLayout(MemoryDesc.strided(dense.dims, (7 * 30, 30, 6, 1)), dense)
    packed = pack(data, planes)
    np.testing.assert_array_equal(
        packed.view(np.float32).reshape(2, 7, 5, 6), data.transpose(0, 3, 1, 2)
    )
    back = np.empty_like(data)
    spec = Spec(DType.FLOAT_32, data.shape)
    source = Value("v", spec, Storage.CONSTANT, planes, array=packed)
    target = Value("v", spec, Storage.CONSTANT, array=back)
    reorder(source, target).bind(Constants())()
    np.testing.assert_array_equal(back, data)


def test_a_call_outside_a_plan_brings_its_own_scratchpad(model: Any, close: Any) -> None:
    # 3 groups of 5 channels fit no block, so the library unfolds the windows into its scratchpad
    model.output(model.conv(model.input("x", 1, 8, 8, 15), "y", 15, group=3, bias=False))
    feeds = model.feeds()
    shapes = images((1, 8, 8, 15)), filters((3, 3, 5, 15), 3)
    ones = (1, 1)
    geometry = Geometry(shapes[0], shapes[1], None, shapes[0], ones, ones, ones, ones)
    with convolution_desc(geometry) as desc:
        primitive = Primitive(desc)
        descs = [desc.desc(arg) for arg in (Arg.SOURCE, Arg.WEIGHTS, Arg.DESTINATION)]
    assert primitive.scratchpad.nbytes > 0
    dense = (shapes[0], shapes[1], shapes[0])
    x, w, y = (OneDnnLayout(d, plain) for d, plain in zip(descs, dense, strict=True))
    source, weights = pack(feeds["x"], x), pack(model.graph.tensor("y.w").stored(), w)
    result, back = np.empty(y.nbytes, np.uint8), np.empty((1, 8, 8, 15), np.float32)
    arrays = {Arg.SOURCE: source, Arg.WEIGHTS: weights, Arg.DESTINATION: result}
    places = {
        arg: (d, int(a.ctypes.data)) for (arg, a), d in zip(arrays.items(), descs, strict=True)
    }
    call = primitive.bind(places)
    del primitive  # the call keeps references to what it needs
    call()
    reorder_primitive(y.desc, y.dense).bind(
        {
            Arg.SOURCE: (y.desc, int(result.ctypes.data)),
            Arg.DESTINATION: (y.dense, int(back.ctypes.data)),
        }
    )()
    close(back, model.expected(feeds)["y"])


class Constants:
    """Buffers of constants only."""

    def array(self, value: Value) -> Any:
        return value.array

    def address(self, value: Value) -> int:
        return int(self.array(value).ctypes.data)


def test_an_interrupted_move_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (np.zeros(16, np.float32) for _ in range(2))
    memory = Memory(vector(16), int(first.ctypes.data))
    functions = library().functions
    moved: list[int] = []

    def interrupted(handle: Memory, address: int) -> int:
        moved.append(address)
        raise KeyboardInterrupt

    def completed(handle: Memory, address: int) -> int:
        moved.append(address)
        return 0

    monkeypatch.setitem(functions, "memory_set_data_handle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory.move(int(second.ctypes.data))
    monkeypatch.setitem(functions, "memory_set_data_handle", completed)
    memory.move(int(first.ctypes.data))
    assert moved == [second.ctypes.data, first.ctypes.data]
