"""The request of a `dovetail net-run` command line."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
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


class OutputData(enum.StrEnum):
    """The values of `--output-data-type`: what is written of a tensor that is not float32."""

    FLOAT_ONLY = "float_only"
    NATIVE_ONLY = "native_only"
    FLOAT_AND_NATIVE = "float_and_native"

    def kinds(self, is_float32: bool) -> tuple[bool, ...]:
        """Return whether to write stored values, for each file of a tensor."""
        if is_float32 or self is OutputData.FLOAT_ONLY:
            return (False,)
        return (True,) if self is OutputData.NATIVE_ONLY else (False, True)


class Profiling(enum.StrEnum):
    """The values of `--profiling-level`."""

    BASIC = "basic"
    DETAILED = "detailed"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to run models.

    Attributes:
        models: Model files.
        backend: Name of the backend, or the SDK's library for it.
        input_lists: One per graph, in the order of models and graphs; None skips the graph.
        output_dir: Folder of the results.
        native_inputs: Whether all raw inputs have stored values.
        native_names: Inputs whose raw files have stored values, as the option names them.
        output_data: Values to write.
        debug: Whether the outputs of all nodes are written.
        set_outputs: Tensors to write in addition to the outputs, by graph.
        profiling: Profiling level; None for no profile.
        chrome_trace: File for the profile as a Chrome trace, or None.
        config_file: Config of the run.
        synchronous: Whether one inference ends before the inputs of the next are read.
        num_inferences: Number of inferences of each graph; None for one pass over its list.
        duration_s: Time after which no inference of a graph begins, in seconds.
        keep_outputs: Number of results written for each graph; None for those of one pass.
        timeout_us: Time limit of one inference, in microseconds.
        op_packages: Op packages that are not installed, as the command line names them.
        map_weights: Whether files of weights are mapped; otherwise they are read into memory.
        input_format: Name of the frontend that reads the models; None to find it.
    """

    models: tuple[Path, ...]
    backend: str
    input_lists: tuple[Path | None, ...]
    output_dir: Path
    native_inputs: bool = False
    native_names: str | None = None
    output_data: OutputData = OutputData.FLOAT_ONLY
    debug: bool = False
    set_outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    profiling: Profiling | None = None
    chrome_trace: Path | None = None
    config_file: Path | None = None
    synchronous: bool = False
    num_inferences: int | None = None
    duration_s: float | None = None
    keep_outputs: int | None = None
    timeout_us: int | None = None
    op_packages: tuple[str, ...] = ()
    map_weights: bool = True
    input_format: str | None = None


def parse_input_lists(text: str) -> tuple[Path | None, ...]:
    """Return the input lists of `--input-list`; None skips a graph.

    Raises:
        ConfigError: An item is empty, or all graphs are skipped.
    """
    lists = [None if n == SKIPPED else Path(n) for n in split_list(text, "--input-list")]
    if not any(lists):
        raise usage("all graphs are skipped", where=f"--input-list {text}")
    return tuple(lists)


def parse_set_outputs(text: str | None) -> dict[str, tuple[str, ...]]:
    """Return the tensors of `graph0:tensor0,tensor1;graph1:tensor2` by graph.

    Raises:
        ConfigError: The text does not have this form.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split(";") if text else ():
        graph, colon, names = part.strip().partition(":")
        if not graph or not colon or not names or graph in found:
            raise usage(
                f"invalid selection '{part}'",
                where="--set-output-tensors",
                hint="expected graph0:tensor0,tensor1;graph1:tensor2, with each graph once",
            )
        found[graph] = split_list(names, "--set-output-tensors")
    return found


def parse_native_names(
    text: str | None, graphs: Mapping[str, Sequence[str]]
) -> set[tuple[str | None, str]]:
    """Return the pairs of graph and input of `name,name` or `graph0:name,name;graph1:name`.

    A name without a graph is paired with each graph that has such an input, or else with None.

    Args:
        text: The text; None for none.
        graphs: The inputs of each graph.

    Raises:
        ConfigError: An item is empty.
    """
    found: set[tuple[str | None, str]] = set()
    for part in text.split(";") if text is not None else ():
        graph, colon, rest = part.strip().partition(":")  # names of inputs may have colons, too
        is_named = bool(colon) and graph in graphs
        for name in split_list(rest if is_named else part, "--native-input-tensor-names"):
            having = [g for g, inputs in graphs.items() if name in inputs]
            within: Sequence[str | None] = [graph] if is_named else having or [None]
            found |= {(each, name) for each in within}
    return found


def output_data(chosen: OutputData | None, *, native: bool) -> OutputData:
    """Return the values to write.

    Args:
        chosen: Those of `--output-data-type`; None without it.
        native: Whether `--use-native-output-files` is given.

    Raises:
        ConfigError: Both are given.
    """
    if chosen is not None and native:
        raise usage(
            "--use-native-output-files and --output-data-type are mutually exclusive",
            hint="--output-data-type native_only is the same as the first",
        )
    if chosen is None:
        return OutputData.NATIVE_ONLY if native else OutputData.FLOAT_ONLY
    return chosen


def check_perf_profile(name: str) -> None:
    """Check the name of a performance profile.

    Raises:
        ConfigError: The profile is unknown.
    """
    if name not in PERF_PROFILES:
        hint = suggest_name(name, PERF_PROFILES)
        raise usage(f"unknown performance profile '{name}'", where="--perf-profile", hint=hint)


def check_request(request: Request) -> None:
    """Check that the options are consistent.

    Raises:
        ConfigError: Two options are mutually exclusive, or a value is out of range.
    """
    if request.native_inputs and request.native_names:
        raise usage(
            "--use-native-input-files and --native-input-tensor-names are mutually exclusive",
            hint="the first concerns all inputs, the second only those that it names",
        )
    if request.debug and request.set_outputs:
        raise usage(
            "--debug and --set-output-tensors are mutually exclusive",
            hint="--debug writes all tensors",
        )
    if request.chrome_trace is not None and request.profiling is None:
        raise usage(
            "--chrome-trace requires --profiling-level",
            hint="for the time of each node, pass --profiling-level detailed",
        )
    if request.timeout_us == 0:
        raise usage(
            "the timeout must be positive, got 0 microseconds",
            where="--timeout",
            hint="pass the time limit of one inference in microseconds, or omit --timeout",
        )
    if request.duration_s is not None and not request.duration_s > 0:  # NaN neither
        raise usage("the duration must be more than 0 seconds", where="--duration")
