"""Tables and targets of the vendor's programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.tables import table
from benchmarks.targets import Target
from benchmarks.vendor.summary import (
    FEWEST_NETWORKS,
    MARGIN_DB,
    WITHIN_ONE,
    Nodes,
    OpRow,
    shares_within,
)


@dataclass(frozen=True, slots=True)
class TraceResult:
    """A program of the vendor's Saver, imported and replayed.

    Attributes:
        calls: Number of its calls that the trace has.
        nodes: Number of nodes among them.
        left_out: Number of calls without an equivalent.
        c_mb, params_mb: Sizes of the program and its payloads.
        import_ms: Time of the import.
        is_exact: Whether the trace is the same after its export and import.
        executions: Number of executions.
        htp_db, cpu_db: Signal to noise of the replays, the float network's outputs being the
            signal.
        theirs_db: The same of the simulator's outputs.
    """

    calls: int
    nodes: int
    left_out: int
    c_mb: float
    params_mb: float
    import_ms: float
    is_exact: bool
    executions: int
    htp_db: float
    cpu_db: float
    theirs_db: float


def trace_table(traces: Mapping[str, TraceResult]) -> str:
    """Return the table of programs."""
    head = ["network", "calls", "nodes", "left out", "C MB", "params MB", "import ms"]
    head += ["export exact", "runs", "SQNR htp", "cpu", "vendor's"]
    body = [
        [
            name,
            *(str(n) for n in (each.calls, each.nodes, each.left_out)),
            f"{each.c_mb:.2f}",
            f"{each.params_mb:.2f}",
            f"{each.import_ms:.0f}",
            "yes" if each.is_exact else "no",
            str(each.executions),
            *(f"{db:.2f}" for db in (each.htp_db, each.cpu_db, each.theirs_db)),
        ]
        for name, each in traces.items()
    ]
    return table(head, body)


def hidden(nodes: Nodes) -> str:
    """Return how many nodes of the programs could not be compared."""
    found = [each for results in nodes.values() for each in results]
    count = sum(not each.counts for each in found)
    return f"{count} of {len(found)} quantized nodes have a tensor that is no output of the model"


def targets(rows: Sequence[OpRow], traces: Mapping[str, TraceResult], unit: int) -> list[Target]:
    """Return the targets of programs.

    Args:
        rows: Of the nodes of all programs.
        traces: The programs.
        unit: Steps that an element may be apart.
    """
    exact = sum(each.is_exact for each in traces.values())
    made = [
        Target("programs replayed", len(traces), FEWEST_NETWORKS, at_least=True),
        Target("programs exported and imported exactly", exact, len(traces), at_least=True),
    ]
    shares = shares_within(rows, unit)
    made += [
        Target(f"program's {op_type} within {unit}", share, WITHIN_ONE, "%", at_least=True)
        for op_type, share in shares.items()
        if share < WITHIN_ONE
    ]
    for name, each in traces.items():
        for backend, found in (("htp", each.htp_db), ("cpu", each.cpu_db)):
            gain = found - each.theirs_db
            label = f"{name}, replay on {backend}, SQNR above vendor's"
            made.append(Target(label, gain, -MARGIN_DB, "dB", at_least=True))
    return made
