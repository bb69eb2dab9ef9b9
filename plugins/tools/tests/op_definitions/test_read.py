"""Op definitions in XML: everything that a file may hold, and every fault with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import ConfigError
from dovetail.ir import DType
from dovetail_tools.op_definitions import (
    Definitions,
    Layout,
    default_value,
    read_definitions,
    unexpressed,
)

FULL = """\
<?xml version="1.0" encoding="UTF-8"?>
<OpDefCollection xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" PackageName="Shop"
    Domain="shop.ops" Version="2.1.0" xs:noNamespaceSchemaLocation="OpDef.xsd">
  <OpDefList>
    <OpDef>
      <Name>Blend</Name>
      <Description><Content>Mixes images.</Content><Code>a * (1 - t) + b * t</Code></Description>
      <Reference Source="A paper" Url="https://example.org/paper"/>
      <Input>
        <Name>images</Name>
        <Description><Content>What is mixed.</Content></Description>
        <Mandatory>true</Mandatory>
        <Constraint id="0" Type="Shape">All of one shape.</Constraint>
        <Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>[n, h, w, c]</Text></Shape>
        <Repeated>true</Repeated>
      </Input>
      <Output>
        <Name>out[0]</Name>
        <Mandatory>true</Mandatory>
        <Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>[n, 2 * h, w - 1, c / 2]</Text></Shape>
      </Output>
      <Output>
        <Name>count</Name>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Datatype>QNN_DATATYPE_INT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
      </Output>
      <Parameter>
        <Name>mode</Name>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Default>HARD</Default>
        <Enumeration><Enum>SOFT</Enum><Enum>HARD</Enum></Enumeration>
      </Parameter>
      <Parameter>
        <Name>taps</Name>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>2D</Rank><Text>2 rows</Text></Shape>
        <Constraint id="1" Type="Value">Rows add up to 1.</Constraint>
        <Default>[[0.5, 0.5], [1, 0]]</Default>
      </Parameter>
      <Parameter>
        <Name>exact</Name>
        <Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_BOOL_8</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Default>true</Default>
      </Parameter>
      <UseDefaultTranslation>true</UseDefaultTranslation>
      <SupportedBackend>CPU</SupportedBackend>
      <SupportedBackend>HTP</SupportedBackend>
    </OpDef>
    <OpDef>
      <Name>Table</Name>
      <Input>
        <Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>ND</Rank></Shape>
      </Input>
      <Input>
        <Name>table</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>1</Rank><Layout>UNDEFINED</Layout></Shape>
        <Default>zeros</Default><IsStaticTensor>true</IsStaticTensor>
      </Input>
      <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output>
    </OpDef>
  </OpDefList>
  <SupplementalOpDefList Backend="CPU">
    <SupportedOps><OpName>Blend</OpName><OpName>Table</OpName></SupportedOps>
    <SupplementalOpDef>
      <Name>Blend</Name>
      <Input><Name>images</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Input>
      <Output><Name>out[0]</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output>
    </SupplementalOpDef>
  </SupplementalOpDefList>
  <SupplementalOpDefList Backend="HTP">
    <SupplementalOpDef>
      <Name>Blend</Name>
      <Input>
        <Name>images</Name>
        <Constraint id="0" Type="Number">At most 4.</Constraint>
        <Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
        <Shape><Rank>4D</Rank></Shape>
      </Input>
      <Output><Name>out[0]</Name><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype></Output>
      <Parameter><Name>mode</Name><OnlyDefaultSupported>true</OnlyDefaultSupported></Parameter>
    </SupplementalOpDef>
  </SupplementalOpDefList>
</OpDefCollection>
"""


@pytest.fixture
def definitions(tmp_path: Path) -> Definitions:
    path = tmp_path / "shop.xml"
    path.write_text(FULL)
    return read_definitions(path)


def test_everything_is_read(definitions: Definitions) -> None:
    assert (definitions.package, definitions.domain) == ("Shop", "shop.ops")
    assert definitions.version == "2.1.0"
    blend, table = definitions.ops
    assert (blend.name, blend.line) == ("Blend", 5)
    assert (blend.description, blend.code) == ("Mixes images.", "a * (1 - t) + b * t")
    assert blend.references == (("A paper", "https://example.org/paper"),)
    assert blend.backends == ("CPU", "HTP")
    assert blend.uses_default_translation
    (images,) = blend.inputs
    assert (images.is_mandatory, images.is_repeated, images.is_static) == (True, True, False)
    assert images.description == "What is mixed."
    assert images.all_dtypes == (DType.FLOAT_32, DType.UFIXED_POINT_8)
    assert images.by_backend == {"CPU": (DType.FLOAT_32,), "HTP": (DType.UFIXED_POINT_8,)}
    assert images.shape is not None
    assert (images.shape.rank, images.shape.layout) == (4, Layout.NHWC)
    assert [(c.kind, c.text, c.line) for c in images.constraints] == [
        ("Shape", "All of one shape.", 13),
        ("Number", "At most 4. (HTP)", 85),
    ]
    count = blend.outputs[1]
    assert (count.is_mandatory, count.dtypes) == (False, (DType.UINT_32, DType.INT_32))
    assert count.shape is not None
    assert count.shape.rank == 0
    mode, taps, exact = blend.params
    assert (mode.choices, default_value(mode), mode.only_default) == (("SOFT", "HARD"), 1, ("HTP",))
    np.testing.assert_array_equal(default_value(taps), [[0.5, 0.5], [1, 0]])
    assert default_value(exact) is True
    x, other = table.inputs
    assert x.shape is not None
    assert x.shape.rank is None
    assert (other.is_static, other.default) == (True, "zeros")
    assert table.outputs[0].shape is None


def test_types_of_a_supplement_join_those_of_the_definition(tmp_path: Path) -> None:
    path = tmp_path / "shop.xml"
    added = """<SupplementalOpDef>
      <Name>Table</Name>
      <Input><Name>x</Name><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype></Input>
      <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output>
    </SupplementalOpDef>
  </SupplementalOpDefList>
</OpDefCollection>"""
    end = "</SupplementalOpDefList>\n</OpDefCollection>"
    assert end in FULL
    path.write_text(FULL.replace(end, added))
    definitions = read_definitions(path)
    table = definitions.ops[1]
    assert table.inputs[0].all_dtypes == (DType.FLOAT_32, DType.UFIXED_POINT_8)
    assert table.outputs[0].all_dtypes == (DType.FLOAT_32,)
    told = [r.text for r in unexpressed(definitions) if r.op == "Table"]
    assert "input 'x': HTP supports only UFIXED_POINT_8" in told


def test_what_a_schema_cannot_hold_is_listed(definitions: Definitions) -> None:
    told = [f"{r.line} {r.op}: {r.text}" for r in unexpressed(definitions)]
    assert told == [
        "5 Blend: UseDefaultTranslation: importers decide whether a model can have the op",
        "5 Blend: code of the description: a * (1 - t) + b * t",
        "9 Blend: input 'images': CPU supports only FLOAT_32",
        "9 Blend: input 'images': HTP supports only UFIXED_POINT_8",
        "13 Blend: input 'images': constraint (Shape): All of one shape.",
        "15 Blend: input 'images': layout NHWC",
        "18 Blend: output 'out[0]': CPU supports only FLOAT_32",
        "18 Blend: output 'out[0]': HTP supports only UFIXED_POINT_8",
        "22 Blend: output 'out[0]': layout NHWC",
        "31 Blend: parameter 'mode': HTP supports only the default",
        "43 Blend: parameter 'taps': shape in words: 2 rows",
        "44 Blend: parameter 'taps': constraint (Value): Rows add up to 1.",
        "64 Table: input 'table': default: zeros",
        "64 Table: input 'table': data must be known before the graph runs (IsStaticTensor)",
        "85 Blend: input 'images': constraint (Number): At most 4. (HTP)",
    ]


# (what is replaced in FULL, by what, line, what is said)
FAULTS = [
    ('PackageName="Shop"', "", 2, "missing attribute PackageName"),
    (
        "Domain=",
        "Domian=",
        2,
        "unknown attribute 'Domian' of <OpDefCollection>; did you mean 'Domain'?",
    ),
    ("      <Name>Blend</Name>\n      <Desc", "      <Desc", 5, "missing <Name> in <OpDef>"),
    ("<Name>Blend</Name>\n      <D", "<Name>Bl end</Name>\n      <D", 6, "invalid name 'Bl end'"),
    ("<Name>Table</Name>", "<Name>Blend</Name>", 58, "duplicate op 'Blend' (see line 5)"),
    (
        "<Mandatory>true</Mandatory>\n        <Con",
        "<Mandatory>maybe</Mandatory>\n<Con",
        12,
        "maybe",
    ),
    (
        "<Rank>ND</Rank>",
        "<Rank>xD</Rank>",
        62,
        "invalid rank 'xD'; expected SCALAR, 1D, 2D, ... or ND",
    ),
    (
        "<Rank>4D</Rank><Layout>NHWC",
        "<Rank>3D</Rank><Layout>NHWC",
        15,
        "requires 4 dimensions, got 3",
    ),
    ("<Layout>NHWC", "<Layout>NWHC", 15, "unsupported layout 'NWHC'; expected one of NHWC"),
    ("INT_32</Data", "INT_33</Data", 26, "unknown data type 'QNN_DATATYPE_UINT_33'"),
    ("<Repeated>true</Repeated>", "<Repetead/>", 16, "did you mean 'Repeated'?"),
    ('Type="Value"', 'Type="Vlaue"', 44, "did you mean 'Value'?"),
    ("<Default>HARD", "<Default>HRD", 31, "invalid default of 'mode': 'HRD' is neither a number"),
    ("<Default>HARD", "<Default>2", 31, "'2' is unsupported; expected one of SOFT, HARD"),
    ("[[0.5, 0.5], [1, 0]]", "[0.5, 1]", 39, "has rank 1; expected 2"),
    ("[[0.5, 0.5], [1, 0]]", "[[0.5], [1, 0]]", 39, "its rows have different lengths"),
    ("<Default>true", "<Default>2", 47, "'2' cannot be represented in BOOL_8"),
    ("<Enum>SOFT</Enum>", "<Enum>HARD</Enum>", 37, "duplicate <Enum> 'HARD'"),
    ("<Name>mode</Name>\n", "<Name>source</Name>\n", 31, "reserved parameter name 'source'"),
    ("<Name>mode</Name>\n", "<Name>ins</Name>\n", 31, "reserved parameter name 'ins'"),
    ("<Name>mode</Name>\n", "<Name>__slots__</Name>\n", 31, "reserved parameter name '__slots__'"),
    ("<Enum>SOFT</Enum>", "<Enum>mro</Enum>", 37, "reserved name 'mro' in <Enum>"),
    (
        "<Name>exact</Name>",
        "<Name>mode</Name>",
        47,
        "duplicate parameter of op 'Blend'",
    ),
    (">HTP</Supp", ">HTTP</Supp", 56, "unknown backend 'HTTP'; expected one of CPU, GPU, HTP"),
    ("<OpName>Table", "<OpName>Tabel", 75, "unknown op 'Tabel' of CPU; did you mean 'Table'?"),
    ('Backend="CPU"', 'Backend="GPU"', 75, "for GPU, which is not a <SupportedBackend>"),
    ("<Input><Name>images</Name><D", "<Input><Name>imgs</Name><D", 78, "unknown input 'imgs'"),
    ("<Shape><Rank>4D</Rank></Shape>", "<Shape><Rank>2D</Rank></Shape>", 88, "has rank 2 on HTP"),
    ("<OpDef>\n      <Name>Table", "<OpDev>\n      <Name>Table", 58, "not XML: mismatched tag"),
    ("<OpDefCollection x", "<Collection x", 2, "mismatched tag"),
    ('<?xml version="1.0" encoding="UTF-8"?>', "<!DOCTYPE a []>", 1, "a document type"),
    ("<OpDefList>", "<OpDefList>&other;", 4, "undefined entity"),
    ('encoding="UTF-8"', 'encoding="UTF-99"', 1, "unknown encoding"),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), FAULTS)
def test_faults(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    assert old in FULL
    path = tmp_path / "broken.xml"
    path.write_text(FULL.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        read_definitions(path)
    told = [(p.where, p.message) for p in caught.value.problems]
    assert any(said in message for _, message in told), told
    assert caught.value.exit_code == 2


def test_all_faults_at_once_in_order(tmp_path: Path) -> None:
    text = FULL
    for old, new, *_ in (FAULTS[10], FAULTS[6], FAULTS[11], FAULTS[16]):
        text = text.replace(old, new, 1)
    path = tmp_path / "broken.xml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_definitions(path)
    lines = [int(p.where.rpartition(":")[2]) for p in caught.value.problems]
    assert len(lines) == 4
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no element found"),
        (b"\x00\xff\xfe", "not XML"),
        (b"<a>" * 40, "nested more than 32 deep"),
        (b"<OpDefCollection PackageName='x'/>", "no op is defined"),
        (b"<OpDef/>", "root element is <OpDef>; expected <OpDefCollection>"),
    ],
)
def test_what_is_no_collection(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "odd.xml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_definitions(path)
    assert any(said in p.message for p in caught.value.problems)


def test_external_entities_are_never_fetched(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "thief.xml"
    path.write_text(
        '<!DOCTYPE a [<!ENTITY b SYSTEM "secret.txt">]>\n'
        "<OpDefCollection PackageName='&b;'></OpDefCollection>"
    )
    with pytest.raises(ConfigError) as caught:
        read_definitions(path)
    assert "secret" not in str(caught.value).replace("secret.txt", "")
    (problem,) = caught.value.problems
    assert problem.where == f"{path}:1"


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    with path.open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(ConfigError) as caught:
        read_definitions(path)
    assert "larger than 16 MiB" in caught.value.problems[0].message
