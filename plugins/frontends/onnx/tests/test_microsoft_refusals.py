"""What of the domain com.microsoft is not converted, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest
from microsoft_cases import case
from microsoft_cases.refused import (
    GQA,
    GROUPED,
    I32,
    IDS,
    MHA,
    NBITS,
    PAST,
    QKV,
    REFUSED,
    ROW,
    TWO,
    X,
    fed,
    held,
)
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail_onnx import OnnxFrontend

INVALID = {
    "heads that do not divide": (
        case("Attention", "", QKV, num_heads=3),
        r"query \(2, 3, 4\) must be \(batch, rows, 3 heads \* size\)",
    ),
    "sizes that do not add up": (
        case("Attention", "", QKV, qkv_hidden_sizes=[4, 4, 2], **TWO),
        "cannot be split into pieces",
    ),
    "half a past": (
        case("MultiHeadAttention", "", [*MHA, *[None] * 3, fed(2, 2, 1, 2)], **TWO),
        "past_key and past_value must be given together",
    ),
    "more than one new row": (
        case("DecoderMaskedMultiHeadAttention", "", MHA, **TWO),
        r"query \(2, 3, 4\) must be \(batch, 1, heads \* size\)",
    ),
    "a buffer of other heads": (
        case(
            "DecoderMaskedMultiHeadAttention",
            "",
            [*ROW, None, None, *[fed(2, 3, 5, 2)] * 2, fed(1, dtype=I32)],
            past_present_share_buffer=1,
            **TWO,
        ),
        r"past \(2, 3, 5, 2\) does not match heads of \(2, 2, 1, 2\)",
    ),
    "a buffer of unknown length": (
        case(
            "DecoderMaskedMultiHeadAttention",
            "",
            [*ROW, None, None, *[fed(2, 2, 5, 2)] * 2],
            past_present_share_buffer=1,
            **TWO,
        ),
        "missing required input 7",
    ),
    "keys of another rank than values": (
        case("MultiHeadAttention", "", [X, fed(2, 2, 3, 2), X], **TWO),
        "must both have rank 3 or 4",
    ),
    "a mask that does not fit": (
        case("MultiHeadAttention", "", [*MHA, None, fed(2, 7, dtype=I32)], **TWO),
        r"mask of shape \(2, 7\) does not match a batch of 2 with 3 queries and 3 keys",
    ),
    "a window that is not causal": (
        case("GroupQueryAttention", "", GQA, causal=0, local_window_size=2, **GROUPED),
        "unsupported local_window_size 2 of an attention that is not causal",
    ),
    "tables that differ": (
        case("RotaryEmbedding", "", [X, IDS, held(9, 2), held(8, 2)]),
        "must have the same shape",
    ),
    "a skip that does not fit": (
        case("SkipLayerNormalization", "", [X, fed(2, 4, 4), held(4)]),
        r"skip \(2, 4, 4\) does not match the input \(2, 3, 4\)",
    ),
    "a Clip of one number": (
        case(
            "FusedConv",
            "",
            [fed(1, 2, 3, 3), held(1, 2, 1, 1)],
            activation="Clip",
            activation_params=[1.0],
        ),
        "activation 'Clip' takes 2 parameters, got 1",
    ),
    "filters that do not fit": (
        case("FusedConv", "", [fed(1, 2, 3, 3), held(1, 3, 1, 1)], activation="Relu"),
        r"Conv node 'the_node\.conv': filters \(1, 3, 1, 1\) in 1 group",
    ),
    "weights of another size": (
        case("MatMulNBits", "", [fed(2, 16), held(3, 1, 9, dtype=np.uint8), held(3, 1)], **NBITS),
        r"weights must have shape \(3, 1, 8\), got \(3, 1, 9\)",
    ),
    "a table of signed bytes": (
        case("GatherBlockQuantized", "", [held(3, 16, dtype=np.int8), IDS, held(3, 1)]),
        "INT_8 data must be bytes, with blocks along the last axis",
    ),
    "scales that do not fit": (
        case("GatherBlockQuantized", "", [held(3, 16, dtype=np.uint8), IDS, held(3, 5)]),
        r"of shape \(3, 5\) does not match the input \(3, 32\)",
    ),
    "tensors without their scales": (
        case("QLinearConcat", "", [held(), held(), X], axis=0),
        "expected 2 inputs and then 3 for each tensor, got 3",
    ),
}


@pytest.mark.parametrize("given", REFUSED, ids=[refused.case.name for refused in REFUSED])
def test_it_is_refused_with_the_node_the_reason_and_what_to_do(read, given) -> None:
    with pytest.raises(UnsupportedOpError, match=given.message) as caught:
        read(given.case.model)
    (problem,) = caught.value.problems
    prefix = f"{given.case.domain}:" if given.case.domain else ""
    assert problem.where == f"{prefix}{given.case.op_type} node 'the_node'"
    assert given.hint in problem.hint


def test_an_operator_that_is_not_known_is_refused(read) -> None:
    with pytest.raises(UnsupportedOpError, match="no version of this operator can be converted"):
        read(case("Inverse", "", [fed(2, 2)]).model)


@pytest.mark.parametrize("name", INVALID)
def test_what_makes_no_sense_is_said(read, name) -> None:
    given, message = INVALID[name]
    with pytest.raises(FrontendError, match=message) as caught:
        read(given.model)
    (problem,) = caught.value.problems
    assert problem.where == f"com.microsoft:{given.op_type} node 'the_node'"


def test_all_faults_of_a_model_are_said(model, read) -> None:
    nodes = [
        helper.make_node("Inverse", ["x"], ["a"], name="first", domain="com.microsoft"),
        helper.make_node("QuickGelu", ["x"], ["b"], name="second", domain="com.microsoft"),
        helper.make_node(
            "RotaryEmbedding",
            ["x", "i", "c", "c"],
            ["d"],
            name="third",
            domain="com.microsoft",
            scale=3.0,
        ),
    ]
    feeds = {"x": fed(1, 2, 4), "i": fed(1, 2, dtype=np.int64), "c": fed(5, 2)}
    made = model(nodes, feeds, ["a", "b", "d"])
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnsupportedOpError, match="2 nodes of the model") as caught:
        read(made)
    assert [p.where.split("'")[1] for p in caught.value.problems] == ["first", "third"]


def test_the_inputs_that_decide_how_much_of_a_past_is_seen_are_named(read) -> None:
    lengths = [np.full(2, 4, I32), np.array(5, I32)]
    given = case("GroupQueryAttention", "", [*PAST, *lengths], **GROUPED)
    with pytest.raises(
        UnsupportedOpError,
        match="total_sequence_length 'x6' is computed from the model's inputs; it must",
    ) as caught:
        read(given.model)
    assert caught.value.inputs == ("x6",)


def test_a_dry_run_counts_them_as_supported(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(case("QuickGelu", "", [X]).model.SerializeToString())
    (use,) = OnnxFrontend().dry_run(path).operators
    assert (use.domain, use.op_type, use.version, use.supported) == (
        "com.microsoft",
        "QuickGelu",
        1,
        True,
    )
