"""Comparison of the entries of a file with the tensors of a model."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import Problem, suggest_name
from dovetail_quantizers.files.form import EncodingsFile
from dovetail_quantizers.files.model_tensors import ModelTensors


@dataclass(frozen=True, slots=True)
class Coverage:
    """The entries of a file and the tensors of a model, by their names in the user's model.

    Attributes:
        covered: Tensors with an entry.
        activations_missing: Activations without one.
        params_missing: Weights and biases without one.
        removed_sources: Entries for tensors that conversion removes.
        unmatched: Entries without a tensor in the model, with the nearest name.
    """

    covered: tuple[str, ...]
    activations_missing: tuple[str, ...]
    params_missing: tuple[str, ...]
    removed_sources: tuple[str, ...]
    unmatched: tuple[Problem, ...]

    @property
    def is_complete(self) -> bool:
        """True if every tensor has an entry and every entry a tensor."""
        return not (self.activations_missing or self.params_missing or self.unmatched)


def coverage_of(file: EncodingsFile, model: ModelTensors) -> Coverage:
    """Compare the names of a file with a model's tensors."""
    covered: dict[str, None] = {}
    removed_sources: list[str] = []
    unmatched: list[Problem] = []
    names = model.names()
    for name in file.entries:
        named = model.find(name)
        if named is not None:
            own = model.tensors[named.tensor.source].tensor is named.tensor
            covered[named.tensor.source if own else name] = None
        elif name in model.removed_sources:
            removed_sources.append(name)
        else:
            text = "the model has no tensor of this name"
            unmatched.append(Problem(text, f"'{name}'", suggest_name(name, names)))
    missing = {n: p.tensor for n, p in model.tensors.items() if n not in covered}
    return Coverage(
        tuple(covered),
        tuple(name for name, tensor in missing.items() if not tensor.kind.is_static),
        tuple(name for name, tensor in missing.items() if tensor.kind.is_static),
        tuple(removed_sources),
        tuple(unmatched),
    )
