"""Nodes that are not converted: what it is about them, what is said, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from microsoft_cases._case import F32, Case, Known, case

I32 = np.int32


@dataclass(frozen=True)
class Refused:
    """A node that is not converted.

    Attributes:
        case: The node; it says what is refused.
        message: A pattern of what is said.
        hint: A part of what to do.
    """

    case: Case
    message: str
    hint: str


def fed(*shape: int, dtype: type = F32) -> Array:
    """Return an input that is fed."""
    return np.zeros(shape, dtype)


def held(*shape: int, dtype: type = F32) -> Known:
    """Return an input that the model holds."""
    return Known(fed(*shape, dtype=dtype))


X = fed(2, 3, 4)
QKV = [X, held(4, 12), held(12)]
MHA = [X, X, X]
ROW = [fed(2, 1, 4)] * 3
PROMPT = [fed(1, 2, 32), *[fed(1, 2, 16)] * 2]
LENGTHS = [np.array([1], I32), np.array(2, I32)]
GQA = [*PROMPT, None, None, *LENGTHS]
BITS = [fed(2, 16), held(3, 1, 8, dtype=np.uint8), held(3, 1)]
ROWS_OF_BITS = [held(3, 16, dtype=np.uint8), fed(2, dtype=np.int64), held(3, 1)]
NBITS = {"N": 3, "K": 16, "block_size": 16}
TWO = {"num_heads": 2}
GROUPED = {"num_heads": 4, "kv_num_heads": 2}
TABLES = [held(9, 2), held(9, 2)]
IDS = fed(2, 3, dtype=np.int64)
PAST = [fed(2, 1, 32), *[fed(2, 1, 16)] * 2, *[fed(2, 2, 4, 8)] * 2]
PART = [*PAST, Known(np.array([2, 2], I32)), Known(np.array(3, I32))]
UNEVEN = [*PAST, Known(np.array([4, 3], I32)), Known(np.array(5, I32))]

REFUSED = (
    Refused(
        case("Attention", "do_rotary", QKV, do_rotary=1, **TWO),
        "unsupported attribute do_rotary = 1",
        "MultiHeadAttention",
    ),
    Refused(
        case("Attention", "past_present_share_buffer", QKV, past_present_share_buffer=1, **TWO),
        "past_present_share_buffer = 1",
        "fuse the model for MultiHeadAttention",
    ),
    Refused(
        case("Attention", "a mask of four dimensions", [*QKV, fed(2, 1, 3, 3, dtype=I32)], **TWO),
        r"unsupported mask of shape \(2, 1, 3, 3\), with four dimensions",
        "attention_bias",
    ),
    Refused(
        case("MultiHeadAttention", "the output qk", MHA, outputs=("y0", "", "", "y3"), **TWO),
        "unsupported output qk",
        "leave it out",
    ),
    Refused(
        case(
            "MultiHeadAttention",
            "past_sequence_length, cache_indirection",
            [*MHA, *[None] * 5, *[fed(1, dtype=I32)] * 2],
            **TWO,
        ),
        r"unsupported input past_sequence_length \('x8'\) and cache_indirection \('x9'\)",
        "not in a shared buffer",
    ),
    Refused(
        case(
            "MultiHeadAttention",
            "unidirectional with fewer keys or more than queries",
            [X, *[fed(2, 5, 4)] * 2],
            unidirectional=1,
            **TWO,
        ),
        "unidirectional attention of 3 queries to 5 keys cannot be converted",
        "key_padding_mask",
    ),
    Refused(
        case("DecoderMaskedMultiHeadAttention", "the output qk", ROW, output_qk=1, **TWO),
        "unsupported attribute output_qk = 1",
        "leave the output qk out",
    ),
    Refused(
        case(
            "DecoderMaskedMultiHeadAttention",
            "beam_width above 1",
            [*ROW, *[None] * 5, Known(np.array([2], I32))],
            **TWO,
        ),
        "unsupported beam_width 2",
        "with one beam",
    ),
    Refused(
        case(
            "DecoderMaskedMultiHeadAttention",
            "cache_indirection",
            [*ROW, *[None] * 6, fed(2, 1, 8, dtype=I32)],
            **TWO,
        ),
        r"unsupported input cache_indirection \('x9'\)",
        "with one beam",
    ),
    Refused(
        case(
            "GroupQueryAttention",
            "k_quant_type, v_quant_type, k_scale, v_scale",
            GQA,
            k_quant_type="PER_TENSOR",
            **GROUPED,
        ),
        "unsupported attribute k_quant_type = PER_TENSOR",
        "plain cache",
    ),
    Refused(
        case("GroupQueryAttention", "sliding_window_cache", GQA, sliding_window_cache=1, **GROUPED),
        "sliding_window_cache = 1",
        "plain cache",
    ),
    Refused(
        case(
            "GroupQueryAttention",
            "q_norm_weight, k_norm_weight",
            [*GQA, *[None] * 7, held(8), held(8)],
            **GROUPED,
        ),
        r"q_norm_weight \('c14'\) and k_norm_weight \('c15'\)",
        "SimplifiedLayerNormalization",
    ),
    Refused(
        case("RotaryEmbedding", "is_packed_batching", [X, IDS, *TABLES], is_packed_batching=1),
        "is_packed_batching = 1",
        "batch",
    ),
    Refused(
        case("RotaryEmbedding", "scale", [X, IDS, *TABLES], scale=2.0),
        "unsupported attribute scale",
        "tables",
    ),
    Refused(
        case("MatMulNBits", "g_idx", [*BITS, None, held(16, dtype=I32)], **NBITS),
        r"unsupported input g_idx \('c4'\)",
        "act order",
    ),
    Refused(
        case("MatMulNBits", "weight_prepacked", BITS, weight_prepacked=1, **NBITS),
        "weight_prepacked = 1",
        "before its weights are packed",
    ),
    Refused(
        case("MatMulNBits", "bits other than 2, 4, 8", BITS, bits=3, **NBITS),
        "unsupported weights of 3 bits; expected 2, 4 or 8",
        "",
    ),
    Refused(
        case("GatherBlockQuantized", "bits other than 4, 8", ROWS_OF_BITS, bits=2),
        "unsupported table of 2 bits; expected 4 or 8",
        "",
    ),
    Refused(
        case("FusedGemm", "other activations", [fed(2, 3), held(3, 4)], activation="Selu"),
        "unsupported activation 'Selu'",
        "LeakyRelu",
    ),
    Refused(
        case("SkipLayerNormalization", "outputs mean, inv_std_var", [X, X, held(4)], outputs=2),
        "unsupported outputs mean and inv_std_var, which are for training",
        "leave them out",
    ),
    Refused(
        case(
            "MatMulIntegerToFloat",
            "a_scale by row",
            [fed(2, 3, dtype=np.uint8), held(3, 4, dtype=np.uint8), held(4), held(4)],
        ),
        r"unsupported a_scale of shape \(4,\); expected a single number",
        "as a whole",
    ),
    Refused(
        case("QAttention", "do_rotary", [], do_rotary=1, **TWO),
        "do_rotary = 1",
        "MultiHeadAttention",
    ),
    Refused(
        case("QAttention", "past_present_share_buffer", [], past_present_share_buffer=1, **TWO),
        "past_present_share_buffer = 1",
        "MultiHeadAttention",
    ),
    Refused(
        case("GroupQueryAttention", "qk_output", GQA, qk_output=1, outputs=4, **GROUPED),
        "qk_output = 1",
        "plain cache",
    ),
    Refused(
        case("GroupQueryAttention", "a past that is used in part", PART, **GROUPED),
        "unsupported partial use of a past of 4 rows: with 1 new rows, attention",
        "for the prompt",
    ),
    Refused(
        case(
            "GroupQueryAttention", "sequences of different lengths after a past", UNEVEN, **GROUPED
        ),
        "unsupported partial use of a past of 4 rows: with 1 new rows, attention",
        "exactly the earlier rows",
    ),
    Refused(
        case("FusedConv", "other activations", [X, X], activation="Gelu"),
        "unsupported activation 'Gelu'",
        "HardSigmoid",
    ),
    Refused(
        case("SkipSimplifiedLayerNormalization", "outputs mean, inv_std_var", [X, X, X], outputs=3),
        "for training",
        "leave them out",
    ),
    Refused(
        case("QGemm", "a_scale by row", [IDS, held(4), IDS, IDS, held(4), IDS]),
        r"unsupported a_scale of shape \(4,\); expected a single number",
        "as a whole",
    ),
    Refused(
        case(
            "SimplifiedLayerNormalization", "output inv_std_var", [X, held(4)], outputs=2, domain=""
        ),
        "1 over the root mean square",
        "leave it out",
    ),
)
