"""Recipes: steps as data, and the builders that make them again.

A `bind` that is a `Recipe` records the name of its builder and data: JSON types, numbers of values,
and numbers of items, which several steps share (primitives, descriptors, layouts). A builder is
found by its name in a `Builders`, and returns the same bind again. Nothing that it is given can be
trusted: it raises a `RecipeError` for data that no recipe records.
"""

from __future__ import annotations

import importlib
from collections import ChainMap
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from dovetail.errors import ContainerError
from dovetail.runtime.plan.values import Bound, Buffers, Value

T = TypeVar("T")
D = TypeVar("D", bound="Data")
Bind = Callable[[Buffers], Bound]


class RecipeError(ContainerError):
    """A recipe that cannot be followed."""

    default_code = "CONTAINER_INVALID"


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True, gc=False):
    """Base of the data of recipes, which are many; what is decoded has no cycles."""


class PlanRecorder(Protocol):
    """Numbers what recipes refer to; `PlanWriter`."""

    def value(self, value: Value) -> int:
        """Return the number of a value."""

    def optional(self, value: Value | None) -> int | None:
        """Return the number of a value, or None."""

    def inner(self, bind: Bind) -> tuple[str, Any]:
        """Return the name of the builder and the data, as JSON types, of a bind in another."""

    def item(self, builder: str, key: Hashable, data: Callable[[], Data]) -> int:
        """Return the number of an item.

        Args:
            builder: Name of its builder.
            key: Equal for equal items.
            data: Returns its data, at the first call; may record other items.
        """


@runtime_checkable
class Recipe(Protocol):
    """A bind that can be recorded."""

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for the given buffers; see `Step.bind`."""

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return the name of the builder and its data."""


class Source(Protocol):
    """Access of builders to a recorded plan; implemented by `PlanReader`."""

    @property
    def options(self) -> Any:
        """The backend's options."""

    def value(self, number: int) -> Value:
        """Return a value; raise a `RecipeError` for a number out of range."""

    def bind(self, builder: str, data: object) -> Bind:
        """Return a bind in another."""

    def item(self, number: int, kind: type[T]) -> T:
        """Return an item of a class; raise a `RecipeError` if it is none."""


class Builders:
    """Functions that return binds and items from recorded data, by name.

    Args:
        homes: Modules that register builders, by the builders' names; each is imported when its
            first builder is used.
    """

    def __init__(self, homes: Mapping[str, str] = MappingProxyType({})) -> None:
        self._homes = dict(homes)
        self._found: MutableMapping[str, tuple[type[Data], Callable[[Any, Any], Any]]] = {}

    def builds(
        self, name: str, data: type[D]
    ) -> Callable[[Callable[[D, Source], T]], Callable[[D, Source], T]]:
        """Register the decorated function of such data and a `Source`."""

        def register(function: Callable[[D, Source], T]) -> Callable[[D, Source], T]:
            if name in self._found:
                raise AssertionError(f"duplicate builder {name}")
            self._found[name] = (data, function)
            return function

        return register

    def joined(self, other: Builders) -> Builders:
        """Return the builders of both."""
        both = Builders(self._homes | other._homes)
        both._found = ChainMap(self._found, other._found)
        return both

    def build(self, name: str, data: object, source: Source) -> Any:
        """Return what a builder makes of recorded data.

        Raises:
            RecipeError: The builder is unknown, or the data are not its own.
        """
        if name not in self._found and name in self._homes:
            importlib.import_module(self._homes[name])
        if name not in self._found:
            raise RecipeError(f"unknown builder '{name}' of a step")
        kind, function = self._found[name]
        try:
            typed = msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            raise RecipeError(f"invalid data of a step built by '{name}': {error}") from error
        return function(typed, source)
