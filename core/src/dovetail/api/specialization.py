"""Specializer: one model file, converted for the shapes and values of inputs as runs bring them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from dovetail.api.conversion import PathLike, convert, find_frontend, is_converted
from dovetail.container import Model
from dovetail.errors import BackendError, ConfigError, Problem, suggest_name
from dovetail.ir import Array, Blob
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import FrontendOptions, InputsNeededError
from dovetail.runtime import Context

# Each has the buffers of its runs, and those packed weights that fit no other shapes.
MAX_SPECIALIZATIONS = 8


@dataclass(slots=True, eq=False)
class _Specialization:
    """A context with the graph.

    Attributes:
        context: The context.
        users: How many runs have it just now.
        is_evicted: Whether it is to be freed once none has.
    """

    context: Context
    users: int = 0
    is_evicted: bool = False


class Specializer:
    """The graphs of one model file, one for each set of shapes and values of some inputs.

    The shapes of these inputs decide. So do the values of those for which the conversion asks:
    they are constants of the graph. Beyond the limit, what was used longest ago is freed. Threads
    may share it.

    Args:
        path: The file.
        names: The inputs.
        prepare: Gives a context with a model's graphs, ready to run.
        ops: Finds ops for the conversions; by default those of all installed op packages.
        limit: How many graphs are kept.

    Attributes:
        names: As given.

    Raises:
        ConfigError: The limit is no positive number, or a name comes twice.
        FrontendError: The file cannot be read, or no frontend reads it.
    """

    def __init__(
        self,
        path: PathLike,
        names: Sequence[str],
        prepare: Callable[[Model], Context],
        ops: OpRegistry | None = None,
        limit: int = MAX_SPECIALIZATIONS,
    ) -> None:
        _check_names(names)
        check_limit(limit)
        find_frontend(Path(path))
        self.names = tuple(names)
        self._path = path
        self._prepare = prepare
        self._ops = ops
        self._limit = limit
        self._constant_inputs: tuple[str, ...] = ()
        self._kept: OrderedDict[Hashable, _Specialization] = OrderedDict()
        self._guard = threading.Lock()
        self._making = threading.Lock()  # one conversion at a time; hits do not wait for it

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """The inputs whose values were needed for a conversion, as far as is known by now."""
        return self._constant_inputs

    @property
    def latest(self) -> Context | None:
        """The context that was used last, None before the first."""
        with self._guard:
            return next(reversed(self._kept.values())).context if self._kept else None

    @contextmanager
    def context(self, inputs: Mapping[str, Any]) -> Iterator[Context]:
        """Return the context for these inputs, which is not freed while the `with` block lasts.

        Args:
            inputs: By name; real values of those that may decide are among them.

        Raises:
            BackendError: An input that may decide is missing or no array.
            DovetailError: The model cannot be converted or prepared for them.
        """
        found = self._take(self._deciding(inputs))
        try:
            yield found.context
        finally:
            self._give_back(found)

    def _deciding(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        others = inputs.keys() - set(self.names)
        if problems := [
            Problem(f"there is no '{name}'", hint=suggest_name(name, others))
            for name in self.names
            if name not in inputs
        ]:
            raise BackendError(
                "inputs that the session is specialized for are not given",
                code="INPUT_INVALID",
                problems=problems,
            )
        given = {name: as_array(inputs[name], name) for name in self.names}
        if wrong := [name for name, array in given.items() if array.dtype.hasobject]:
            raise BackendError(
                f"these inputs are no arrays of numbers: {', '.join(wrong)}", code="INPUT_INVALID"
            )
        return given

    def _take(self, given: Mapping[str, Array]) -> _Specialization:
        if (found := self._hit(given)) is not None:
            return found
        with self._making:
            if (found := self._hit(given)) is not None:  # another thread was quicker
                return found
            model = self._convert(given)
            made = _Specialization(self._prepare(model), users=1)
            with self._guard:
                self._kept[self._key(given)] = made
                evicted = [
                    self._kept.popitem(last=False)[1]
                    for _ in range(max(0, len(self._kept) - self._limit))
                ]
                for each in evicted:
                    each.is_evicted = True
                unused = [each for each in evicted if not each.users]
        for each in unused:
            each.context.free()
        return made

    def _hit(self, given: Mapping[str, Array]) -> _Specialization | None:
        with self._guard:
            key = self._key(given)
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                found.users += 1
            return found

    def _give_back(self, used: _Specialization) -> None:
        with self._guard:
            used.users -= 1
            is_over = used.is_evicted and not used.users
        if is_over:
            used.context.free()

    def _convert(self, given: Mapping[str, Array]) -> Model:
        while True:
            try:
                model = convert(self._path, self._options(given), ops=self._ops)
            except InputsNeededError as error:
                more = [
                    n for n in self.names if n in error.inputs and n not in self._constant_inputs
                ]
                if not more or not set(error.inputs) <= set(self.names):
                    raise
                self._constant_inputs += tuple(more)
            else:
                self._share(model)
                return model

    def _options(self, given: Mapping[str, Array]) -> FrontendOptions:
        return FrontendOptions(
            input_dims={n: a.shape for n, a in given.items() if n not in self._constant_inputs},
            input_values={n: given[n] for n in self._constant_inputs},
        )

    def _share(self, model: Model) -> None:
        """Create a model's weights those that are in memory already, where they are equal."""
        with self._guard:
            kept = [each.context for each in self._kept.values()]
        known: dict[str, Blob] = {
            tensor.data.hash: tensor.data
            for context in kept
            for graph in tuple(context.graphs.values())
            for tensor in graph.ir.tensors.values()
            if tensor.data is not None
        }
        for graph in model.graphs.values():
            for tensor in graph.tensors.values():
                if tensor.data is not None:
                    tensor.data = known.get(tensor.data.hash, tensor.data)

    def _key(self, given: Mapping[str, Array]) -> Hashable:
        return tuple(
            (name, array.shape, _digest(array) if name in self._constant_inputs else None)
            for name, array in given.items()
        )


def as_array(value: object, name: str) -> Array:
    """Return the array of an input as NumPy converts it.

    Raises:
        BackendError: NumPy cannot convert it.
    """
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise BackendError(
            f"cannot convert a {type(value).__name__} to an array: {error}",
            code="INPUT_INVALID",
            where=f"input '{name}'",
            hint="pass a NumPy array, or nested lists with rows of equal lengths",
        ) from error


def sole_source(models: Sequence[Model | PathLike]) -> Path:
    """Return the path of the one model file that is still to be converted.

    Args:
        models: What a session is made of.

    Raises:
        ConfigError: There is none.
    """
    if len(models) != 1:
        why = f"`specialize` is for one model, and {len(models)} are given"
        raise ConfigError(why, code="USAGE", hint="make a session for each")
    (model,) = models
    if isinstance(model, Model) or is_converted(model):
        raise ConfigError(
            "a model that is converted has static shapes, and `specialize` changes nothing of them",
            code="USAGE",
            where="" if isinstance(model, Model) else str(model),
            hint="give the path of the file that it was converted from",
        )
    return Path(model)


def check_limit(limit: object) -> None:
    """Refuses a number of graphs to keep that is none, or not positive.

    Raises:
        ConfigError: It is so.
    """
    if not isinstance(limit, SupportsIndex) or isinstance(limit, bool):
        raise ConfigError(
            f"`max_specializations` is a whole number, not {limit!r}",
            code="USAGE",
            hint="say how many graphs are kept, 1 or more",
        )
    if index(limit) < 1:
        raise ConfigError(f"{limit} graphs cannot be kept; it must be 1 or more", code="USAGE")


def _check_names(names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"`specialize` has names twice: {', '.join(twice)}", code="USAGE")


def _digest(array: Array) -> str:
    return hashlib.sha256(f"{array.dtype} ".encode() + array.tobytes()).hexdigest()
