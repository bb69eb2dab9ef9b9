"""Rules of `data/rules.json`, beyond ops and types.

Source: the op definition supplement of the HTP in the vendor's reference, version 2.25. Not
checked: limits of params, which `dovetail_htp.architecture` reports.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from dovetail.ir import AxisScaleOffset, Encoding, ScaleOffset, Spec
from dovetail.ir.text import encoding_text
from dovetail.ops import NodeView
from dovetail.runtime.contract import Support
from dovetail_htp._data import read_data

# Tools that know only the range of 16-bit results divide it into 65535 or 32767 steps, instead of
# 65536 or 32768.
_NEAR = 2.0**-14
_WEIGHTS = (
    "quantize weights with param_quantizer_schema symmetric, or with one scale; those of a model "
    "that was quantized before, with ignore_encodings and samples"
)
_ACTIVATIONS = "quantize with ignore_encodings and samples: the quantizer gives it one scale"


class Rules(msgspec.Struct, frozen=True):
    """The rules of a family of processors.

    Attributes:
        max_rank: Maximum rank of the first input by op.
        one_encoding: Ops whose first input and output have one encoding, if they have one type.
        result_encodings: Ops whose first output has the encoding that the op prescribes for its
            type; scales may be off by one step of a range.
        symmetric_channels: Whether weights with a scale for each channel are signed and symmetric.
    """

    max_rank: dict[str, int] = msgspec.field(default_factory=dict)
    one_encoding: list[str] = msgspec.field(default_factory=list)
    result_encodings: list[str] = msgspec.field(default_factory=list)
    symmetric_channels: bool = False


@functools.cache
def rules_of(family: str) -> Rules:
    """Return the rules of a family; none if the sources state none."""
    return read_data("rules.json", dict[str, Rules]).get(family, Rules())


def broken_rule(view: NodeView, family: str) -> Support | None:
    """Return the rule that a node breaks, or None."""
    rules = rules_of(family)
    checks: tuple[Callable[[NodeView, Rules], Support | None], ...] = (
        _rank,
        _one_encoding,
        _result_encoding,
        _symmetric_channels,
    )
    return next((found for check in checks if (found := check(view, rules)) is not None), None)


def _rank(view: NodeView, rules: Rules) -> Support | None:
    most, x = rules.max_rank.get(view.op_type), view.ins[0] if view.ins else None
    if most is None or x is None or len(x.shape) <= most:
        return None
    allowed = tuple(map(str, range(1, most + 1)))
    hint = "join axes with a Reshape"
    return Support(False, "rank", "in[0].rank", str(len(x.shape)), allowed, hint)


def _one_encoding(view: NodeView, rules: Rules) -> Support | None:
    x, y = view.ins[0], view.outs[0] if view.outs else None
    if view.op_type not in rules.one_encoding or x is None or y is None or x.dtype is not y.dtype:
        return None
    if x.encoding is None or y.encoding is None or x.encoding == y.encoding:
        return None
    allowed = (encoding_text(x.encoding),)
    hint = "give both tensors this encoding, and insert a Convert after the node"
    return Support(False, "encoding", "out[0].encoding", encoding_text(y.encoding), allowed, hint)


def _result_encoding(view: NodeView, rules: Rules) -> Support | None:
    y = view.outs[0] if view.outs else None
    if view.op_type not in rules.result_encodings or y is None or y.encoding is None:
        return None
    fixed = view.op.result_encodings.get(y.dtype)
    if fixed is None or _is_near(y.encoding, fixed):
        return None
    found, allowed = encoding_text(y.encoding), (encoding_text(fixed),)
    hint = "give the output this encoding, and insert a Convert after the node"
    return Support(False, "encoding", "out[0].encoding", found, allowed, hint)


def _is_near(encoding: Encoding, fixed: ScaleOffset) -> bool:
    """Return whether an encoding has the offset of another, and its scale but for one step."""
    return (
        isinstance(encoding, ScaleOffset)
        and encoding.offset == fixed.offset
        and abs(encoding.scale / fixed.scale - 1) <= _NEAR
    )


def _symmetric_channels(view: NodeView, rules: Rules) -> Support | None:
    if not rules.symmetric_channels:
        return None
    for i, spec in enumerate(view.ins):
        if spec is not None and not _is_symmetric(spec):
            found = f"{spec.dtype.name} with a scale for each channel"
            tensor = view.node.inputs[i]
            is_constant = tensor is not None and tensor.kind.is_static
            hint = _WEIGHTS if is_constant else _ACTIVATIONS
            allowed = ("a signed type without offsets",)
            return Support(False, "encoding", f"in[{i}].encoding", found, allowed, hint)
    return None


def _is_symmetric(spec: Spec) -> bool:
    """Return whether a tensor has one scale, or is signed and symmetric."""
    if not isinstance(spec.encoding, AxisScaleOffset):
        return True
    _, offsets = spec.encoding.scales_and_offsets(spec.shape)
    return spec.dtype.is_signed and not offsets.any()
