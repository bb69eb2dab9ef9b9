"""Adapters of the commands: sections of a context binary, and their use in a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from dovetail.adapters import AdapterConfig, AdapterUse, read_adapter_config
from dovetail.api.adapting import Adapters
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.files import atomic_write, safe_name
from dovetail.ir import Encoding
from dovetail.runtime import Context, Graph
from dovetail_tools._net_run.jobs import Job

_SUFFIX = ".bin"

# New encodings of inputs and outputs, by graph and tensor.
Encodings = Mapping[str, Mapping[str, Encoding]]


def write_sections(
    context: Context, path: Path, base: str, folder: Path, others: Iterable[str] = ()
) -> list[str]:
    """Write a section of a context for each adapter, and return the names of the files.

    The file of an adapter is BASE_ADAPTER.bin. If a context has several graphs that do not share
    adapters, there is one for each graph, BASE_ADAPTER_GRAPH.bin.

    Args:
        context: The context, whose tensors are not updated yet.
        path: The config of adapters.
        base: Name of the context binary.
        folder: The folder to write to.
        others: Names of other files there.

    Raises:
        DovetailError: The config has faults, or an adapter does not match the graphs.
    """
    config = read_adapter_config(path)
    _check_graphs(config.use_case, context.graphs, path)
    adapters = Adapters(context.backend.ops)
    adapters.add_config(path)
    written: list[str] = []
    for name, chosen in _sections(config, context, path, base, others):
        adapters.apply(config.uses(name, str(path)), context.graphs, 1.0, None, None)
        for file, graph in chosen.items():
            with atomic_write(folder / file) as out:
                out.write(context.get_binary_section(graph).data)
        written += chosen
        adapters.remove(context.graphs, None)
    return written


def apply_sections(context: Context, binary: Path, adapter: str) -> Encodings:
    """Apply the sections of an adapter to the graphs of a context binary.

    Args:
        context: The context, created from the binary.
        binary: The context binary.
        adapter: Name of the adapter, whose files are next to the binary, or the path of a section.

    Raises:
        ConfigError: There is no such file.
        DovetailError: A section is damaged, or of another base.
    """
    found: dict[str, dict[str, Encoding]] = {}
    for path in _files_of(context.graphs, binary, adapter):
        for graph, encodings in context.apply_binary_section(path).items():
            found.setdefault(graph, {}).update(encodings)
    return found


def apply_adapter(
    context: Context, config: Path | None, adapter: str, skipped: Collection[str] = ()
) -> Encodings:
    """Apply an adapter to the graphs of a context that was composed.

    Args:
        context: The context, finalized.
        config: A config of adapters, or None.
        adapter: The adapter's name in the config; without one, the path of a .safetensors file.
        skipped: Graphs of the models that were not composed, which the config may name.

    Raises:
        DovetailError: There is no such adapter, or it does not match the graphs.
    """
    adapters = Adapters(context.backend.ops)
    if config is not None:
        adapters.add_config(config)
    uses = [use for use in adapters.find(adapter, None) if use.graph not in skipped]
    if config is not None:
        _check_graphs(uses, context.graphs, config)
    return adapters.apply(uses, context.graphs, 1.0, None, None).interface_encodings


def use_encodings(jobs: Iterable[Job], encodings: Encodings) -> None:
    """Let the files of jobs have new encodings of inputs and outputs."""
    for job in jobs:
        new = encodings.get(job.graph.name, {})
        forms = [*job.feed.forms.values(), *(f.form for files in job.files.values() for f in files)]
        for form in forms:
            if form.tensor.name in new:
                form.tensor.encoding = new[form.tensor.name]


def _check_graphs(uses: Iterable[AdapterUse], graphs: Collection[str], path: Path) -> None:
    """Raise a ConfigError that lists all entries of a config without a graph of the context."""
    problems: list[Problem] = []
    for use in uses:
        where = f"adapter '{use.name}'"
        if use.graph is None and len(graphs) > 1:
            text = "the key `graph` is missing, and the context has several graphs"
            problems.append(Problem(text, where, f"name one of {', '.join(graphs)}"))
        elif use.graph is not None and use.graph not in graphs:
            hint = suggest_name(use.graph, graphs)
            problems.append(Problem(f"graph '{use.graph}' not found", where, hint))
    if problems:
        message = "the config of adapters does not match the graphs"
        raise ConfigError(message, where=str(path), problems=problems)


def _sections(
    config: AdapterConfig, context: Context, path: Path, base: str, others: Iterable[str]
) -> list[tuple[str, dict[str, Graph | None]]]:
    """Return the files of each adapter, with the graph of each, or None for all graphs.

    Raises:
        ConfigError: Two files have the same name.
    """
    stem = base.removesuffix(_SUFFIX)
    is_shared = config.share_adapters_between_graphs or len(context.graphs) == 1
    found: list[tuple[str, dict[str, Graph | None]]] = []
    taken = {base: "the context binary", **dict.fromkeys(others, "another file")}
    problems: list[Problem] = []
    for name in config.names:
        if is_shared:
            chosen: dict[str, Graph | None] = {_file(stem, name): None}
        else:
            graphs = [use.graph for use in config.uses(name, str(path)) if use.graph]
            chosen = {_file(stem, name, g): context.graphs.get(g) for g in graphs}
        for file in chosen:
            if file in taken:
                text = f"the section of '{name}' and {taken[file]} have the same file '{file}'"
                problems.append(Problem(text, hint="rename one of them"))
            taken[file] = f"that of '{name}'"
        found.append((name, chosen))
    if problems:
        message = "names of adapters do not differ in file names"
        raise ConfigError(message, code="USAGE", where=str(path), problems=problems)
    return found


def _file(stem: str, *names: str) -> str:
    return "_".join((stem, *map(safe_name, names))) + _SUFFIX


def _files_of(graphs: Mapping[str, Graph], binary: Path, adapter: str) -> Sequence[Path]:
    """Return the sections of an adapter.

    Raises:
        ConfigError: There are none.
    """
    if Path(adapter).suffix == _SUFFIX and Path(adapter).is_file():
        return (Path(adapter),)
    own = [_file(binary.stem, adapter), *(_file(binary.stem, adapter, graph) for graph in graphs)]
    found = [binary.parent / name for name in own if (binary.parent / name).is_file()]
    if not found:
        start = f"{binary.stem}_"
        known = [
            path.stem.removeprefix(start)
            for path in binary.parent.glob(f"*{_SUFFIX}")
            if path.stem.startswith(start)
        ]
        raise ConfigError(
            f"section '{own[0]}' not found next to the context binary",
            code="USAGE",
            where=f"--adapter {adapter}",
            hint=suggest_name(adapter, known) if known else "pass the path of a section",
        )
    return found
