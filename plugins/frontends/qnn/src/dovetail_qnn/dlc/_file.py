"""A DLC file: its streams, and the graphs in them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dovetail.errors import DovetailError, FrontendError, GraphError, Problem
from dovetail.ir import Graph, find_faults
from dovetail_qnn._assembly import complete
from dovetail_qnn._extras import KEY, NOTHING, read_extras
from dovetail_qnn.dlc._archive import Archive, Member
from dovetail_qnn.dlc._graphs import GraphReader
from dovetail_qnn.dlc._old_graphs import read_old_graph
from dovetail_qnn.dlc._payloads import NO_PAYLOADS, BlobSource, Payloads, read_payloads
from dovetail_qnn.dlc._streams import MAGIC, OLD_MAJOR, Stream, open_stream
from dovetail_qnn.dlc._tables import GRAPHS, PARAMS, WIDE_PARAMS, ModelTable
from dovetail_qnn.dlc.flatbuffers import FaultList, decode, identifier_of

MODEL, WEIGHTS, OUTSIDE = "model", "model.params", "model.params.bin"
# What the other members cannot say, as JSON by the name of the graph; Dovetail alone reads it.
EXTRAS = f"{KEY}.json"


def looks_like_dlc(path: Path) -> bool:
    """Return whether a zip archive has a stream of graphs."""
    try:
        model = Archive(path).find(MODEL)
        if model is None:
            return False
        data = model.data.data
        return data[:2] == MAGIC or identifier_of(data) == GRAPHS
    except (OSError, DovetailError, zipfile.BadZipFile):
        return False


def read_dlc(path: Path) -> list[Graph]:
    """Return the graphs of a DLC.

    Weights that are stored without compression are mapped.

    Raises:
        FrontendError: The file has faults; all are listed.
    """
    archive = Archive(path)
    if (model := archive.find(MODEL)) is None:
        raise FrontendError(
            "the archive has no member 'model'",
            code="MODEL_INVALID",
            where=str(path),
            hint="a DLC has the members model, model.params and dlc.metadata",
        )
    faults = FaultList()
    stream = _open(model, (GRAPHS,), faults)
    weights = archive.find(WEIGHTS)
    params = None if weights is None else _open(weights, (PARAMS, WIDE_PARAMS), faults)
    graphs: list[Graph] = []
    if stream is not None and not faults.problems:
        blobs = None if weights is None else BlobSource(weights, archive.find(OUTSIDE))
        if stream.major == OLD_MAJOR:
            graphs = [read_old_graph(stream, params, blobs, path.stem, faults)]
        else:
            graphs = _graphs(stream, params, blobs, path, faults)
    if (extras := archive.find(EXTRAS)) is not None:
        _complete(graphs, extras, faults)
    if not faults.problems:
        faults.problems += [p for graph in graphs for p in find_faults(graph)]
    _raise(faults.problems, path)
    return graphs


def _open(member: Member, identifiers: Sequence[bytes], faults: FaultList) -> Stream | None:
    member.check()
    stream = open_stream(member.data.data, member.name, faults)
    if stream is not None and stream.identifier not in identifiers:
        known = " or ".join(each.decode() for each in identifiers)
        faults.add(f"the stream has the identifier {stream.identifier!r}, not {known}", member.name)
        return None
    return stream


def _graphs(
    stream: Stream, params: Stream | None, blobs: BlobSource | None, path: Path, faults: FaultList
) -> list[Graph]:
    payloads: dict[str, Payloads] = {}
    if params is not None:
        payloads = read_payloads(params, WEIGHTS, faults)
    root = decode(stream.data, ModelTable, MODEL, faults)
    if not root.graphs:
        faults.add("the stream has no graph", MODEL)
    graphs: dict[str, Graph] = {}
    for index, table in enumerate(root.graphs):
        where = f"{MODEL}: graphs[{index}]"
        name = table.name or path.stem
        if name in graphs:
            faults.add(f"duplicate graph name '{name}'", where)
        found = payloads.get(table.name or "", NO_PAYLOADS)
        graphs[name] = GraphReader(table, found, blobs, where, faults).read(name)
    return list(graphs.values())


def _complete(graphs: Sequence[Graph], member: Member, faults: FaultList) -> None:
    """Add what the member of extras says about graphs; it names each by its name in the file."""
    try:
        member.check()
        data = msgspec.json.decode(member.data.data, type=dict[str, object])
        extras = {name: read_extras(each, member.name) for name, each in data.items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        faults.add(f"the member is not JSON: {error}", member.name)
        return
    except FrontendError as error:
        faults.problems += error.as_problems()
        return
    for graph in graphs:
        try:
            faults.problems += complete(graph, extras.get(graph.name, NOTHING))
        except GraphError as error:  # a cycle
            faults.problems.append(error.as_problem())


def _raise(problems: Sequence[Problem], path: Path) -> None:
    if problems:
        raise FrontendError(
            "the model has faults", code="MODEL_INVALID", where=str(path), problems=problems
        )
