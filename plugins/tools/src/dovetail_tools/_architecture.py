"""The work of `dovetail architecture-checker`, after its options are read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.api import load_model
from dovetail.api.architecture import ArchitectureRule, Issue, installed_rules
from dovetail.api.exporting import ModelFile, exporter_for
from dovetail.cli.model_output import write_model
from dovetail.cli.output import current_output, named_files, table
from dovetail.container import Model
from dovetail.errors import ConfigError, Problem, counted, suggest_name
from dovetail.files import atomic_write, staged_folder
from dovetail.ir import Graph, Node, Tensor, run_passes
from dovetail.ir.text import param_text
from dovetail_tools._weights_file import next_to_weights

_APPLY = "apply="
_ENDING = "_architecture_checker.csv"
_NONE = "N/A"
# Columns of the SDK's file, the first with the number of the row.
_COLUMNS = (
    "",
    "Graph/Node_name",
    "Issue",
    "Recommendation",
    "Type",
    "Input_tensor_name:[dims]",
    "Output_tensor_name:[dims]",
    "Parameters",
    "Previous node",
    "Next nodes",
    "Modification",
    "Modification_info",
)
_SHOWN = 3  # nodes of an issue in the summary


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A check as the command line describes it.

    Attributes:
        model: The model.
        weights: The file of its weights; None for the one next to it.
        folder: Folder for the files; None for that of the model.
        modify: Values of --modify, "" if it has none; None without it.
        input_format: Name of the frontend; None to find it.
    """

    model: Path
    weights: Path | None = None
    folder: Path | None = None
    modify: Sequence[str] | None = None
    input_format: str | None = None


@dataclass(frozen=True, slots=True)
class _Finding:
    """An issue with the names of its rule and graph, and its row in the file."""

    rule: str
    graph: str
    issue: Issue
    row: tuple[str, ...]


def check_model(request: CheckRequest) -> None:
    """Check a model, write the file and, if requested, a modified model, and print a summary.

    Raises:
        DovetailError: The options are invalid, the model cannot be loaded, or a file cannot be
            written.
    """
    rules = installed_rules()
    chosen = _chosen(rules, request.modify)
    folder = request.folder or request.model.parent
    with (
        next_to_weights(request.model, request.weights) as source,
        staged_folder(folder) as staging,
    ):
        model = load_model(source, input_format=request.input_format)
        findings = _findings(model, rules, chosen)
        changes = [c for name in chosen if (c := rules[name].change) is not None]
        is_changed = [run_passes(graph, changes) for graph in model.graphs.values()]
        staging.new.mkdir(exist_ok=True)
        file = staging.new / f"{_name(request.model)}{_ENDING}"
        _write_table(file, findings)
        written: tuple[Path, ...] = ()
        if any(is_changed):
            written = write_model(_modified(request.model, file.parent), model)
        names = [Path(path.name) for path in (file, *written)]
        staging.commit(names)
    _report(request, findings, rules, [folder / name for name in names])
    if chosen and not written:
        current_output().message("nothing to modify; no model is written")


def write_check(model: Model, folder: Path, path: Path) -> None:
    """Check a converted model and write the file.

    Args:
        model: The model.
        folder: The folder to write in.
        path: The file of the model, next to which the file will be.

    Raises:
        DovetailError: A rule fails, or the file cannot be written.
    """
    findings = _findings(model, installed_rules(), ())
    name = f"{_name(path)}{_ENDING}"
    _write_table(folder / name, findings)
    issues = counted(len(findings), "issue")
    file = path.with_name(name)
    current_output().message(f"{file}: {issues}; see `dovetail architecture-checker`")


def _chosen(rules: Mapping[str, ArchitectureRule], values: Sequence[str] | None) -> list[str]:
    """Return the names of the rules whose changes are made."""
    names: list[str] = []
    problems: list[Problem] = []
    changing = [name for name, rule in rules.items() if rule.change is not None]
    for value in values or ():
        if value.startswith(_APPLY):
            given = [name for name in value.removeprefix(_APPLY).split(",") if name]
            if not given:
                problems.append(Problem(f"{_APPLY} names no rule", "--modify"))
            names += given
        elif value == "all":
            names += changing
        elif value not in ("", "show"):
            hint = f"use show, all or {_APPLY}RULE,...; the model stands before --modify"
            problems.append(Problem(f"unknown value '{value}'", "--modify", hint))
    for name in names:
        if name not in rules:
            problems.append(
                Problem(f"unknown rule '{name}'", "--modify", suggest_name(name, changing))
            )
        elif name not in changing:
            hint = f"rules that do: {', '.join(changing)}"
            problems.append(Problem(f"rule '{name}' modifies nothing", "--modify", hint))
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return list(dict.fromkeys(names))


def _findings(
    model: Model, rules: Mapping[str, ArchitectureRule], chosen: Sequence[str]
) -> list[_Finding]:
    """Return the issues of all graphs, those of a graph in the order of its nodes."""
    found = []
    for graph in model.graphs.values():
        order = {node: i for i, node in enumerate(graph.nodes)}
        issues = [(name, issue) for name, rule in rules.items() for issue in rule.issues(graph)]
        issues.sort(key=lambda each: -1 if (node := each[1].node) is None else order[node])
        for name, issue in issues:
            is_done = name in chosen and bool(issue.modification)
            done = (name, issue.modification) if is_done else (_NONE, _NONE)
            about = f"Graph {graph.name}" if issue.node is None else issue.node.name
            cells = (_NONE,) * 6 if issue.node is None else tuple(_cells(graph, issue.node))
            row = (about, issue.text, issue.recommendation, *cells, *done)
            found.append(_Finding(name, graph.name, issue, row))
    return found


def _cells(graph: Graph, node: Node) -> Iterator[str]:
    yield node.op_type
    inputs = [tensor for tensor in node.inputs if tensor is not None]
    yield _tensors_text(inputs)
    yield _tensors_text(node.outputs)
    params = (f"{name}: {param_text(param)}" for name, param in sorted(node.params.items()))
    yield ", ".join(params) or _NONE
    before = (graph.producer(tensor) for tensor in inputs)
    yield _names(each for each in before if each is not None)
    yield _names(each for tensor in node.outputs for each in graph.consumers(tensor))


def _tensors_text(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{tensor.name}: {list(tensor.shape)}" for tensor in tensors)


def _names(nodes: Iterator[Node]) -> str:
    return ", ".join(dict.fromkeys(node.name for node in nodes)) or _NONE


def _name(model: Path) -> str:
    return model.stem.removesuffix("_net")


def _modified(model: Path, folder: Path) -> ModelFile:
    """Return the file of the modified model, in the model's format if an exporter has it."""
    end = model.name.removeprefix(_name(model))
    path = folder / f"{_name(model)}_modified{end}"
    try:
        return ModelFile(path, exporter_for(path, None, "--output-path"))
    except ConfigError:
        return ModelFile(path.with_name(f"{_name(model)}_modified.dvt"))


def _write_table(file: Path, findings: Sequence[_Finding]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows((i, *found.row) for i, found in enumerate(findings, 1))
    with atomic_write(file) as out:
        out.write(text.getvalue().encode())


def _report(
    request: CheckRequest,
    findings: Sequence[_Finding],
    rules: Mapping[str, ArchitectureRule],
    files: Sequence[Path],
) -> None:
    output = current_output()
    issues = counted(len(findings), "issue")
    output.message(f"{request.model} -> {named_files(files)}: {issues}")
    data = {
        "model": str(request.model),
        "files": [str(file) for file in files],
        "rules": {name: rule.change is not None for name, rule in rules.items()},
        "issues": [
            {
                "rule": found.rule,
                "graph": found.graph,
                "node": found.issue.node and found.issue.node.name,
                "issue": found.issue.text,
                "recommendation": found.issue.recommendation,
                "modification": found.issue.modification,
            }
            for found in findings
        ],
    }
    output.data(data, _summary(findings, rules, is_detailed=request.modify is not None))


def _summary(
    findings: Sequence[_Finding], rules: Mapping[str, ArchitectureRule], *, is_detailed: bool
) -> str:
    """Return the issues of each rule with the first of their nodes."""
    rows = []
    for name in rules:
        own = [found for found in findings if found.rule == name]
        if not own:
            continue
        nodes = [found.row[0] for found in own[:_SHOWN]]
        nodes += [f"{len(own) - _SHOWN} more"] * (len(own) > _SHOWN)
        changed = [each.issue.modification for each in own if each.issue.modification]
        cells = [name, str(len(own)), own[0].issue.recommendation, ", ".join(nodes)]
        if is_detailed:
            cells.insert(3, f"{len(changed)}: {changed[0]}" if changed else "")
        rows.append(cells)
    headers = ["RULE", "ISSUES", "RECOMMENDATION", "NODES"]
    if is_detailed:
        headers.insert(3, "MODIFICATION")
    return table(headers, rows, right=("ISSUES",)) if rows else ""
