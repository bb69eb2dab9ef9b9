"""The work of `dovetail context-binary-generator`.

Source: reference guide of the SDK, section on qnn-context-binary-generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cli.inputs.selection import computed
from dovetail.cli.inputs.spellings import tensor_spellings
from dovetail.cli.op_package_option import split_list
from dovetail.cli.output import current_output
from dovetail.cli.sharing_text import sharing_text
from dovetail.container import ContextFile
from dovetail.errors import ConfigError
from dovetail.files import Staging, staged_folder, unwritable
from dovetail.ir import Graph, MemoryType
from dovetail.runtime import Context, SharingReport, set_io_memory_type, sharing_report
from dovetail_tools import _profiling
from dovetail_tools._adapters import write_sections
from dovetail_tools._backend import new_preparer, profile_level
from dovetail_tools._errors import usage
from dovetail_tools._model_options import model_options
from dovetail_tools._models import load_graphs, model_of, unknown_names
from dovetail_tools._net_run.request import Profiling
from dovetail_tools._option_faults import OptionFaults, Rule
from dovetail_tools._option_values import (
    parse_platform_options,
    parse_set_outputs,
    selected_by_graph,
)
from dovetail_tools._preparation import prepare_models
from dovetail_tools._profiling import write_chrome_trace
from dovetail_tools._run_log import RunLog
from dovetail_tools._shared_options import TRACE, TRACED, check_traced
from dovetail_tools._timings import Timings

_SUFFIX = ".bin"
_EXCLUSIVE = (
    Rule(
        "enable_intermediate_outputs",
        "set_output_tensors",
        "--enable-intermediate-outputs selects all tensors",
    ),
)
_REQUIRED = (
    TRACED,
    Rule("adapter_weight_config", "binary_file", "sections belong to a context binary"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorRequest:
    """A request to write a context binary.

    Attributes:
        models: Model files.
        backend: Name of the backend, or the SDK's library for it.
        output_dir: Folder of the files.
        binary: Name of the context binary; None to write none.
        backend_binary: Name of a binary without models; None to write none.
        embed_model: Whether the context binary has the models.
        all_outputs: Whether every computed tensor becomes an output.
        set_outputs: Selections of tensors that become outputs, GRAPH:NAME[,NAME].
        memory_type: The memory of inputs and outputs; None for that of the models.
        adapter_config: Config of adapters, for each of which a section is written; or None.
        profiling: Profiling level; None for no profile.
        has_trace: Whether the profile is also written as a Chrome trace.
        config_file: Config of the backend and its graphs.
        op_packages: Op packages that are not installed, as the command line names them.
        backend_options: Options of the backend, which replace those of the config.
        map_weights: Whether files of weights are mapped; otherwise they are read into memory.
        input_format: Name of the frontend that reads the models; None to find it.
    """

    models: tuple[Path, ...]
    backend: str
    output_dir: Path
    binary: str | None = None
    backend_binary: str | None = None
    embed_model: bool = True
    all_outputs: bool = False
    set_outputs: tuple[str, ...] = ()
    memory_type: MemoryType | None = None
    adapter_config: Path | None = None
    profiling: Profiling | None = None
    has_trace: bool = False
    config_file: Path | None = None
    op_packages: tuple[str, ...] = ()
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    map_weights: bool = True
    input_format: str | None = None


@dataclass(frozen=True, slots=True)
class Generated:
    """The files that were written, and the times of preparation.

    Attributes:
        backend: Name of the backend.
        files: Sizes of the binaries in bytes, by path.
        timings: Times of preparation by graph.
        sharing: What several graphs of a binary share; None for one graph, or without a binary.
    """

    backend: str
    files: Mapping[Path, int]
    timings: Mapping[str, Timings]
    sharing: SharingReport | None = None


def request_of(params: Mapping[str, Any]) -> GeneratorRequest:
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
    check_traced(params, faults)
    if params["model"] is None and params["dlc_path"] is None:
        faults.add("missing option --model or --dlc-path")
    models, input_format = model_options(params, faults)
    outputs = faults.value(parse_set_outputs, params["set_output_tensors"]) or ()
    packages = faults.value(split_list, params["op_packages"], "--op-packages") or ()
    options = faults.value(parse_platform_options, params["platform_options"]) or {}
    binary = faults.value(_file_name, params["binary_file"], "--binary-file")
    own = faults.value(_file_name, params["backend_binary"], "--backend-binary")
    if binary is not None and binary == own:
        faults.add(f"--binary-file and --backend-binary have the same name '{binary}'")
    faults.raise_all()
    level = params["profiling_level"]
    memory_type, config_file = params["input_output_tensor_mem_type"], params["config_file"]
    adapters = params["adapter_weight_config"]
    return GeneratorRequest(
        models=models,
        backend=params["backend"] or "cpu",
        output_dir=Path(params["output_dir"]),
        binary=binary,
        backend_binary=own,
        embed_model=params["embed_model"],
        all_outputs=params["enable_intermediate_outputs"],
        set_outputs=outputs,
        memory_type=None if memory_type is None else MemoryType[memory_type.upper()],
        adapter_config=None if adapters is None else Path(adapters),
        profiling=None if level is None else Profiling(level),
        has_trace=params["profiling_option"] is not None,
        config_file=None if config_file is None else Path(config_file),
        op_packages=packages,
        backend_options=options,
        map_weights=not params["no_map_weights"],
        input_format=input_format,
    )


def generate(request: GeneratorRequest) -> Generated:
    """Prepare the models of a request, and write its files.

    Raises:
        DovetailError: Any step failed; no file is changed.
    """
    preparer, ops = new_preparer(
        request.backend, request.config_file, request.backend_options, request.op_packages
    )
    with preparer.backend as backend:
        backend.require("caching", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        level = profile_level(backend, request.profiling)
        pairs = load_graphs(
            request.models, ops, map_weights=request.map_weights, input_format=request.input_format
        )
        graphs = [graph for _, graph in pairs]
        preparer.config.require_graphs(graph.name for graph in graphs)
        outputs = _outputs(request, graphs)
        if request.memory_type is not None:
            for graph in graphs:
                set_io_memory_type(graph, request.memory_type)
        is_written = (request.binary, request.backend_binary, request.profiling) != (None,) * 3
        with staged_folder(request.output_dir) if is_written else nullcontext() as staging:
            folder = request.output_dir if staging is None else staging.new
            most = preparer.config.profile.num_max_events
            with RunLog(folder, request.profiling, most) as log:
                timings = {graph.name: Timings(log) for graph in graphs}
                models = [model_of(model, graph) for model, graph in pairs]
                made = prepare_models(preparer, models, outputs, timings, level)
            files: dict[Path, int] = {}
            if staging is not None:
                binaries = _write(request, made, folder)
                logs = [] if request.profiling is None else [_profiling.NAME]
                if request.has_trace:
                    write_chrome_trace(folder / _profiling.NAME, folder / TRACE)
                    logs.append(TRACE)
                _move(logs, staging, request.output_dir)
                files = _move(binaries, staging, request.output_dir)
        return Generated(backend.name, files, timings, _sharing(request, graphs))


def _sharing(request: GeneratorRequest, graphs: Sequence[Graph]) -> SharingReport | None:
    """Return what several graphs share in the binary, None if there is no binary or one graph."""
    name = request.binary or request.backend_binary
    if name is None or len(graphs) < 2:
        return None
    return sharing_report(ContextFile.open(request.output_dir / name), similarity=True)


def report(generated: Generated) -> None:
    """Report what was written: as text on stderr, and with --json as data on stdout."""
    output = current_output()
    if output.json:
        output.data(
            {
                "backend": generated.backend,
                "files": [{"path": str(p), "bytes": n} for p, n in generated.files.items()],
                "graphs": [
                    {"graph": name, "prepare_ms": times.prepare_us / 1e3}
                    for name, times in generated.timings.items()
                ],
                "sharing": msgspec.to_builtins(generated.sharing),
            },
            "",
        )
        return
    for name, times in generated.timings.items():
        text = f"{name} on {generated.backend}: prepared in {times.prepare_us / 1e3:.1f} ms"
        output.message(text)
    for path, nbytes in generated.files.items():
        output.message(f"{path}: {nbytes:,} bytes")
    if generated.sharing is not None:
        output.message(sharing_text(generated.sharing))
    if not generated.files:
        output.message("nothing is written: no --binary-file is given")


def _file_name(text: str | None, where: str) -> str | None:
    """Return the name of a binary, with its suffix."""
    if text is None:
        return None
    if not text or text in (".", "..", _SUFFIX) or text != Path(text).name or "\\" in text:
        hint = "pass a name without folders; --output-dir names the folder"
        raise usage(f"invalid name '{text}' of a file", where=where, hint=hint)
    return text if text.endswith(_SUFFIX) else text + _SUFFIX


def _outputs(request: GeneratorRequest, graphs: Sequence[Graph]) -> dict[str, tuple[str, ...]]:
    """Return the tensors that become outputs, by graph.

    Raises:
        ConfigError: The request names unknown graphs or tensors; all are listed.
    """
    if request.all_outputs:
        return {graph.name: computed(graph) for graph in graphs}
    where = "--set-output-tensors"
    names = [graph.name for graph in graphs]
    selected = selected_by_graph(request.set_outputs, names)
    problems = unknown_names(where, "graph", selected, names)
    found: dict[str, tuple[str, ...]] = {}
    for graph in graphs:
        given = selected.get(graph.name, ())
        known = tensor_spellings(graph.tensors[name] for name in computed(graph))
        problems += unknown_names(f"{where} {graph.name}", "tensor", given, known)
        found[graph.name] = tuple(dict.fromkeys(known[name] for name in given if name in known))
    if problems:
        raise ConfigError("options name unknown graphs or tensors", code="USAGE", problems=problems)
    return found


def _write(request: GeneratorRequest, context: Context, folder: Path) -> list[str]:
    """Write the binaries and sections of a context, and return the names of the files."""
    wanted = [(request.binary, request.embed_model), (request.backend_binary, False)]
    names: list[str] = []
    for name, embed_model in wanted:
        if name is not None:
            context.save(folder / name, embed_model=embed_model)
            names.append(name)
    if request.adapter_config is not None and request.binary is not None:
        names += write_sections(context, request.adapter_config, request.binary, folder, names)
    return names


def _move(names: Sequence[str], staging: Staging, folder: Path) -> dict[Path, int]:
    """Move files to their folder, one by one so that none is ever missing; return their sizes.

    Raises:
        ContainerError: A file cannot be replaced.
    """
    files: dict[Path, int] = {}
    for name in names:
        path = folder / name
        try:
            (staging.new / name).replace(path)
            files[path] = path.stat().st_size
        except OSError as error:
            raise unwritable(path, error) from error
    return files
