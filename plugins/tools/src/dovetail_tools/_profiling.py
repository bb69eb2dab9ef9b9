"""The times of a run: its profile log, the same as a Chrome trace, and their summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.cli.output import table
from dovetail.files import atomic_write
from dovetail.runtime import chrome_trace, read_profile_log
from dovetail_tools._net_run.request import Profiling
from dovetail_tools._run_log import NAME
from dovetail_tools._timings import Timings

__all__ = ["NAME", "profiling_data", "profiling_text", "write_chrome_trace"]


def profiling_data(
    level: Profiling, backend: str, timings: Mapping[str, Timings]
) -> dict[str, Any]:
    """Return the times of a run as plain data.

    Args:
        level: Profiling level.
        backend: Name of the backend.
        timings: Times by graph.
    """
    graphs = []
    for name, times in timings.items():
        graph: dict[str, Any] = {"graph": name, "client": times.client_data()}
        if level is not Profiling.CLIENT:
            graph |= times.backend_data()
        if level in (Profiling.DETAILED, Profiling.BACKEND):
            graph["nodes"] = times.node_data()
        graphs.append(graph)
    return {"backend": backend, "level": str(level), "graphs": graphs}


def write_chrome_trace(log: Path, path: Path) -> None:
    """Write a profile log as a Chrome trace.

    Args:
        log: The log.
        path: The file to write.

    Raises:
        DovetailError: The log cannot be read, or the file cannot be written.
    """
    trace = chrome_trace(read_profile_log(log))
    with atomic_write(path) as file:
        file.write(json.dumps(trace).encode() + b"\n")


def profiling_text(data: Mapping[str, Any]) -> str:
    """Return the times as a table, in milliseconds, and a column for each counter of nodes."""
    nodes = [node for graph in data["graphs"] for node in graph.get("nodes", ())]
    counters = tuple(dict.fromkeys(name for node in nodes for name in node["counters"]))
    rows: list[tuple[str, ...]] = []
    for graph in data["graphs"]:
        rows += ((*row, *[""] * len(counters)) for row in _rows(graph))
        rows += (_node_row(graph["graph"], node, counters) for node in graph.get("nodes", ()))
    titles = (name.upper().replace("_", " ") for name in counters)
    return table(("GRAPH", "WHAT", "COUNT", "MEAN MS", "MIN MS", "MAX MS", *titles), rows)


def _rows(graph: Mapping[str, Any]) -> list[tuple[str, ...]]:
    name, client = graph["graph"], graph["client"]
    rows = [_once(name, "prepare", client["prepare_us"])]
    rows += [_row(name, what, client[what]) for what in ("read", "write") if client[what]["count"]]
    if "execute" in graph:
        rows.append(_once(name, "finalize", graph["finalize_us"]))
        what = {"execute": "execute", "wait in the queue": "queue_wait"}
        rows += [_row(name, t, graph[key]) for t, key in what.items() if graph[key]["count"]]
    return rows


def _node_row(graph: str, node: Mapping[str, Any], counters: Sequence[str]) -> tuple[str, ...]:
    means = [node["counters"].get(name) for name in counters]
    texts = ("" if mean is None else _quantity(mean) for mean in means)
    return (*_row(graph, f"node {node['nodes']}", node), *texts)


def _quantity(mean: float) -> str:
    """Return a mean with up to three decimals, so that one saturation in many runs is seen."""
    return f"{mean:,.0f}" if mean == int(mean) else f"{mean:,.3f}"


def _once(graph: str, what: str, value_us: float) -> tuple[str, ...]:
    return graph, what, "1", _ms(value_us), _ms(value_us), _ms(value_us)


def _row(graph: str, what: str, tally: Mapping[str, float]) -> tuple[str, ...]:
    times = (_ms(tally[f"{part}_us"]) for part in ("mean", "min", "max"))
    return graph, what, str(tally["count"]), *times


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1e3:.3f}"
