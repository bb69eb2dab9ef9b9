"""Every schema says what the op definition says: ports, params, types, defaults, enum numbers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Spec
from dovetail.ops import UNBOUNDED, OpSchema, ParamField, bind_node, simulate
from dovetail.ops.check import input_specs
from dovetail.testing import bind
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "data/ops.json").read_text("utf-8"))
each_op = pytest.mark.parametrize("name", sorted(PACKAGE.schemas))

# Ops that have no schema yet, and why.
OPEN = {
    "CreateSparse": "the graph has no sparse tensors",
    "GetSparseIndices": "the graph has no sparse tensors",
    "GetSparseValues": "the graph has no sparse tensors",
    "SparseToDense": "the graph has no sparse tensors",
}

# Defaults that the facts say in words, for inputs of rank 3.
WORDS = {
    "N-1": 2,
    "N": 3,
    "unset": None,
    "no limit": None,
    "zeros": None,  # of L2Norm's axes: axis counts where they are not given
    "not documented (ONNX default 1)": True,
}

# Known by name only: its type is ours to choose.
UNSTATED = {("Buffer", "buffer_padding")}

# A default that depends on another param: the schema leaves it open, the reference settles it, and
# tests/ops/test_activation.py checks the numbers.
BY_OPERATION = {("ElementWiseNeuron", p) for p in ("alpha", "beta", "min_value", "max_value")}


def test_facts_and_package_name_the_same_ops() -> None:
    assert set(FACTS) == set(PACKAGE.schemas) | set(OPEN)
    assert not set(PACKAGE.schemas) & set(OPEN)
    assert (PACKAGE.name, PACKAGE.version) == ("qti.aisw", "2.7.0")


@each_op
def test_params(name: str) -> None:
    schema = PACKAGE.schemas[name]
    facts = FACTS[name]["params"]
    assert set(schema.params) == set(facts)
    for key, fact in facts.items():
        declared = schema.params[key]
        assert declared.is_required is fact["required"], key
        if (name, key) in UNSTATED:
            continue
        assert declared.is_tensor is (fact["kind"] == "tensor"), key
        if "BACKEND_SPECIFIC" not in fact["dtypes"]:
            assert [d.name for d in declared.dtypes] == fact["dtypes"], key
        enum = None if declared.choices is None else {c.name: int(c) for c in declared.choices}
        assert enum == fact.get("enum"), key
        if fact["default"] is not None and (name, key) not in BY_OPERATION:
            check_default(declared, fact["default"])


def check_default(declared: ParamField[Any], text: str) -> None:
    spec = Spec(DType.FLOAT_32, (2, 3, 4))
    if text == "not documented":
        return  # ours to choose; the op's docstring says what
    wanted = WORDS[text] if text in WORDS else json.loads(text)
    np.testing.assert_array_equal(declared.default_value([spec]), wanted)


@each_op
def test_ports(name: str) -> None:
    schema = PACKAGE.schemas[name]
    for ports, facts in (
        (schema.inputs, FACTS[name]["inputs"]),
        (schema.outputs, FACTS[name]["outputs"]),
    ):
        assert [p.name for p in ports] == [f["name"] for f in facts]
        assert [not p.optional for p in ports] == [f["required"] for f in facts]


@each_op
def test_definition_is_documented_and_sourced(name: str) -> None:
    schema: OpSchema = PACKAGE.schemas[name]
    assert schema.op.source.startswith(f"spec/qnn_ops.md, {name}")
    assert schema.op.__dict__["__doc__"].rstrip().endswith(".")
    assert schema.op.__name__ == name


def test_what_ops_state_of_their_results_holds_in_the_cases() -> None:
    seen: Counter[str] = Counter()
    for case in CASES:
        bound = bind(case)
        node = bound.node(PACKAGE.schemas[case.op_type])
        op = bind_node(PACKAGE.schemas[case.op_type], node)
        x, y = bound.inputs[0], bound.expected[0]
        if x is None or DType.FLOAT_32 not in (x.dtype, y.dtype):
            continue
        low, high = op.value_range
        made = y.values[np.isfinite(y.values)]
        assert ((low - 1e-6 <= made) & (made <= high + 1e-6)).all(), case.id
        if op.clips:
            np.testing.assert_array_equal(y.values, np.clip(x.values, low, high))
        if op.keeps:
            kept = [np.zeros(1)]  # of padding; every grid has it
            kept += [t.values for i in op.keeps if (t := bound.inputs[i]) is not None]
            assert np.isin(made, np.concatenate([values.ravel() for values in kept])).all(), case.id
        if op.keeps_all:
            left = np.concatenate([t.values.ravel() for t in bound.expected])
            entered = bound.inputs if not op.keeps else [bound.inputs[i] for i in op.keeps]
            values = [t.values.ravel() for t in entered if t is not None and t.dtype is x.dtype]
            assert np.isin(np.concatenate(values), left).all(), case.id
        if op.rounds or op.keeps_whole:
            rounded = [None if t is None else np.rint(t.values) for t in bound.inputs]
            outs = [t.spec for t in node.outputs]
            schema = PACKAGE.schemas[case.op_type]
            whole = made if op.rounds else simulate(schema, op, rounded, input_specs(node), outs)[0]
            np.testing.assert_array_equal(whole, np.rint(whole), err_msg=case.id)
        seen += Counter(clips=op.clips, keeps=bool(op.keeps), ranges=(low, high) != UNBOUNDED)
        seen += Counter(rounds=op.rounds, keeps_whole=op.keeps_whole, keeps_all=op.keeps_all)
    found = ("clips", "keeps", "ranges", "keeps_whole", "keeps_all")
    assert min(seen[fact] for fact in found) >= 10
    assert seen["rounds"] >= 5
