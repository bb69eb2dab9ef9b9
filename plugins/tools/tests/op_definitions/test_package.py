"""Op definitions as an op package: its schemas are the XML's, its shapes as far as these say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import OpError, UnsupportedOpError
from dovetail.ir import DType, ScaleOffset, Spec
from dovetail.ops import REQUIRED, OpPackage, OpSchema
from dovetail_tools.op_definitions import load_definitions, make_package, read_definitions

XML = """\
<OpDefCollection PackageName="Shop" Domain="shop.ops" Version="2.1">
  <OpDefList>
    <OpDef>
      <Name>Blend</Name>
      <Description><Content>Mixes images.</Content></Description>
      <Input>
        <Name>weights</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>1D</Rank><Text>[c]</Text></Shape>
      </Input>
      <Input>
        <Name>images</Name>
        <Datatype>QNN_DATATYPE_FLOAT_32</Datatype><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
        <Shape><Rank>4D</Rank><Text>[n, h, w, c]</Text></Shape><Repeated>true</Repeated>
      </Input>
      <Output>
        <Name>y</Name><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
        <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>4D</Rank><Text>[n, 2 * h, w - 3, c / 2]</Text></Shape>
      </Output>
      <Output>
        <Name>index</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_INT_32</Datatype>
        <Shape><Rank>2D</Rank></Shape>
      </Output>
      <Parameter>
        <Name>mode</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>HARD</Default>
        <Enumeration><Enum>SOFT</Enum><Enum>HARD</Enum></Enumeration>
      </Parameter>
      <Parameter>
        <Name>taps</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>2D</Rank></Shape><Default>[[1, 0.5]]</Default>
      </Parameter>
      <Parameter>
        <Name>limit</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
      </Parameter>
      <Parameter>
        <Name>seed</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_INT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
      </Parameter>
    </OpDef>
    <OpDef>
      <Name>Any</Name>
      <Input>
        <Name>x</Name><Mandatory>false</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype>
      </Input>
      <Output><Name>y</Name><Datatype>BACKEND_SPECIFIC</Datatype></Output>
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""
FLOAT, FIXED = DType.FLOAT_32, DType.UFIXED_POINT_8
WEIGHTS = Spec(FLOAT, (6,))


@pytest.fixture
def package(tmp_path: Path) -> OpPackage:
    path = tmp_path / "shop.xml"
    path.write_text(XML)
    (made,) = load_definitions([path])
    return made


@pytest.fixture
def blend(package: OpPackage) -> OpSchema:
    return package.schemas["Blend"]


def infer(
    schema: OpSchema, ins: list[Spec | None], outs: list[Spec | None] | None = None
) -> tuple[Spec, ...]:
    params = {"limit": 1.0} if "limit" in schema.params else {}
    return schema.infer(schema.op(ins, **params), ins, outs or [])


def test_schemas_are_those_of_the_xml(package: OpPackage) -> None:
    assert (package.name, package.version, list(package.schemas)) == (
        "Shop",
        "2.1",
        ["Blend", "Any"],
    )
    blend = package.schemas["Blend"]
    assert [(p.name, p.dtypes, p.optional, p.variadic) for p in blend.inputs] == [
        ("weights", (FLOAT,), False, False),
        ("images", (FLOAT, FIXED), False, True),
    ]
    assert [(p.name, p.dtypes, p.optional, p.variadic) for p in blend.outputs] == [
        ("y", (FIXED, FLOAT), False, False),
        ("index", (DType.INT_32,), True, False),
    ]
    assert (blend.op.__doc__, blend.op.__name__) == ("Mixes images.", "Blend")
    assert blend.op.source.endswith("shop.xml:3")
    assert package.schemas["Any"].inputs[0].dtypes == ()  # a backend's affair, and none says it


def test_params_have_their_types_defaults_and_choices(blend: OpSchema) -> None:
    mode, taps, limit, seed = (blend.params[name] for name in ("mode", "taps", "limit", "seed"))
    assert (mode.dtypes, mode.default, mode.is_tensor) == ((DType.UINT_32,), 1, False)
    assert mode.choices is not None
    assert {c.name: int(c) for c in mode.choices} == {"SOFT": 0, "HARD": 1}
    assert (taps.is_tensor, taps.shape) == (True, (None, None))
    assert taps.default.dtype == np.float32
    np.testing.assert_array_equal(taps.default, [[1, 0.5]])
    assert limit.default is REQUIRED
    assert seed.default is None


def test_shapes_come_from_the_text(blend: OpSchema) -> None:
    image = Spec(FIXED, (1, 5, 7, 9), ScaleOffset(0.5, 0))
    # c is 6, of the first input that names it; the type is the first input's
    (y,) = infer(blend, [WEIGHTS, image, image])
    assert (y.dtype, y.shape) == (FLOAT, (1, 10, 4, 3))


def test_types_and_what_the_text_does_not_say_come_from_the_graph(blend: OpSchema) -> None:
    image = Spec(FLOAT, (1, 5, 7, 9))
    declared = Spec(FIXED, (1, 10, 4, 3), ScaleOffset(0.5, -3))
    index = Spec(DType.INT_32, (8, 2))
    assert infer(blend, [WEIGHTS, image], [declared, index]) == (declared, index)
    other = Spec(FIXED, (1, 10, 4, 4), ScaleOffset(0.5, -3))
    # the definition's shape, not the graph's: checking the graph then finds that they differ
    assert infer(blend, [WEIGHTS, image], [other]) == (declared,)


@pytest.mark.parametrize(
    ("ins", "outs", "said"),
    [
        ([Spec(FLOAT, (6, 1)), Spec(FLOAT, (1, 5, 7, 6))], [], r"'weights' has the shape \(6, 1\)"),
        ([WEIGHTS, Spec(FLOAT, (5, 7, 6))], [], "its definition requires 4D"),
        ([WEIGHTS, Spec(FLOAT, (1, 5, 7, 6)), Spec(FLOAT, ())], [], "its definition requires 4D"),
        ([WEIGHTS, Spec(FLOAT, (1, 5, 2, 6))], [], r"w - 3, c / 2\] would be \(1, 10, -1, 3\)"),
        ([WEIGHTS], [], "missing input 'images'"),
        (
            [WEIGHTS, Spec(FLOAT, (1, 5, 7, 6))],
            [None, Spec(DType.INT_32, (1,))],
            r"'index' has the shape \(1,\); its definition requires 2D",
        ),
        (
            [WEIGHTS, Spec(FLOAT, (1, 5, 7, 6))],
            [Spec(DType.INT_8, (1, 10, 4, 3))],
            "'y' is INT_8; the definition allows UFIXED_POINT_8, FLOAT_32",
        ),
    ],
)
def test_what_the_definition_forbids_is_refused(
    blend: OpSchema, ins: list[Spec | None], outs: list[Spec | None], said: str
) -> None:
    with pytest.raises(OpError, match=said):
        infer(blend, ins, outs)


def test_an_output_that_nothing_says_is_refused(package: OpPackage) -> None:
    schema = package.schemas["Any"]
    with pytest.raises(OpError, match="unknown shape of output 'y'") as caught:
        infer(schema, [WEIGHTS])
    assert "value_info" in caught.value.hint
    assert infer(schema, [None], [WEIGHTS]) == (WEIGHTS,)


def test_a_quotient_by_an_extent_of_0_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.xml"
    path.write_text(XML.replace("c / 2", "h / c"))
    blend = make_package(read_definitions(path)).schemas["Blend"]
    assert infer(blend, [WEIGHTS, Spec(FLOAT, (1, 13, 7, 6))])[0].shape == (1, 26, 4, 2)
    with pytest.raises(OpError, match=r"division by 0 in the shape .* h / c\]"):
        infer(blend, [Spec(FLOAT, (0,)), Spec(FLOAT, (1, 5, 7, 0))])


def test_a_list_of_extents_is_a_rank(tmp_path: Path) -> None:
    path = tmp_path / "shop.xml"
    path.write_text(XML.replace("<Rank>4D", "<Rank>ND"))
    with pytest.raises(OpError, match="its definition requires 4D"):
        infer(make_package(read_definitions(path)).schemas["Blend"], [WEIGHTS, Spec(FLOAT, (1, 2))])


def test_there_is_no_code(blend: OpSchema) -> None:
    ones = np.ones((1, 5, 7, 6), np.float32)
    with pytest.raises(UnsupportedOpError, match="op 'Blend' is defined, but has no code"):
        blend.reference(blend.op([], limit=1.0), [ones], [Spec(FLOAT, (1, 10, 4, 3))])
