"""Which tensors of a model a file has entries for, and which entries are for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import Problem, suggest_name
from dovetail_quantizers.files.form import EncodingsFile
from dovetail_quantizers.files.model_tensors import ModelTensors


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a file says of a model's tensors, each by its name in the user's model.

    Attributes:
        covered: Tensors with an entry.
        activations_missing: Activations without one.
        params_missing: Weights and biases without one.
        removed_sources: Entries for tensors that the conversion does away with.
        unmatched: Entries for tensors that the model does not have, with the nearest name.
    """

    covered: tuple[str, ...]
    activations_missing: tuple[str, ...]
    params_missing: tuple[str, ...]
    removed_sources: tuple[str, ...]
    unmatched: tuple[Problem, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every tensor has an entry and every entry a tensor."""
        return not (self.activations_missing or self.params_missing or self.unmatched)


def coverage_of(file: EncodingsFile, places: ModelTensors) -> Coverage:
    """Compare the names of a file with a model's tensors."""
    covered: dict[str, None] = {}
    removed_sources: list[str] = []
    unmatched: list[Problem] = []
    names = places.names()
    for name in file.entries:
        place = places.find(name)
        if place is not None:
            own = places.tensors[place.tensor.source].tensor is place.tensor
            covered[place.tensor.source if own else name] = None
        elif name in places.removed_sources:
            removed_sources.append(name)
        else:
            text = "the model has no tensor of this name"
            unmatched.append(Problem(text, f"'{name}'", suggest_name(name, names)))
    missing = {n: p.tensor for n, p in places.tensors.items() if n not in covered}
    return Coverage(
        tuple(covered),
        tuple(name for name, tensor in missing.items() if not tensor.kind.is_static),
        tuple(name for name, tensor in missing.items() if tensor.kind.is_static),
        tuple(removed_sources),
        tuple(unmatched),
    )
