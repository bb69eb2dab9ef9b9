"""Every combination of types in a table runs within a step of the real result; no other one does.

The combinations that do not run yet are in `unsupported_rows.json`, see `row_cases`.
"""

import itertools
import json

import pytest
from row_cases import UNSUPPORTED, cases_of, combinations, unsupported

from dovetail.ops import checked_node
from dovetail.testing import Bench
from dovetail.testing.binding import bind
from dovetail_htp import types
from dovetail_htp.processors import FAMILIES, Processor
from dovetail_htp.verdicts import verdict

ROWS = [
    (table, op, row)
    for table in FAMILIES
    for op in types.ops(table)
    for row in types.rows(table, op)
]
KNOWN = json.loads(UNSUPPORTED.read_text())
_ids = {"ids": lambda x: str(getattr(x, "text", x))}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize(("table", "op", "row"), ROWS, **_ids)
def test_a_row_runs(ops, table, op, row) -> None:
    found = unsupported(Bench(table, {"engine": "numpy"}), op, row, ops)
    known = KNOWN.get(table, {}).get(op, {}).get(row.text, {})
    assert found == known, "correct the file: python plugins/htp/tests/helpers/row_cases.py"


def test_all_rows_are_exact_or_named_float_cases() -> None:
    """The op set rejects the types of the other rows in the file."""
    lacking = [
        lacking for of in KNOWN.values() for rows in of.values() for lacking in rows.values()
    ]
    assert {reason for reasons in lacking for reason in reasons} == {"op set"}


def test_the_file_has_no_other_rows() -> None:
    listed = {(t, op, row) for t, of in KNOWN.items() for op, rows in of.items() for row in rows}
    assert listed <= {(table, op, row.text) for table, op, row in ROWS}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("table", FAMILIES)
def test_what_only_other_tables_have_is_rejected(ops, table) -> None:
    family = FAMILIES[table]
    target, rules = Processor(family, family.default), set()
    for other, op, row in ROWS:
        if other == table:
            continue
        for combination in itertools.islice(combinations(row), 8):
            for case in itertools.islice(cases_of(op, combination, ops), 1):
                view, _ = checked_node(bind(case).node(ops.find("qti.aisw", op)), ops)
                assert view is not None
                own = [r for r in types.rows(table, op) if r.since <= target.arch]
                if any(not r.mismatches(view) for r in own):
                    continue
                found = verdict(view, target, lambda: False)
                assert not found.ok
                assert found.rule == ("dtype" if own else "op")
                assert found.found
                assert found.rewrite
                rules.add(found.rule)
    assert rules == {"op", "dtype"} if table != "htp" else rules >= {"dtype"}
