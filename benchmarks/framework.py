"""What is measured of the framework alone, beside no peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from statistics import median

from benchmarks.cache import Files
from benchmarks.gauges import Effort
from benchmarks.process import ask
from benchmarks.recipes import ADD_COUNT, ADDS
from benchmarks.targets import Target


@dataclass(frozen=True, slots=True)
class Check:
    """One measurement.

    Attributes:
        task: What `measure_framework` calls it.
        network: On which network.
        label: What the target is called.
        value: What is held against the limit, of what was found.
        limit: The target.
        unit: Of both.
        at_least: Whether the limit is a lower one.
        threads: How many threads the libraries may use; None for the run's own number.
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
        "shufflenet, beside a busy thread over alone",
        lambda f: f["beside_ms"] / f["alone_ms"],
        3,
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
    """Take every measurement whose network is at hand, once a round; return them by label."""
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
            taken = ask("measure_framework", asked, threads=check.threads or threads)
            found.setdefault(check.label, []).append(taken)
            tell(f"round {turn + 1}/{rounds}  {check.label}: {check.value(taken):.3f} {check.unit}")
    return found


def targets(found: Mapping[str, list[dict[str, float]]]) -> list[Target]:
    """Hold the medians of the rounds against the targets."""
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
