"""What the command line of `dovetail net-run` asks for."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.cli.op_package_option import split_list
from dovetail.errors import suggest_name
from dovetail_tools._errors import usage

SKIPPED = "__"
PERF_PROFILES = (
    "low_balanced",
    "balanced",
    "default",
    "high_performance",
    "sustained_high_performance",
    "burst",
    "low_power_saver",
    "power_saver",
    "high_power_saver",
    "extreme_power_saver",
    "system_settings",
)


class Profiling(enum.StrEnum):
    """How much `--profiling-level` measures."""

    BASIC = "basic"
    DETAILED = "detailed"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be run.

    Attributes:
        models: Model files.
        backend: Name of the backend, or the SDK's library for it.
        input_lists: One a graph, in the order of models and graphs; None skips the graph.
        output_dir: Where results go.
        native_inputs: Whether all raw inputs hold stored values.
        native_names: Inputs whose raw files hold stored values.
        native_outputs: Whether outputs are written as stored values.
        debug: Whether the outputs of all nodes are written.
        set_outputs: Tensors to be written besides the outputs, by graph.
        profiling: What to measure and write down.
        config_file: Config of the run.
        synchronous: Whether one inference ends before the next one's inputs are read.
        num_inferences: Inferences of each graph; None is one pass over its list.
        duration_s: Seconds after which no inference of a graph begins.
        keep_outputs: Number of results of each graph that are kept; None keeps those of one pass.
        timeout_us: Microseconds that one inference may take.
        op_packages: Op packages that are not installed, as the command line names them.
    """

    models: tuple[Path, ...]
    backend: str
    input_lists: tuple[Path | None, ...]
    output_dir: Path
    native_inputs: bool = False
    native_names: tuple[str, ...] = ()
    native_outputs: bool = False
    debug: bool = False
    set_outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    profiling: Profiling | None = None
    config_file: Path | None = None
    synchronous: bool = False
    num_inferences: int | None = None
    duration_s: float | None = None
    keep_outputs: int | None = None
    timeout_us: int | None = None
    op_packages: tuple[str, ...] = ()


def parse_input_lists(text: str) -> tuple[Path | None, ...]:
    """Return the input lists of `--input-list`, None for those that skip their graph.

    Raises:
        ConfigError: An item is empty, or every graph is skipped.
    """
    lists = [None if n == SKIPPED else Path(n) for n in split_list(text, "--input-list")]
    if not any(lists):
        raise usage("every graph is skipped", where=f"--input-list {text}")
    return tuple(lists)


def parse_set_outputs(text: str | None) -> dict[str, tuple[str, ...]]:
    """Return the tensors of `graph0:tensor0,tensor1;graph1:tensor2` by graph.

    Raises:
        ConfigError: It does not have this form.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split(";") if text else ():
        graph, colon, names = part.strip().partition(":")
        if not graph or not colon or not names or graph in found:
            raise usage(
                f"'{part}' does not name tensors of a graph",
                where="--set-output-tensors",
                hint="say graph0:tensor0,tensor1;graph1:tensor2, each graph once",
            )
        found[graph] = split_list(names, "--set-output-tensors")
    return found


def check_perf_profile(name: str) -> None:
    """Check the name of a performance profile.

    Raises:
        ConfigError: There is none of that name.
    """
    if name not in PERF_PROFILES:
        hint = suggest_name(name, PERF_PROFILES)
        raise usage(f"there is no performance profile '{name}'", where="--perf-profile", hint=hint)


def check_request(request: Request) -> None:
    """Check what options demand of each other.

    Raises:
        ConfigError: Two of them exclude each other.
    """
    if request.native_inputs and request.native_names:
        raise usage(
            "--use-native-input-files and --native-input-tensor-names exclude each other",
            hint="the first one means every input, the second one those that it names",
        )
    if request.debug and request.set_outputs:
        raise usage(
            "--debug and --set-output-tensors exclude each other",
            hint="--debug writes every tensor anyway",
        )
    if request.timeout_us == 0:
        raise usage(
            "no inference ends within 0 microseconds",
            where="--timeout",
            hint="give the microseconds that one may take, or leave --timeout out",
        )
    if request.duration_s is not None and not request.duration_s > 0:  # NaN neither
        raise usage("the duration must be more than 0 seconds", where="--duration")
