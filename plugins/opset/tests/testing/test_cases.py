"""The cases of the op set: every op has some, they agree with the ops, and cover their params."""

from __future__ import annotations

import pytest

from dovetail.testing import ASPECTS, OpSubject, Status, run_aspect, subjects
from dovetail.testing.packages import Aspect
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES

# It has a schema, but nothing that a node of one graph could compute: no case can be written.
CASELESS = {"If"}
SUBJECTS = [s for s in subjects(PACKAGE, CASES) if s.schema.name not in CASELESS]

# Params that no case sets to anything but their default, and why.
INTEGERS = "for integer arithmetic; it does not matter to real values"
UNSET = {
    ("Conv2d", "reuse_sparse_indices"): "sparse tensors are not supported",
    ("Conv3d", "reuse_sparse_indicies"): "sparse tensors are not supported",
    ("Convert", "dynamic_input_data"): "encodings are static",
    ("Convert", "dynamic_output_data"): "encodings are static",
    ("Lstm", "input_gate_qscale"): INTEGERS,
    ("Lstm", "forget_gate_qscale"): INTEGERS,
    ("Lstm", "cell_gate_qscale"): INTEGERS,
    ("Lstm", "output_gate_qscale"): INTEGERS,
    ("Lstm", "hidden_state_qscale"): INTEGERS,
    ("Lstm", "hidden_state_offset"): INTEGERS,
}


@pytest.mark.parametrize("aspect", ASPECTS, ids=lambda aspect: aspect.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.schema.name)
def test_ops_are_what_their_cases_say(subject: OpSubject, aspect: Aspect) -> None:
    found = run_aspect(subject, aspect)
    assert found.status is not Status.FAILED, found.reason


def test_every_op_has_a_case() -> None:
    missing = sorted(s.schema.name for s in SUBJECTS if not s.cases)
    assert not missing, f"ops without a case: {', '.join(missing)}"


def test_every_param_is_set_by_a_case() -> None:
    unset = {
        (s.schema.name, param)
        for s in SUBJECTS
        for param in s.schema.params
        if not any(param in case.params for case in s.cases)
    }
    assert unset == set(UNSET)


def test_every_choice_is_made_by_a_case() -> None:
    lacking = [
        f"{s.schema.name} {param}={choice.name}"
        for s in SUBJECTS
        for param, field in s.schema.params.items()
        for choice in field.choices or ()
        if not any(case.params.get(param, field.default) == choice for case in s.cases)
    ]
    assert not lacking


def test_every_optional_input_is_given_by_a_case() -> None:
    lacking = [
        f"{s.schema.name} {port.name}"
        for s in SUBJECTS
        for i, port in enumerate(s.schema.inputs)
        if port.optional and not any(len(c.inputs) > i and c.inputs[i] is not None for c in s.cases)
    ]
    assert not lacking


def test_cases_are_of_ops_that_exist() -> None:
    assert {c.op_name for c in CASES} <= {s.schema.full_name for s in SUBJECTS}
    assert len({c.id for c in CASES}) == len(CASES)
