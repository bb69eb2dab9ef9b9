"""The operators of a model before anything is built: supported, folded, unsupported."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx.defs

from dovetail.errors import Problem, suggest_name
from dovetail.ops.frontend import OpUse
from dovetail_onnx._checker import NodeChecker, schema_of
from dovetail_onnx._control import REPLACED
from dovetail_onnx._fold import can_fold
from dovetail_onnx._packages import PackageImporters, importer_hint
from dovetail_onnx._registry import Importer, Importers
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tables import Tables
from dovetail_opset.importing.problems import UnsupportedNode

_LOG = logging.getLogger("dovetail.onnx")
# Operators of static shapes: their results are known whatever feeds them.
_SHAPES = ("Shape", "Size")
# Domains of ONNX Runtime whose operators arrange tensors for the processor that it runs on: blocks
# of channels of a size that the file does not tell.
_OF_PROCESSORS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
_SPECIAL = {
    "NonZero": "the shape of its output depends on the data",
    "Unique": "the shape of its output depends on the data",
}


@dataclass(frozen=True, slots=True)
class OperatorMatch:
    """The importer of a node.

    Attributes:
        version: Version of its operator's schema.
        importer: Converts it; None if it must be folded, or other nodes replace it.
    """

    version: int
    importer: Importer | None


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of a survey.

    Attributes:
        found: How each node is converted, by name; nodes that cannot be are missing.
        unsupported: Why the others cannot be converted.
        operators: Counts, for the report.
        malformed: Faults of nodes that their operators do not allow, by name of the node.
    """

    found: dict[str, OperatorMatch]
    unsupported: tuple[UnsupportedNode, ...]
    operators: tuple[OpUse, ...]
    malformed: dict[str, Problem]


# That of a graph without nodes.
NOTHING = Survey({}, (), (), {})


def survey(source: SourceGraph, tables: Tables) -> Survey:
    """Find the importer of each node of a graph."""
    _warn_of_newer(source)
    foldable = _foldable(source)
    found: dict[str, OperatorMatch] = {}
    matches: dict[tuple[str, str, int], OperatorMatch] = {}
    unsupported: list[UnsupportedNode] = []
    counts: Counter[tuple[str, str, int]] = Counter()
    folded: Counter[tuple[str, str, int]] = Counter()
    for node in source.nodes:
        operator = node.domain, node.op_type, node.opset
        match matches.get(operator) or look_up(node, tables):
            case OperatorMatch() as how:
                found[node.name] = matches[operator] = how
                version = how.version
            case UnsupportedNode() as each:
                version = each.version
                if node.name in foldable:
                    found[node.name] = OperatorMatch(version, None)
                else:
                    unsupported.append(each)
        key = node.domain, node.op_type, version
        counts[key] += 1
        folded[key] += node.name in foldable
    return Survey(
        found,
        tuple(unsupported),
        tuple(_uses(counts, folded, tables)),
        dict(_malformed(source, found)),
    )


def look_up(node: SourceNode, tables: Tables) -> OperatorMatch | UnsupportedNode:
    """Return how a node is converted, or why it cannot be converted unless it is folded."""
    table = tables.of(node.domain, node.op_type)
    version = _version(node, table)
    importer = table.find(node.op_type, version) if isinstance(table, Importers) else None
    if importer is not None or _is_replaced(node.domain, node.op_type):
        return OperatorMatch(version, importer)
    return _unsupported(node, version, table)


def _is_replaced(domain: str, op_type: str) -> bool:
    return domain == "" and op_type in REPLACED


def _foldable(source: SourceGraph) -> set[str]:
    """Return the names of the nodes that are certain to be computed at import."""
    known = {"", *source.initializers}
    names = set()
    for node in source.nodes:
        if node.domain == "" and node.op_type == "Constant":
            known.update(node.outputs)
        elif (node.op_type in _SHAPES or known.issuperset(node.inputs)) and can_fold(node):
            known.update(node.outputs)
            names.add(node.name)
    return names


def _version(node: SourceNode, table: Importers | str) -> int:
    """Return the version of a node's operator; 0 where the operator is unknown."""
    schema = schema_of(node.op_type, node.opset) if node.domain == "" else None
    if schema is not None:  # some are ONNX Runtime's, which puts them in ONNX's domain
        return int(schema.since_version)
    known = table.versions(node.op_type) if isinstance(table, Importers) else ()
    default = node.opset if node.domain else 0
    return max((v for v in known if v <= node.opset), default=default)


def _unsupported(node: SourceNode, version: int, table: Importers | str) -> UnsupportedNode:
    hint = needs = ""
    if isinstance(table, str) and node.domain in _OF_PROCESSORS:
        why = "ONNX Runtime optimized the model for the layouts of one processor"
        hint = (
            "save the optimized model again, with the level ORT_ENABLE_EXTENDED or a lower one; "
            "the default is ORT_ENABLE_ALL"
        )
        return UnsupportedNode(node, version, why, hint)
    if isinstance(table, str):
        hint = f"{importer_hint(node.domain)}, or rewrite that part of the model"
        return UnsupportedNode(node, version, table, hint)
    if isinstance(table, PackageImporters) and not table.versions(node.op_type):
        return UnsupportedNode(node, version, *table.missing(node.op_type))
    known = table.versions(node.op_type)
    if node.domain == "" and version == 0:
        why = f"operator set {node.opset} has no operator '{node.op_type}'"
        hint = (
            f"{suggest_name(node.op_type, table.operators)}; if the exporter left an operator of "
            "its own framework here, export the model for a later opset"
        )
        if known:
            hint = f"export the model for opset {max(known[0], 13)} or later"
    elif known and version < known[0]:
        why = (
            f"unsupported version {version} of {node.full_type}; the oldest supported one "
            f"is {known[0]}"
        )
        hint = "convert the model to opset 13 or later with onnx.version_converter"
        if node.domain:  # the converter leaves other domains as they are
            hint = f"import version {known[0]} or later of '{node.domain}' in the model"
    elif known:
        why = f"unsupported version {version} of {node.full_type}; expected one of {known}"
        hint = "upgrade dovetail-onnx, or export the model for an earlier opset"
    else:
        special = _SPECIAL.get(node.op_type) if node.domain == "" else None
        needs = node.inputs[0] if special and node.inputs else ""
        why = special or "no version of this operator can be converted"
        hint = "rewrite that part of the model, or cut the graph before it with --out-name"
    return UnsupportedNode(node, version, why, hint, needs)


def _malformed(
    source: SourceGraph, found: Mapping[str, OperatorMatch]
) -> Iterator[tuple[str, Problem]]:
    """Check number of inputs and outputs, and attributes, against ONNX's schemas."""
    checker = NodeChecker(source.ir_version)
    for node in source.nodes:
        problem = checker.fault(node, converted=node.name in found)
        if problem is not None:
            yield node.name, problem


def _warn_of_newer(source: SourceGraph) -> None:
    newest, opset = onnx.defs.onnx_opset_version(), source.opsets.get("", 0)
    if opset > newest:
        _LOG.warning(
            "the model is of opset %d; the installed onnx knows up to %d, so operators are taken "
            "to mean what they mean there",
            opset,
            newest,
        )


def _uses(
    counts: Counter[tuple[str, str, int]],
    folded: Counter[tuple[str, str, int]],
    tables: Tables,
) -> Iterator[OpUse]:
    for key in sorted(counts):
        domain, op_type, version = key
        table = tables.of(domain, op_type)
        known = isinstance(table, Importers) and table.find(op_type, version) is not None
        known = known or _is_replaced(domain, op_type)
        yield OpUse(
            domain=domain,
            op_type=op_type,
            version=version,
            count=counts[key],
            supported=known or folded[key] == counts[key],
            folded=folded[key],
        )
