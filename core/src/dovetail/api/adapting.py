"""Use of adapters on prepared graphs: their updates are staged together and finalized."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.adapters import (
    AdapterUse,
    TensorUpdate,
    read_adapter,
    read_adapter_config,
    updates_of,
)
from dovetail.api.quantization import installed_quantizer
from dovetail.errors import BackendError, ConfigError, DovetailError, suggest_name
from dovetail.ir import Encoding, Tensor, unpack
from dovetail.ops import OpRegistry
from dovetail.runtime import Graph, Profile
from dovetail.runtime.updates import checked_update

_CONFIGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class AppliedAdapter:
    """The result of using an adapter.

    Attributes:
        name: The use case; empty for the weights of the model itself.
        tensors: Names of the updated tensors of each graph.
        interface_encodings: New encodings of inputs and outputs, by graph and name.
        notes: What a user should know, such as values beyond the range of an encoding.
    """

    name: str
    tensors: Mapping[str, tuple[str, ...]]
    interface_encodings: Mapping[str, Mapping[str, Encoding]]
    notes: tuple[str, ...] = ()


class Adapters:
    """The adapters of a session, which it knows by name.

    Args:
        ops: Finds ops.
    """

    def __init__(self, ops: OpRegistry) -> None:
        self._ops = ops
        self._known: dict[str, tuple[AdapterUse, ...]] = {}

    def add_config(self, path: str | os.PathLike[str]) -> tuple[str, ...]:
        """Read a config of adapters and return their names.

        Raises:
            ConfigError: It cannot be read, or has faults.
        """
        config = read_adapter_config(path)
        for name in config.names:
            self._known[name] = config.uses(name, str(path))
        return config.names

    def find(self, adapter: str | os.PathLike[str], name: str | None) -> tuple[AdapterUse, ...]:
        """Return the entries of an adapter.

        Args:
            adapter: A name of a config that was read before, the path of a config, or the path of a
                .safetensors file.
            name: The use case in the config; None for the only one.

        Raises:
            ConfigError: There is no such adapter.
        """
        text = os.fspath(adapter)
        if Path(text).suffix.lower() in _CONFIGS:
            names = self.add_config(text)
            if name is None and len(names) > 1:
                raise ConfigError(
                    f"the config has {len(names)} adapters",
                    code="USAGE",
                    where=text,
                    hint=f"name one of {', '.join(names)}",
                )
            text = names[0] if name is None else name
        elif name is not None:
            raise ConfigError("only a config of adapters has names", code="USAGE", where=text)
        if text in self._known:
            return self._known[text]
        if Path(text).is_file():
            return (AdapterUse(name=Path(text).stem, weights=text),)
        raise ConfigError(
            f"adapter '{text}' not found",
            code="USAGE",
            hint=suggest_name(text, self._known) if self._known else "pass the path of a config",
        )

    def apply(
        self,
        uses: Sequence[AdapterUse],
        graphs: Mapping[str, Graph],
        scale: float,
        names: Mapping[str, str] | None,
        profile: Profile | None,
    ) -> AppliedAdapter:
        """Update graphs with an adapter; nothing changes if one of its files does not match.

        Raises:
            DovetailError: The adapter does not match, or a backend cannot apply it.
        """
        tensors = [tensor for graph in graphs.values() for tensor in _updateable(graph)]
        is_float = all(tensor.encoding is None for tensor in tensors)
        quantizer = None if is_float else installed_quantizer()
        notes: list[str] = []
        wanted: dict[str, list[TensorUpdate]] = {}
        for use in uses:
            graph = _graph_for(use, graphs)
            own = {u.tensor: u for u in _own(graph)}
            updates = updates_of(
                graph.ir,
                read_adapter(use, names),
                self._ops,
                quantizer,
                scale=scale,
                own_encodings={
                    t.name: u.encoding for t, u in own.items() if u.encoding is not None
                },
            )
            # nothing of an adapter that was used before remains
            new = own | {u.tensor: _with_data(u, own[u.tensor]) for u in updates.tensors}
            wanted[graph.name] = [u for u in new.values() if _differs(u)]
            notes += updates.notes
        return self._update(uses[0].name, wanted, graphs, profile, notes)

    def remove(self, graphs: Mapping[str, Graph], profile: Profile | None) -> AppliedAdapter:
        """Update graphs with the weights and encodings that the model has itself."""
        wanted = {
            name: [_own_update(graph, graph.ir.tensors[t]) for t in graph.revision.names]
            for name, graph in graphs.items()
        }
        return self._update("", {n: u for n, u in wanted.items() if u}, graphs, profile, [])

    def _update(
        self,
        name: str,
        wanted: Mapping[str, Sequence[TensorUpdate]],
        graphs: Mapping[str, Graph],
        profile: Profile | None,
        notes: Sequence[str],
    ) -> AppliedAdapter:
        for updates in wanted.values():
            for each in updates:
                checked_update(each.tensor, each.data, each.encoding, None)
        before = {g: [_present(u.tensor) for u in updates] for g, updates in wanted.items()}
        try:
            _finalize(wanted, graphs, profile)
        except DovetailError:
            _finalize(before, graphs, None)
            raise
        changed = {
            graph: {
                u.tensor.name: u.encoding
                for u in updates
                if u.encoding is not None and (u.tensor.kind.is_input or u.tensor.kind.is_output)
            }
            for graph, updates in wanted.items()
        }
        return AppliedAdapter(
            name,
            {graph: tuple(u.tensor.name for u in updates) for graph, updates in wanted.items()},
            {graph: encodings for graph, encodings in changed.items() if encodings},
            tuple(notes),
        )


def _finalize(
    wanted: Mapping[str, Sequence[TensorUpdate]],
    graphs: Mapping[str, Graph],
    profile: Profile | None,
) -> None:
    for name, updates in wanted.items():
        graph = graphs[name]
        for each in updates:
            handle = graph.retrieve_tensor(each.tensor.name)
            graph.update_tensor(handle, each.data, each.encoding)
        if not graph.is_finalized:
            graph.finalize(profile)


def _updateable(graph: Graph) -> list[Tensor]:
    return [t for t in graph.ir.tensors.values() if t.kind.is_updateable]


def _own(graph: Graph) -> list[TensorUpdate]:
    """Return the updates back to the model's own weights and encodings."""
    return [_own_update(graph, tensor) for tensor in _updateable(graph)]


def _own_update(graph: Graph, tensor: Tensor) -> TensorUpdate:
    own = graph.revision.base_of(tensor)
    data = None if own.data is None else unpack(own.data, tensor.dtype, tensor.shape)
    return TensorUpdate(tensor, data, own.encoding)


def _present(tensor: Tensor) -> TensorUpdate:
    data = None if tensor.data is None else tensor.values()
    return TensorUpdate(tensor, data, tensor.encoding)


def _with_data(update: TensorUpdate, own: TensorUpdate) -> TensorUpdate:
    return replace(update, data=own.data) if update.data is None else update


def _differs(update: TensorUpdate) -> bool:
    return update.data is not None or update.encoding != update.tensor.encoding


def _graph_for(use: AdapterUse, graphs: Mapping[str, Graph]) -> Graph:
    if use.graph is None and len(graphs) == 1:
        return next(iter(graphs.values()))
    if use.graph is None or use.graph not in graphs:
        wanted = (
            "the session has several graphs"
            if use.graph is None
            else (f"graph '{use.graph}' not found")
        )
        raise BackendError(
            wanted,
            code="GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
            where=f"adapter '{use.name}'",
            hint=suggest_name(use.graph or "", graphs),
        )
    return graphs[use.graph]
