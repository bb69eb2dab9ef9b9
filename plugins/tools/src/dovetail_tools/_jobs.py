"""Jobs: each graph that is to be run, with its feed and its output files, checked together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.api import Model, load_model
from dovetail.cli.inputs.errors import InputError, shortened
from dovetail.cli.inputs.feed import Feed, make_feed
from dovetail.cli.inputs.listed import read_input_list
from dovetail.cli.inputs.raw_files import RawFormat
from dovetail.errors import ConfigError, FrontendError, Problem, suggest_name
from dovetail.ir import Graph
from dovetail.ops import OpRegistry
from dovetail.runtime.config_file import RunConfig
from dovetail_tools import _metadata, _profiling
from dovetail_tools._errors import usage
from dovetail_tools._output_files import (
    OutputFile,
    distinct,
    graph_folder,
    output_files,
    unsplittable,
)
from dovetail_tools._outputs_chosen import chosen_outputs, computed, with_outputs
from dovetail_tools._request import Request


@dataclass(frozen=True, slots=True)
class Job:
    """One graph to be run.

    Attributes:
        model: A model of this graph alone, everything to be written being an output.
        graph: The graph.
        folder: Of its results, below the output folder.
        feed: Its inputs.
        files: What is written, by tensor name.
    """

    model: Model
    graph: Graph
    folder: str
    feed: Feed
    files: Mapping[str, OutputFile]


def make_jobs(request: Request, config: RunConfig, ops: OpRegistry) -> list[Job]:
    """Return the jobs of a request; nothing is written and no raw file read.

    Raises:
        DovetailError: A model cannot be loaded; an option names what is not there; a list is wrong:
            then every fault of all lists is told.
    """
    graphs = _graphs([load_model(path, ops) for path in request.models], request.models)
    _check_references(request, config, [g for _, g in graphs])
    folders = {g.name: graph_folder(g.name, graphs) for _, g in graphs}
    if len(graphs) > 1:
        folders = distinct("graphs", folders, taken=(_metadata.NAME, _profiling.NAME))
    problems: list[Problem] = []
    jobs: list[Job] = []
    for (model, graph), path in zip(graphs, request.input_lists, strict=True):
        if path is not None:
            jobs += _job(request, model, graph, path, folders[graph.name], problems)
    if problems:
        raise InputError("the input lists do not fit the models", problems=shortened(problems))
    return jobs


def _job(
    request: Request, model: Model, graph: Graph, path: Path, folder: str, problems: list[Problem]
) -> Iterator[Job]:
    """Create a job, if nothing is wrong with its list."""
    before = len(problems)
    listed = read_input_list(path)
    added = request.set_outputs.get(graph.name, ())
    names, wrong = chosen_outputs(graph, listed, added, debug=request.debug)
    problems += wrong
    graph = with_outputs(graph, names)
    forms = {
        t.name: RawFormat(t, request.native_inputs or t.name in request.native_names)
        for t in graph.inputs
    }
    feed, wrong = make_feed(graph, listed, forms)
    problems += wrong
    files = output_files(graph, names, native=request.native_outputs)
    problems += unsplittable(graph, files, feed.batch, str(path))
    if len(problems) == before:
        only = Model({graph.name: graph}, model.producer, model.op_packages)
        yield Job(only, graph, folder, feed, files)


def _graphs(models: Sequence[Model], paths: Sequence[Path]) -> list[tuple[Model, Graph]]:
    found: dict[str, tuple[Model, Graph]] = {}
    for model, path in zip(models, paths, strict=True):
        for name, graph in model.graphs.items():
            if name in found:
                raise FrontendError(
                    f"two models have a graph named '{name}'",
                    where=str(path),
                    hint="convert one of them again with another --graph-name",
                )
            found[name] = model, graph
    return list(found.values())


def _check_references(request: Request, config: RunConfig, graphs: Sequence[Graph]) -> None:
    names = [graph.name for graph in graphs]
    if len(request.input_lists) != len(names):
        raise usage(
            f"there are {len(names)} graphs ({', '.join(names)}), but {len(request.input_lists)} "
            "input lists",
            where="--input-list",
            hint="give one a graph, in this order, separated by commas; __ skips a graph",
        )
    inputs = [tensor.name for graph in graphs for tensor in graph.inputs]
    problems = _unknown("--set-output-tensors", "graph", request.set_outputs, names)
    for graph in graphs:
        added = request.set_outputs.get(graph.name, ())
        what = f"computed tensor of graph '{graph.name}' called"
        problems += _unknown("--set-output-tensors", what, added, computed(graph))
    problems += _unknown("--native-input-tensor-names", "input", request.native_names, inputs)
    if problems:
        raise ConfigError("options name what is not there", code="USAGE", problems=problems)
    problems = _unknown("[[graph]]", "graph", [g.graph_name for g in config.graph], names)
    if problems:
        raise ConfigError(
            "the config is about what is not there",
            where=str(request.config_file),
            problems=problems,
        )


def _unknown(
    where: str, what: str, given: Sequence[str] | Mapping[str, object], known: Sequence[str]
) -> list[Problem]:
    return [
        Problem(f"there is no {what} '{name}'", where, suggest_name(name, known))
        for name in given
        if name not in known
    ]
