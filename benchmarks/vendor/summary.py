"""Tables of the comparison, and its targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.tables import table
from benchmarks.targets import Target

# Percentage of an op's elements that are at most one step from the definition.
WITHIN_ONE = 99.0
# Our signal to noise may be this much lower than the vendor's.
MARGIN_DB = 0.5
FEWEST_NETWORKS = 5


@dataclass(frozen=True, slots=True)
class NodeResult:
    """One node on the vendor's own inputs, all samples together.

    Attributes:
        name: The node, in the user's terms.
        op_type: Its op.
        types: Data types of the first two inputs and of the first output.
        source: What computes our result: "definition", "copy" of stored integers, or "simulation".
        counts: Number of elements by distance in steps: 0, 1, ...; empty if the vendor's file lacks
            a tensor of the node.
        mean: Mean of the vendor's integers minus ours.
    """

    name: str
    op_type: str
    types: tuple[str, ...]
    source: str
    counts: tuple[int, ...]
    mean: float


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """Whole runs of one network.

    Attributes:
        ours_db: Signal to noise of our quantized outputs, the float network's being the signal.
        theirs_db: The same of the vendor's outputs.
        ours_right: Correct images of a trained network; None for others.
        theirs_right: The same of the vendor.
        same_top: Number of images with the same largest output.
        images: Number of images.
        ours_ms: Median time of our runs.
        theirs_ms: Median time of the simulator's runs.
    """

    ours_db: float
    theirs_db: float
    ours_right: int | None
    theirs_right: int | None
    same_top: int
    images: int
    ours_ms: float
    theirs_ms: float


Nodes = Mapping[str, Sequence[NodeResult]]
Networks = Mapping[str, NetworkResult]


@dataclass(frozen=True, slots=True)
class OpRow:
    """All compared nodes of an op with the same types.

    Attributes:
        op_type: The op.
        types: As in `NodeResult`.
        sources: All that computed our results.
        nodes: Number of nodes.
        counts: As in `NodeResult`.
        mean: As in `NodeResult`.
    """

    op_type: str
    types: tuple[str, ...]
    sources: tuple[str, ...]
    nodes: int
    counts: tuple[int, ...]
    mean: float

    def within(self, steps: int) -> float:
        """Return the percentage of elements at most some steps apart."""
        return 100 * sum(self.counts[: steps + 1]) / sum(self.counts)


def op_rows(nodes: Nodes) -> list[OpRow]:
    """Return a row for each op and types, from all networks."""
    groups: dict[tuple[str, tuple[str, ...]], list[NodeResult]] = defaultdict(list)
    for results in nodes.values():
        for each in results:
            if each.counts:
                groups[each.op_type, each.types].append(each)
    rows = []
    for (op_type, types), group in sorted(groups.items()):
        longest = max(len(each.counts) for each in group)
        padded = [(*each.counts, *[0] * (longest - len(each.counts))) for each in group]
        counts = tuple(map(sum, zip(*padded, strict=True)))
        weighted = sum(each.mean * sum(each.counts) for each in group)
        sources = tuple(sorted({each.source for each in group}))
        rows.append(OpRow(op_type, types, sources, len(group), counts, weighted / sum(counts)))
    return rows


def op_table(rows: Sequence[OpRow], unit: int) -> str:
    """Return the table of ops.

    Args:
        rows: Of all networks.
        unit: Number of steps of the target.
    """
    head = ["op, types", "ours", "nodes", "elements", "equal %", "within 1 %", "largest", "mean"]
    head += [f"within {unit} %"] if unit > 1 else []
    body = []
    for row in rows:
        cells = [
            f"{row.op_type} {','.join(map(_short, row.types))}",
            "+".join(row.sources),
            str(row.nodes),
            str(sum(row.counts)),
            f"{row.within(0):.2f}",
            f"{row.within(1):.2f}",
            str(len(row.counts) - 1),
            f"{row.mean:+.3f}",
        ]
        body.append(cells + ([f"{row.within(unit):.2f}"] if unit > 1 else []))
    return table(head, body)


def _short(dtype: str) -> str:
    return dtype.replace("FIXED_POINT_", "").lower()


def network_table(networks: Networks) -> str:
    """Return the table of whole runs."""
    head = ["network", "SQNR ours", "vendor's", "right ours", "vendor's", "same top-1"]
    head += ["ms ours", "vendor's", "ratio"]
    body = [
        [
            name,
            f"{each.ours_db:.2f}",
            f"{each.theirs_db:.2f}",
            *("-" if n is None else str(n) for n in (each.ours_right, each.theirs_right)),
            f"{each.same_top} of {each.images}",
            f"{each.ours_ms:.3f}",
            f"{each.theirs_ms:.2f}",
            f"{each.theirs_ms / each.ours_ms:.0f}",
        ]
        for name, each in networks.items()
    ]
    return table(head, body)


def targets(rows: Sequence[OpRow], networks: Networks, compared: int, unit: int) -> list[Target]:
    """Return all targets.

    Args:
        rows: Of all ops.
        networks: Whole runs.
        compared: Number of networks whose nodes were compared.
        unit: Steps that an element may be apart.
    """
    made = [Target("networks compared node by node", compared, FEWEST_NETWORKS, at_least=True)]
    shares = shares_within(rows, unit)
    label = "within one step" if unit == 1 else f"within {unit} steps"
    met = sum(share >= WITHIN_ONE for share in shares.values())
    made.append(Target(f"ops {label} ({WITHIN_ONE:g} %)", met, len(shares), at_least=True))
    made += [
        Target(f"{op_type} {label}", share, WITHIN_ONE, "%", at_least=True)
        for op_type, share in shares.items()
        if share < WITHIN_ONE
    ]
    for name, each in networks.items():
        gain = each.ours_db - each.theirs_db
        made.append(Target(f"{name}, SQNR above vendor's", gain, -MARGIN_DB, "dB", at_least=True))
        if each.ours_right is not None and each.theirs_right is not None:
            lost = each.theirs_right - each.ours_right
            made.append(Target(f"{name}, images right below vendor's", lost, 0))
    return made


def shares_within(rows: Sequence[OpRow], steps: int) -> dict[str, float]:
    """Return the percentage of each op's elements that are at most some steps apart."""
    groups: dict[str, list[OpRow]] = defaultdict(list)
    for row in rows:
        groups[row.op_type].append(row)
    return {
        op_type: 100
        * sum(sum(row.counts[: steps + 1]) for row in group)
        / sum(sum(row.counts) for row in group)
        for op_type, group in groups.items()
    }


def gaps(nodes: Nodes) -> list[str]:
    """Return what was not compared with a definition: ops, and nodes of hidden tensors."""
    simulated = sorted(
        {e.op_type for each in nodes.values() for e in each if e.source == "simulation"}
    )
    hidden = [f"{name}: {e.name}" for name, each in nodes.items() for e in each if not e.counts]
    found = [f"no integer definition: {', '.join(simulated)}"] if simulated else []
    return found + [f"not compared, a tensor is not in the file: {each}" for each in hidden]
