"""Measurements of our framework alone, without a peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from statistics import median

from benchmarks.gauges import Effort
from benchmarks.model_files import Files
from benchmarks.process import ask
from benchmarks.recipes import ADD_COUNT, ADDS, DIGITS
from benchmarks.targets import Target


@dataclass(frozen=True, slots=True)
class Check:
    """One measurement.

    Attributes:
        task: Its function in `measure_framework`.
        network: The network.
        label: Name of the target.
        value: Computes the value that is compared with the limit.
        limit: The target.
        unit: Unit of both.
        at_least: Whether the limit is a lower one.
        threads: Number of threads of the libraries; None for that of the run.
    """

    task: str
    network: str
    label: str
    value: Callable[[Mapping[str, float]], float]
    limit: float
    unit: str = ""
    at_least: bool = False
    threads: int | None = None


CHECKS = (
    Check("run", ADDS, f"{ADD_COUNT} one-element adds, a run", lambda f: f["run_ms"], 1, "ms"),
    Check(
        "steps",
        "shufflenet",
        "shufflenet, run over sum of its steps",
        lambda f: f["run_ms"] / f["steps_ms"],
        1.15,
    ),
    Check("finalize", "resnet50", "resnet50, finalize", lambda f: f["finalize_ms"], 1000, "ms"),
    *(
        Check(
            "two_sessions",
            network,
            f"{network}, two sessions' throughput over one's",
            lambda f: f["two_per_s"] / f["one_per_s"],
            1.7,
            at_least=True,
            threads=1,
        )
        for network in ("shufflenet", "resnet50")
    ),
    Check(
        "busy_thread",
        "shufflenet",
        "shufflenet, time with a busy thread over time alone",
        lambda f: f["beside_ms"] / f["alone_ms"],
        3,
    ),
    Check(
        "two_busy_processes",
        DIGITS,
        "digits, time with two busy processes over time alone",
        lambda f: f["beside_ms"] / f["alone_ms"],
        1.5,
    ),
)


def measure(
    files: Mapping[str, Files],
    *,
    rounds: int,
    threads: int,
    effort: Effort,
    tell: Callable[[str], None],
) -> dict[str, list[dict[str, float]]]:
    """Take every measurement whose network is in `files`, once a round; return them by label."""
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds):
        for check in (c for c in CHECKS if c.network in files):
            model = files[check.network]
            asked = {
                "task": check.task,
                "model": str(model.dvt),
                "inputs": str(model.inputs),
                "threads": check.threads or threads,
                "effort": astuple(effort),
            }
            taken = ask("measure_framework:measure", asked, threads=check.threads or threads)
            found.setdefault(check.label, []).append(taken)
            tell(f"round {turn + 1}/{rounds}  {check.label}: {check.value(taken):.3f} {check.unit}")
    return found


def targets(found: Mapping[str, list[dict[str, float]]]) -> list[Target]:
    """Compare the medians of the rounds with the targets."""
    return [
        Target(
            check.label,
            median(check.value(taken) for taken in found[check.label]),
            check.limit,
            unit=check.unit,
            at_least=check.at_least,
        )
        for check in CHECKS
        if check.label in found
    ]
