"""Operator domains: ONNX's own is spelled '', and every domain that nodes use is imported."""

from __future__ import annotations

from collections.abc import Iterable, Set

from onnx import FunctionProto, ModelProto, NodeProto, helper

from dovetail_onnx._functions import all_nodes

_ALIAS = "ai.onnx"
# The version of a domain that the model does not import, as ONNX Runtime accepts it.
_DEFAULT_VERSION = 1


def normalize_domains(model: ModelProto) -> None:
    """Rewrite `ai.onnx` as the empty domain and add missing imports, in place.

    A domain that nodes use and that the model does not import is imported as version 1. ONNX's own
    domain, which has no such default, is not added.

    Args:
        model: With its local functions.
    """
    for function in model.functions:
        function.domain = _normalized(function.domain)
    known = {function.domain for function in model.functions} | {""}
    inner = [_normalize_part(part, part.node, known) for part in model.functions]
    _normalize_part(model, model.graph.node, known, *inner)


def _normalize_part(
    part: ModelProto | FunctionProto,
    nodes: Iterable[NodeProto],
    known: Set[str],
    *more: Set[str],
) -> Set[str]:
    """Normalize a model or function; return the domains that its nodes use.

    Args:
        part: The model or function.
        nodes: Its nodes.
        known: Domains that need not be imported.
        more: Further domains that it must import.
    """
    used = set().union(*more)
    for node in all_nodes(nodes):
        if node.domain == _ALIAS:
            node.domain = ""
        used.add(node.domain)
    versions = {_normalized(entry.domain): entry.version for entry in part.opset_import}
    versions |= dict.fromkeys(sorted(used - versions.keys() - known), _DEFAULT_VERSION)
    del part.opset_import[:]
    part.opset_import.extend(helper.make_opsetid(d, v) for d, v in versions.items())
    return used


def _normalized(domain: str) -> str:
    return "" if domain == _ALIAS else domain
