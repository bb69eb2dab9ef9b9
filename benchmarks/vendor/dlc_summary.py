"""Table and targets of the vendor's DLC files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.tables import table
from benchmarks.targets import Target

# Float networks are computed in another order: far less noise than the 40 dB of 8 bits.
FLOAT_DB = 90.0
# The vendor's library may write an op in float, between Dequantize and Quantize.
EQUAL = 0.99


@dataclass(frozen=True, slots=True)
class DlcResult:
    """DLC files of one network, which the vendor's library wrote.

    Attributes:
        nodes, mb, read_ms: Of the quantized one: number of nodes, size, and time of reading.
        is_exact: Whether both are the same after an export and another one.
        htp_equal, cpu_equal: Shares of the quantized outputs that equal those of our network.
        float_db: Signal to noise of the float outputs, those of our network being the signal.
    """

    nodes: int
    mb: float
    read_ms: float
    is_exact: bool
    htp_equal: float
    cpu_equal: float
    float_db: float


def dlc_table(dlcs: Mapping[str, DlcResult]) -> str:
    """Return the table of DLC files."""
    head = ["network", "nodes", "MB", "read ms", "export exact", "equal % htp", "cpu", "float dB"]
    body = [
        [
            name,
            str(each.nodes),
            f"{each.mb:.2f}",
            f"{each.read_ms:.0f}",
            "yes" if each.is_exact else "no",
            f"{each.htp_equal:.2%}".rstrip("%"),
            f"{each.cpu_equal:.2%}".rstrip("%"),
            f"{each.float_db:.1f}",
        ]
        for name, each in dlcs.items()
    ]
    return table(head, body)


def targets(dlcs: Mapping[str, DlcResult]) -> list[Target]:
    """Return the targets of DLC files."""
    count = len(dlcs)
    exact = sum(each.is_exact for each in dlcs.values())
    equal = sum(each.htp_equal >= EQUAL for each in dlcs.values())
    made = [
        Target("DLCs exported and read exactly", exact, count, at_least=True),
        Target("DLCs, 99 % of outputs as ours on htp", equal, count, at_least=True),
    ]
    made += [
        Target(f"{name}, float DLC, SQNR", each.float_db, FLOAT_DB, "dB", at_least=True)
        for name, each in dlcs.items()
    ]
    return made
