"""Params: fields on the class, values on the op, faults of what a node gives."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Param, Scalar, Spec, Tensor
from dovetail.ops import (
    Op,
    OpRegistry,
    ParamField,
    bool8,
    choice,
    float32,
    int32,
    last_axis,
    scalar,
    tensor,
    uint32,
)
from dovetail.ops.op import param_fields

U32, F32 = DType.UINT_32, DType.FLOAT_32


class Mode(enum.IntEnum):
    NEAREST = 0
    LINEAR = 2


class Base(Op):
    group = uint32()
    axis = uint32(last_axis)


class Child(Base):
    alpha = float32(0.25)
    mode = choice(Mode, Mode.LINEAR)
    keep = bool8(True)
    value = scalar(0, dtypes=(DType.INT_32, F32))
    stride = tensor((2,), [1, 2])
    pads = tensor((None, 2), dtype=DType.INT_32)


def values(**given: object) -> Child:
    return Child((Spec(F32, (2, 3, 4)),), **({"group": 1, "pads": np.zeros((1, 2))} | given))


def test_a_field_is_itself_on_the_class_and_its_value_on_an_op() -> None:
    assert isinstance(Child.group, ParamField)
    assert Child.group.name == "group"
    op = values(group=7)
    assert (op.group, op.alpha, op.mode, op.keep) == (7, 0.25, Mode.LINEAR, True)
    assert list(param_fields(Child)) == [
        "group", "axis", "alpha", "mode", "keep", "value", "stride", "pads"
    ]  # fmt: skip


def test_the_params_of_an_op_do_not_change() -> None:
    op = values()
    with pytest.raises(AttributeError, match="param group of an op cannot be changed"):
        op.group = 3
    assert op.group == 1


def test_a_default_may_depend_on_the_inputs() -> None:
    assert values().axis == 2
    assert values(axis=0).axis == 0
    assert Base((Spec(F32, (5,)),), group=1).axis == 0
    assert Base((None,), group=1).axis == 0
    assert Base((), group=1).axis == 0


def test_array_defaults_have_the_params_type() -> None:
    assert values().stride.dtype == np.uint32
    assert values().stride.tolist() == [1, 2]


def test_what_is_missing_or_unknown_is_refused() -> None:
    with pytest.raises(TypeError, match="missing required param 'group' of Base"):
        Base()
    with pytest.raises(TypeError, match=r"unknown params of Base: \['a', 'b'\]"):
        Base(group=1, b=1, a=2)
    assert Child.group.is_required
    assert not Child.axis.is_required
    with pytest.raises(ValueError, match="group has no default"):
        Child.group.default_value(())


FIELDS = param_fields(Child)


def of(shape: tuple[int, ...], dtype: DType = U32) -> Tensor:
    return Tensor.static("p", np.zeros(shape, dtype.storage), dtype)


@pytest.mark.parametrize(
    ("name", "param", "faults"),
    [
        ("group", Scalar(U32, 3), []),
        ("group", Scalar(F32, 3.0), ["param 'group' is FLOAT_32; allowed: UINT_32"]),
        ("group", Scalar(U32, -1), ["param 'group' is UINT_32, which cannot hold -1"]),
        ("group", Scalar(U32, "3"), ["param 'group' is UINT_32, which cannot hold '3'"]),
        ("group", of((1,)), ["param 'group' must be a scalar"]),
        (
            "group",
            of((1,), DType.INT_8),
            ["param 'group' is INT_8; allowed: UINT_32", "param 'group' must be a scalar"],
        ),
        ("mode", Scalar(U32, 2), []),
        ("mode", Scalar(U32, 1), ["param 'mode' is 1; allowed: NEAREST=0, LINEAR=2"]),
        ("value", Scalar(DType.INT_32, 1), []),
        ("value", Scalar(F32, 1.5), []),
        ("value", Scalar(U32, 1), ["param 'value' is UINT_32; allowed: INT_32, FLOAT_32"]),
        ("stride", of((2,)), []),
        ("stride", Scalar(U32, 1), ["param 'stride' must be a tensor"]),
        ("stride", of((3,)), ["param 'stride' has shape (3,); expected 2"]),
        ("pads", of((5, 2), DType.INT_32), []),
        ("pads", of((5, 3), DType.INT_32), ["param 'pads' has shape (5, 3); expected anyx2"]),
        ("pads", of((2,), DType.INT_32), ["param 'pads' has shape (2,); expected anyx2"]),
    ],
)
def test_every_fault_of_a_param(name: str, param: Param, faults: list[str]) -> None:
    assert FIELDS[name].faults(param) == faults


@pytest.mark.parametrize(
    ("field", "value", "back"),
    [
        (uint32(), 7, 7),
        (int32(), -7, -7),
        (float32(), 0.5, 0.5),
        (bool8(), True, True),
        (choice(Mode), Mode.LINEAR, Mode.LINEAR),
        (choice(Mode), 2, Mode.LINEAR),
        (choice(Mode, dtype=DType.UINT_8), Mode.NEAREST, Mode.NEAREST),
        (tensor((2, 2)), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (tensor(None, dtype=F32), 0.5, 0.5),
    ],
)
def test_a_value_goes_into_the_graph_and_comes_back(
    field: ParamField[object], value: object, back: object
) -> None:
    field.__set_name__(Op, "it")
    param = field.param_of(value, "node")
    assert param.dtype is field.dtypes[0]
    assert field.faults(param) == []
    got = field.value_of(param)
    if isinstance(param, Tensor):
        assert param.name == "node.it"
        assert np.asarray(got).tolist() == back
    else:
        assert type(param.value) in (int, float, bool)  # no enum: it goes into files
        assert type(got) is type(back)
        assert got == back


def test_a_scalar_brings_its_own_type() -> None:
    field = scalar(0.0, dtypes=(F32, DType.INT_64))
    field.__set_name__(Op, "it")
    large = Scalar(DType.INT_64, 2**40 + 1)  # which a float32 cannot hold
    assert field.param_of(large, "node") is large
    assert field.faults(large) == []
    assert field.faults(field.param_of(Scalar(U32, 1), "node")) == [
        "param 'it' is UINT_32; allowed: FLOAT_32, INT_64"
    ]


def test_a_whole_number_of_a_float_type_is_a_float() -> None:
    field = scalar(0.0, dtypes=(F32, DType.INT_32))
    assert type(field.value_of(Scalar(F32, 0))) is float
    assert type(field.value_of(Scalar(DType.INT_32, 0))) is int


def test_params_of_a_node_are_bound_by_the_schema(registry: OpRegistry) -> None:
    schema = registry.find("test.ops", "Scale")
    ins = [Spec(F32, (2, 3))]
    op = schema.bind({"by": Scalar(U32, 3), "mode": Scalar(U32, 0)}, ins)
    assert (op.by, op.inverse, int(op.mode), op.axis, op.pads.shape) == (3, False, 0, 1, (2, 2))
    assert schema.param_faults({"bye": Scalar(U32, 3)}) == [
        "unknown param 'bye'; did you mean 'by'?",
        "missing required param 'by'",
    ]


def test_equal_params_share_their_data_if_they_are_small() -> None:
    axes, factors = tensor((None,)), tensor((None, None), dtype=F32)
    for field in (axes, factors):
        field.__set_name__(Op, "it")

    def data(field: ParamField[Any], values: object) -> object:
        param = field.param_of(values, "node")
        assert isinstance(param, Tensor)
        np.testing.assert_array_equal(param.values(), np.asarray(values))
        return param.data

    array = np.array([0, 3, 1, 2], np.uint32)
    shared = data(axes, array)
    array[:] = 7  # which does not change the data
    assert data(axes, (0, 3, 1, 2)) is shared
    assert data(axes, [0, 3, 1, 2]) is shared
    assert data(axes, (3, 0, 1, 2)) is not shared
    assert data(axes, ()) is data(axes, [])
    assert data(factors, [[0.0, 1.0]]) is not data(factors, [[-0.0, 1.0]])
    assert data(axes, range(1000)) is not data(axes, range(1000))
