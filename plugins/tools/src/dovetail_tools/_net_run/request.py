"""The request of a `dovetail net-run` command line."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
    BACKEND = "backend"


class MemoryHandle(enum.StrEnum):
    """The values of `--io-tensor-mem-handle-type`."""

    ION = "ion"
    DMA_BUF = "dma_buf"


@dataclass(frozen=True, slots=True)
class CacheLimit:
    """The limit of the input sets that are kept in memory, so that they are read once.

    Attributes:
        sets: Maximum number of sets; None without such a limit.
        nbytes: Maximum size of all sets in bytes; None without such a limit.
    """

    sets: int | None = None
    nbytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to run models.

    Attributes:
        models: Model files; none for a context binary.
        backend: Name of the backend, or the SDK's library for it; None for that of the context
            binary, or else `cpu`.
        input_lists: One per graph, in the order of models and graphs; None skips the graph.
        output_dir: Folder of the results.
        native_inputs: Whether all raw inputs have stored values.
        native_names: Inputs whose raw files have stored values, as the option names them.
        output_data: Values to write.
        debug: Whether the outputs of all nodes are written.
        set_outputs: Selections of tensors to write in addition to the outputs, GRAPH:NAME[,NAME].
        profiling: Profiling level; None for no profile.
        chrome_trace: File for the profile as a Chrome trace, or None.
        config_file: Config of the run.
        synchronous: Whether one inference ends before the inputs of the next are read.
        num_inferences: Number of inferences of each graph; None for one pass over its list.
        duration_s: Time after which no inference of a graph begins, in seconds.
        keep_outputs: Number of results written for each graph; None for those of one pass.
        timeout_us: Time limit of one inference, in microseconds.
        op_packages: Op packages that are not installed, as the command line names them.
        context: Context binary that the graphs are restored from; None for models.
        retrieve_timeout_us: Time limit of restoring them, in microseconds.
        validates_binary: Whether all bytes of the context binary are checked.
        adapter: The adapter that is applied before the run; None for none.
        adapter_config: Config of adapters, for graphs of models.
        shares_buffers: Whether buffers are registered with the backend, so that it need not copy.
        batch_multiplier: Factor of the leading axes of inputs and outputs; the graph is executed
            once for each part.
        input_cache: Limit of the cached input sets; None for no cache.
        profiling_delay_s: Time from the first execution of a graph until profiling begins, in
            seconds; None for that of the config.
        profiled_executions: Maximum number of executions of a graph that are profiled; None for
            that of the config.
        backend_options: Options of the backend, which replace those of the config.
        map_weights: Whether files of weights are mapped; otherwise they are read into memory.
        input_format: Name of the frontend that reads the models; None to find it.
        cache: Folder that keeps prepared graphs; True for the user's, False for none.
    """

    models: tuple[Path, ...]
    backend: str | None
    input_lists: tuple[Path | None, ...]
    output_dir: Path
    native_inputs: bool = False
    native_names: str | None = None
    output_data: OutputData = OutputData.FLOAT_ONLY
    debug: bool = False
    set_outputs: tuple[str, ...] = ()
    profiling: Profiling | None = None
    chrome_trace: Path | None = None
    config_file: Path | None = None
    synchronous: bool = False
    num_inferences: int | None = None
    duration_s: float | None = None
    keep_outputs: int | None = None
    timeout_us: int | None = None
    op_packages: tuple[str, ...] = ()
    context: Path | None = None
    retrieve_timeout_us: int | None = None
    validates_binary: bool = False
    adapter: str | None = None
    adapter_config: Path | None = None
    shares_buffers: bool = False
    batch_multiplier: int = 1
    input_cache: CacheLimit | None = None
    profiling_delay_s: float | None = None
    profiled_executions: int | None = None
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    map_weights: bool = True
    input_format: str | None = None
    cache: Path | bool = False
