"""Nodes of a model in the form that the import library needs."""

from __future__ import annotations

from typing import Protocol


class SourceNode(Protocol):
    """A node of the model that is imported."""

    @property
    def name(self) -> str:
        """Its name in the model, or one of its operator and index; unique."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that it reads, empty for omitted ones."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that it writes, empty for omitted ones."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of all nodes of the model that it replaces."""

    @property
    def where(self) -> str:
        """The node as the user knows it."""

    @property
    def full_type(self) -> str:
        """The operator, with its domain if that is not the format's own."""
