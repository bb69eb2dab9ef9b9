"""Verdicts on nodes: whether a processor runs them, and the emulator defines what they compute."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dovetail.errors import UnsupportedOpError
from dovetail.ir.text import encoding_text
from dovetail.ops import NodeView
from dovetail.ops.simulate import keeps_stored
from dovetail.runtime.contract import SUPPORTED, Support
from dovetail.runtime.plan import KernelCall
from dovetail_htp import types
from dovetail_htp.processors import Processor
from dovetail_htp.rules import broken_rule
from dovetail_numpy.integer import DEFINITIONS, find_faults, float_case
from dovetail_opset import STANDARD
from dovetail_opset.type_verdicts import changes, foreign_types

# Ops that change the form of values; between real and stored ones, encodings define them.
_CONVERSIONS = ("Convert", "Dequantize", "Quantize")
_WRITE_OUT = "convert or quantize the float model with --target-backend {}, which writes the op out"
_ELSEWHERE = "run the node on another backend: --backend hetero:{},cpu"


def verdict(view: NodeView, target: Processor, has_kernel: Callable[[], bool]) -> Support:
    """Return whether a node runs, with the reason if not.

    Args:
        view: The node.
        target: The processor.
        has_kernel: Returns whether an op package provides a kernel for it.
    """
    for rule in (_rejected_types, _rejected_encodings):
        if (support := rule(view, target)) is not None:
            return support
    is_defined = is_exact(view) or float_case(view) is not None or has_kernel()
    return SUPPORTED if is_defined else _undefined(view, target)


def reject_declined(call: KernelCall) -> None:
    """Raise for a node that only the kernel of an op package defines, and that it declines.

    It is tried after all other kernels for quantized nodes: `verdict` admits the node since there
    is a kernel, and knows the kernel's answer only when the plan is built.

    Raises:
        UnsupportedOpError: The node would be simulated.
    """
    if not is_exact(call.head) and float_case(call.head) is None:
        raise UnsupportedOpError(
            f"the kernel of op package '{call.head.package}' declines {_types_of(call.head)}, of "
            "which no other integer arithmetic is defined",
            where=call.head.node.where,
            hint="quantize the node to types that its kernel supports, or run it on another "
            "backend, such as hetero:htp,cpu",
        )


def is_exact(view: NodeView) -> bool:
    """Return whether it is defined, to the bit, what a node computes, or it has real values only.

    A quantized node is exact if it has a definition on integers, if its op runs on stored values,
    if it only quantizes or dequantizes, or if no more than its weights are quantized.
    """
    if not view.is_quantized or DEFINITIONS.of(view) is not None:
        return True
    schema, _ = view.definition
    if is_float(view) or keeps_stored(schema.domain, view.ins, view.outs):
        return True
    is_conversion = view.package == STANDARD and view.op_type in _CONVERSIONS
    return is_conversion and any(spec.dtype.is_float for _, spec in view.named_specs())


def is_float(view: NodeView) -> bool:
    """Return whether a node has no fixed-point tensor but constants, as weights of float data."""
    changing = [t for t in view.node.inputs if t is not None and not t.kind.is_static]
    return not any(tensor.dtype.is_fixed_point for tensor in (*changing, *view.node.outputs))


def computes_on_floats(view: NodeView) -> bool:
    """Return whether a node is outside the definition of arithmetic: its results may differ."""
    schema, _ = view.definition
    is_conversion = view.package == STANDARD and view.op_type in _CONVERSIONS
    return (
        any(spec.dtype.is_float for _, spec in view.named_specs())
        and not is_conversion
        and DEFINITIONS.of(view) is None
        and not keeps_stored(schema.domain, view.ins, view.outs)
    )


def _rejected_types(view: NodeView, target: Processor) -> Support | None:
    """Return which rule on ops, types and encodings a standard node breaks, or None."""
    if view.package != STANDARD:
        return None
    table = target.family.name
    known = types.rows(table, view.op_type)
    if not known:
        # imported here: only rejected nodes need the passes
        from dovetail_opset.passes import can_write_out, integers_in

        hint = _ELSEWHERE.format(table)
        is_written_out = can_write_out(view.node, before_quantization=True)
        if is_written_out and integers_in(view.node) is None:  # those become the same op
            hint = f"{_WRITE_OUT.format(table)}, or {hint}"
        found = f"{view.op_type}, which {target} does not have"
        return Support(False, "op", "op", found, rewrite=hint)
    usable = [row for row in known if row.since <= target.arch]
    if any(not row.mismatches(view) for row in usable):
        return broken_rule(view, table)
    support = foreign_types(view, usable)
    newer = [row.since for row in known if not row.mismatches(view)]
    if not newer:
        return support
    archs = ", ".join(f"v{arch}" for arch in target.family.archs if arch >= newer[0])
    either = f"change {changes(view, usable)}, or select one of {archs} (dsp_arch)"
    return replace(support, rule="architecture", rewrite=either)


def _rejected_encodings(view: NodeView, target: Processor) -> Support | None:
    """Return which tensors cannot be computed with on integers, or None."""
    if is_float(view):
        return None
    for field, spec in view.named_specs():
        if spec.encoding is not None and not spec.encoding.is_convertible:
            found = encoding_text(spec.encoding)
            return Support(False, "encoding", f"{field}.encoding", found)
    faults = find_faults(view)
    if not faults:
        return None
    first, *others = faults
    more = "".join(f"; {f.rule}: {f.field} is {f.found}, allowed: {f.allowed}" for f in others)
    hint = f"quantize the model again, or correct its encodings{more}"
    return Support(False, first.rule, first.field, first.found, (first.allowed,), hint)


def _undefined(view: NodeView, target: Processor) -> Support:
    return Support(
        False,
        "definition",
        "op",
        f"{_types_of(view)}, of which no integer arithmetic is defined",
        rewrite=_ELSEWHERE.format(target.family.name),
    )


def _types_of(view: NodeView) -> str:
    """Return an op with the types of a node, in words."""
    types = " ".join(f"{field} {spec.dtype.name}" for field, spec in view.named_specs())
    return f"{view.op_type} with {types}"
