"""Adapter: weights from a .safetensors file, with what is known of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.adapters.config import AdapterUse
from dovetail.adapters.safetensors import read_safetensors
from dovetail.errors import ConfigError
from dovetail.ir import Array

# Keys of a file's metadata: whether its arrays have the layouts of the graph's tensors; the names
# of those that a factor multiplies, a line each.
IN_GRAPH_LAYOUT, SCALED = "dovetail.graph_layout", "dovetail.scaled"
# In the names of weights, the second factor of the product B A.
_SECOND_FACTORS = ("lora_B", "lora_up")


@dataclass(frozen=True, slots=True)
class Adapter:
    """Weights for the updateable tensors of one graph.

    Attributes:
        name: The use case.
        arrays: Values by name: real, or stored integers of a tensor's type.
        where: Name of the file, for errors.
        in_graph_layout: Whether names and layouts are those of the graph; otherwise those of the
            user's model.
        scaled: Names of the arrays that the strength of the adapter multiplies.
        encodings: Path of an encodings file, None without one.
        keeps_encodings: Whether encodings stay as they are.
        has_weights: Whether the arrays are used; otherwise only the encodings are.
    """

    name: str
    arrays: Mapping[str, Array]
    where: str
    in_graph_layout: bool = False
    scaled: frozenset[str] = field(default_factory=frozenset)
    encodings: Path | None = None
    keeps_encodings: bool = False
    has_weights: bool = True

    def strength_names(self, scale: float) -> frozenset[str]:
        """Return the names of the arrays that a strength multiplies; none for a strength of 1.

        Raises:
            ConfigError: The adapter does not say which these are.
        """
        if scale == 1:
            return frozenset()
        named = {n for n in self.arrays if any(mark in n for mark in _SECOND_FACTORS)}
        found = self.scaled or named
        if not found:
            raise ConfigError(
                f"cannot scale the adapter by {scale}: it does not say which weights to multiply",
                where=self.where,
                hint=f"list them in the metadata '{SCALED}', as lora-model-creator does, or omit "
                "the scale",
            )
        return frozenset(found)


def read_adapter(
    use: AdapterUse | str | os.PathLike[str], names: Mapping[str, str] | None = None
) -> Adapter:
    """Read an adapter.

    Args:
        use: An entry of a config, or the path of a .safetensors file.
        names: New names of arrays, by the names in the file.

    Raises:
        ConfigError: `names` has names that are not in the file, or one twice.
        FrontendError: The file cannot be read, or is damaged.
    """
    if not isinstance(use, AdapterUse):
        use = AdapterUse(name=Path(use).stem, weights=os.fspath(use))
    file = read_safetensors(use.weights)
    scaled = frozenset(filter(None, file.metadata.get(SCALED, "").splitlines()))
    arrays = dict(file.arrays)
    if names:
        arrays, scaled = _renamed(arrays, scaled, names, use.weights)
    return Adapter(
        use.name,
        arrays,
        use.weights,
        in_graph_layout=file.metadata.get(IN_GRAPH_LAYOUT) == "true",
        scaled=scaled,
        encodings=None if use.encodings is None or use.weights_only else Path(use.encodings),
        keeps_encodings=use.weights_only,
        has_weights=use.enable_weights_updates,
    )


def _renamed(
    arrays: dict[str, Array], scaled: frozenset[str], names: Mapping[str, str], where: str
) -> tuple[dict[str, Array], frozenset[str]]:
    unknown = sorted(names.keys() - arrays.keys())
    renamed = {names.get(name, name): values for name, values in arrays.items()}
    if unknown or len(renamed) < len(arrays):
        text = f"unknown names {', '.join(unknown)}" if unknown else "two tensors get one name"
        raise ConfigError(f"the map of names does not match the file: {text}", where=where)
    return renamed, frozenset(names.get(name, name) for name in scaled)
