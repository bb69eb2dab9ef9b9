"""Jobs: the graphs to run, with their feeds and output files, checked together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from dovetail.cli.inputs.errors import InputError, shortened
from dovetail.cli.inputs.feed import Feed, make_feed
from dovetail.cli.inputs.listed import read_input_list
from dovetail.cli.inputs.raw_files import RawFormat
from dovetail.cli.inputs.selection import computed
from dovetail.cli.inputs.spellings import tensor_spellings
from dovetail.errors import ConfigError, Problem
from dovetail.ir import Graph
from dovetail_tools import _profiling
from dovetail_tools._errors import usage
from dovetail_tools._models import unknown_names
from dovetail_tools._net_run import metadata
from dovetail_tools._net_run.output_files import (
    Files,
    distinct,
    graph_folder,
    output_files,
    unsplittable,
)
from dovetail_tools._net_run.outputs_chosen import chosen_outputs
from dovetail_tools._net_run.parts import multiplied
from dovetail_tools._net_run.request import Request
from dovetail_tools._option_values import parse_native_names, selected_by_graph


@dataclass(frozen=True, slots=True)
class Job:
    """One graph to run.

    Attributes:
        graph: The graph; of a context binary, only its inputs and outputs.
        folder: Folder of its results, below the output folder.
        feed: The feed of its inputs.
        files: Files to write, by tensor name.
        parts: Number of executions of an inference: each has an equal part of the leading axes of
            the inputs and outputs.
    """

    graph: Graph
    folder: str
    feed: Feed
    files: Files
    parts: int


def make_jobs(request: Request, graphs: Sequence[Graph]) -> list[Job]:
    """Return the jobs of a request; nothing is written, and no raw file is read.

    Args:
        request: The request.
        graphs: The graphs that the input lists are for, in order.

    Raises:
        DovetailError: An option names unknown graphs, tensors or inputs; a list is invalid: lists
            every fault of all lists.
    """
    native, selected = _check_references(request, graphs)
    folders = {graph.name: graph_folder(graph.name, graphs) for graph in graphs}
    if len(graphs) > 1:
        folders = distinct("graphs", folders, taken=(metadata.NAME, _profiling.NAME))
    problems: list[Problem] = []
    jobs: list[Job] = []
    for graph, path in zip(graphs, request.input_lists, strict=True):
        if path is not None:
            added = selected.get(graph.name, ())
            job, faults = _job(request, graph, path, folders[graph.name], native, added)
            jobs.append(job)
            problems += faults
    if problems:
        raise InputError("the input lists do not match the models", problems=shortened(problems))
    return jobs


def _job(
    request: Request,
    graph: Graph,
    path: Path,
    folder: str,
    native: Set[tuple[str | None, str]],
    added: Iterable[str],
) -> tuple[Job, list[Problem]]:
    """Return a job, and the faults of its list, with which it cannot run."""
    listed = read_input_list(path)
    names, problems = chosen_outputs(graph, listed, added, debug=request.debug)
    parts = request.batch_multiplier
    tensors, wrong = multiplied([*graph.inputs, *(graph.tensors[n] for n in names)], parts)
    problems += wrong
    forms = {
        t.name: RawFormat(tensors[t.name], request.native_inputs or (graph.name, t.name) in native)
        for t in graph.inputs
    }
    feed, wrong = make_feed(listed, forms)
    problems += wrong
    files = output_files({name: tensors[name] for name in names}, request.output_data)
    problems += unsplittable(files, feed.batch, str(path))
    return Job(graph, folder, feed, files, parts), problems


def _check_references(
    request: Request, graphs: Sequence[Graph]
) -> tuple[set[tuple[str | None, str]], Mapping[str, tuple[str, ...]]]:
    """Raise if options name what is not there.

    Return the inputs with native files, with their graphs, and the tensors that are selected, by
    graph.
    """
    names = [graph.name for graph in graphs]
    if len(request.input_lists) != len(names):
        several = len(names) > 1
        wanted = f"{len(names)} input lists for the graphs" if several else "one for the graph"
        raise usage(
            f"expected {wanted} {', '.join(names)}, got {len(request.input_lists)}",
            where="--input-list",
            hint="pass one list per graph, in this order, separated by commas; __ skips a graph",
        )
    inputs = {graph.name: [tensor.name for tensor in graph.inputs] for graph in graphs}
    spelled = {graph.name: tensor_spellings(graph.inputs) for graph in graphs}
    native = parse_native_names(request.native_names, spelled)
    selected = selected_by_graph(request.set_outputs, names)
    problems = unknown_names("--set-output-tensors", "graph", selected, names)
    for graph in graphs:
        added = selected.get(graph.name, ())
        known = tensor_spellings(graph.tensors[name] for name in computed(graph))
        where = f"--set-output-tensors {graph.name}"
        problems += unknown_names(where, "computed tensor", added, known)
    for name, own in [(None, list(chain(*inputs.values()))), *inputs.items()]:
        given = sorted(tensor for graph, tensor in native if graph == name)
        problems += unknown_names("--native-input-tensor-names", "input", given, own)
    if problems:
        raise ConfigError(
            "options name unknown graphs, tensors or inputs", code="USAGE", problems=problems
        )
    return native, selected
