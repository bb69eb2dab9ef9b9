"""The tables: every row is of an op of the standard set, and fits its declared ports."""

import json

import pytest

from dovetail.cli import main
from dovetail_htp import types
from dovetail_htp.processors import FAMILIES

ROWS = [
    (table, op, row)
    for table in FAMILIES
    for op in types.ops(table)
    for row in types.rows(table, op)
]


def test_the_tables_have_the_ops_of_their_source_but_the_sparse_ones() -> None:
    counted = {table: len(types.ops(table)) for table in FAMILIES}
    assert counted == {"htp": 117, "dsp": 100, "hta": 25, "lpai": 46}


@pytest.mark.parametrize(("table", "op", "row"), ROWS, ids=lambda x: str(getattr(x, "text", x)))
def test_a_row_has_the_ports_of_its_op(ops, table, op, row) -> None:
    schema = ops.find("qti.aisw", op)
    for ports, declared in ((row.ins, schema.inputs), (row.outs, schema.outputs)):
        if not declared[-1].variadic:
            assert not ports.variadic
            assert len(ports.types) <= len(declared)
        required = sum(not port.optional for port in declared)
        assert len(ports.types) >= required


def test_a_row_is_as_it_is_written() -> None:
    (row,) = types.rows("lpai", "Concat")
    assert row.text == "s8|u16* > s8|u16"
    assert str(row) == (
        "in[0..] SFIXED_POINT_8 or UFIXED_POINT_16; out[0] SFIXED_POINT_8 or UFIXED_POINT_16"
    )
    assert row.ins.at(5) == row.ins.at(0)
    assert row.outs.at(1) is None


def test_the_command_lists_ops_and_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "plugins", "show", "htp", "--ops"]) == 0
    found = json.loads(capsys.readouterr().out)["ops"]
    assert len(found) == 117
    assert found["LayerNorm"][3].endswith("out[0] UFIXED_POINT_16 (since v73)")
    assert main(["plugins", "show", "libQnnDspV66Stub.so", "--ops"]) == 0
    assert "in[0] UFIXED_POINT_8 or SFIXED_POINT_8; out[0]" in capsys.readouterr().out


def test_the_command_lists_the_types_of_an_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {}
    for name in ("htp", "htp:v69", "libQnnHtpV73Stub.so"):
        assert main(["--json", "plugins", "show", name, "--ops"]) == 0
        listed[name] = json.loads(capsys.readouterr().out)["ops"]["LayerNorm"]
    newer = [row for row in listed["htp"] if row.endswith("(since v73)")]
    assert newer
    assert listed["libQnnHtpV73Stub.so"] == listed["htp"]
    assert listed["htp:v69"] == [row for row in listed["htp"] if row not in newer]
    assert main(["plugins", "show", "htp:v99", "--ops"]) == 2
    assert "unsupported architecture 'v99' of 'htp'" in capsys.readouterr().err
