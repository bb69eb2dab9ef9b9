"""The rules of `dovetail net-run`'s options, and the request of a valid command line.

Source: reference guide of the SDK, section on qnn-net-run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dovetail.cli.op_package_option import split_list
from dovetail.errors import suggest_name
from dovetail_tools._model_options import model_options
from dovetail_tools._net_run.request import CacheLimit, OutputData, Profiling, Request
from dovetail_tools._option_faults import OptionFaults, Rule, option
from dovetail_tools._option_values import (
    is_same,
    parse_input_lists,
    parse_platform_options,
    parse_set_outputs,
)
from dovetail_tools._pairs import split_values
from dovetail_tools._shared_options import TRACE, TRACED, check_traced

T = TypeVar("T")

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
# Newer releases have profiles for the decoders of language models.
_DECODING = "llm_decode_"
_OWN_OUTPUTS = "cached graphs have their own outputs only"
_EXCLUSIVE = (
    Rule("retrieve_context", "model", "a context binary has its graphs"),
    Rule("retrieve_context", "dlc_path", "a context binary has its graphs"),
    Rule("debug", "retrieve_context", "select outputs when the context binary is created"),
    Rule(
        "set_output_tensors",
        "retrieve_context",
        "select outputs when the context binary is created",
    ),
    Rule(
        "adapter_weight_config",
        "retrieve_context",
        "create sections with context-binary-generator --adapter-weight-config",
    ),
    Rule("cache", "retrieve_context", "a context binary is prepared already"),
    Rule("cache", "debug", _OWN_OUTPUTS),
    Rule("cache", "set_output_tensors", _OWN_OUTPUTS),
    Rule("cache", "op_packages", "install the op packages, so that the cache knows them"),
    Rule("use_mmap", "no_map_weights", "a file is either mapped or read"),
    Rule(
        "use_native_input_files",
        "native_input_tensor_names",
        "the first concerns all inputs, the second only those that it names",
    ),
    Rule("debug", "set_output_tensors", "--debug writes all tensors"),
    Rule(
        "use_native_output_files",
        "output_data_type",
        "--output-data-type native_only is the same as the first",
    ),
    Rule("profiling_option", "chrome_trace", f"the first writes {TRACE} to the output folder"),
    Rule(
        "max_input_cache_tensor_sets",
        "max_input_cache_size_mb",
        "limit the cache by number or by size",
    ),
)
_REQUIRED = (
    Rule("retrieve_context_timeout", "retrieve_context"),
    Rule("use_mmap", "retrieve_context"),
    Rule("io_tensor_mem_handle_type", "shared_buffer"),
    Rule("validate_binary", "retrieve_context"),
    Rule("adapter_weight_config", "adapter", "name the adapter to apply"),
    TRACED,
    Rule(
        "chrome_trace",
        "profiling_level",
        "for the time of each node, pass --profiling-level detailed",
    ),
    Rule("graph_profiling_start_delay", "profiling_level", "a profile is what this limits"),
    Rule("graph_profiling_num_executions", "profiling_level", "a profile is what this limits"),
)
_MIB = 2**20


def request_of(params: Mapping[str, Any]) -> Request:
    """Return the request of a command line.

    Args:
        params: The values of the command's parameters by name.

    Raises:
        ConfigError: Options are mutually exclusive, an option lacks another one that it requires,
            or a value is invalid; every fault is listed.
    """
    faults = OptionFaults(params)
    faults.check_exclusive(_EXCLUSIVE)
    faults.check_required(_REQUIRED)
    if all(params[name] is None for name in ("model", "dlc_path", "retrieve_context")):
        faults.add("missing option --model, --dlc-path or --retrieve-context")
    check_traced(params, faults)
    _check_values(params, faults)
    models, input_format = model_options(params, faults)
    lists = faults.value(parse_input_lists, params["input_list"]) or ()
    _check_trace(params, (*models, *lists, _as(Path, params["retrieve_context"])), faults)
    outputs = faults.value(parse_set_outputs, params["set_output_tensors"]) or ()
    packages = faults.value(split_list, params["op_packages"], "--op-packages") or ()
    options = faults.value(parse_platform_options, params["platform_options"]) or {}
    faults.raise_all()
    return Request(
        models=models,
        backend=params["backend"],
        input_lists=lists,
        output_dir=Path(params["output_dir"]),
        native_inputs=params["use_native_input_files"],
        native_names=params["native_input_tensor_names"],
        output_data=_output_data(params),
        debug=params["debug"],
        set_outputs=outputs,
        profiling=_as(Profiling, params["profiling_level"]),
        chrome_trace=_trace_file(params),
        config_file=_as(Path, params["config_file"]),
        synchronous=params["synchronous"],
        num_inferences=params["num_inferences"],
        duration_s=params["duration"],
        keep_outputs=params["keep_num_outputs"],
        timeout_us=params["timeout"],
        op_packages=packages,
        context=_as(Path, params["retrieve_context"]),
        retrieve_timeout_us=params["retrieve_context_timeout"],
        validates_binary=params["validate_binary"],
        adapter=params["adapter"],
        adapter_config=_as(Path, params["adapter_weight_config"]),
        shares_buffers=params["shared_buffer"],
        batch_multiplier=params["batch_multiplier"],
        input_cache=_cache_limit(params),
        profiling_delay_s=params["graph_profiling_start_delay"],
        profiled_executions=params["graph_profiling_num_executions"],
        backend_options=options,
        map_weights=not params["no_map_weights"],
        input_format=input_format,
        cache=_cache(params["cache"]),
    )


def _check_values(params: Mapping[str, Any], faults: OptionFaults) -> None:
    """Record values that are out of range; options of typer check the others."""
    for name in ("timeout", "retrieve_context_timeout"):
        if params[name] == 0:
            faults.add(
                "the timeout must be positive, got 0 microseconds",
                where=option(name),
                hint="pass a time limit in microseconds, or omit the option",
            )
    duration = params["duration"]
    if duration is not None and not duration > 0:  # NaN neither
        faults.add("the duration must be more than 0 seconds", where="--duration")
    delay = params["graph_profiling_start_delay"]
    if delay is not None and not delay >= 0:
        where = "--graph-profiling-start-delay"
        faults.add("the delay must not be negative or NaN", where=where)
    profile = params["perf_profile"]
    if profile is not None and profile.lower().removeprefix(_DECODING) not in PERF_PROFILES:
        hint = suggest_name(profile, PERF_PROFILES)
        faults.add(f"unknown performance profile '{profile}'", where="--perf-profile", hint=hint)


def _check_trace(
    params: Mapping[str, Any], read: Iterable[Path | None], faults: OptionFaults
) -> None:
    """Record a fault if the trace would overwrite a file that is read."""
    trace = _as(Path, params["chrome_trace"])
    if trace is not None and any(path is not None and is_same(path, trace) for path in read):
        faults.add(f"--chrome-trace would overwrite {trace}, which is read")


def _trace_file(params: Mapping[str, Any]) -> Path | None:
    if params["profiling_option"] is not None:
        return Path(params["output_dir"], TRACE)
    return _as(Path, params["chrome_trace"])


def _output_data(params: Mapping[str, Any]) -> OutputData:
    chosen = _as(OutputData, params["output_data_type"])
    if chosen is not None:
        return chosen
    is_native = params["use_native_output_files"]
    return OutputData.NATIVE_ONLY if is_native else OutputData.FLOAT_ONLY


def _as(to: Callable[[Any], T], value: Any) -> T | None:
    """Return a value of the parser, which leaves paths and enumerations as text, as its type."""
    return None if value is None else to(value)


def _cache(uses: Sequence[str] | None) -> Path | bool:
    """Return the folder of the cache; True for the user's, False for none."""
    if not uses:
        return False
    (folder,) = split_values(uses[-1]) or ("",)
    return Path(folder) if folder else True


def _cache_limit(params: Mapping[str, Any]) -> CacheLimit | None:
    sets, size = params["max_input_cache_tensor_sets"], params["max_input_cache_size_mb"]
    if size is not None:
        return CacheLimit(nbytes=size * _MIB)
    if sets is None:
        return None
    return CacheLimit(sets=None if sets == -1 else sets)
