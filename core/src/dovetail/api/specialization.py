"""Specializer: a model file converted for the input shapes and values of each run."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.loading import is_converted
from dovetail.api.running import as_array
from dovetail.container import Model
from dovetail.errors import BackendError, ConfigError, Problem, suggest_name
from dovetail.files import PathLike
from dovetail.ir import Array, share_blobs
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import Frontend, FrontendOptions, InputsNeededError
from dovetail.runtime import Context

# Each holds the buffers of its runs, and the packed weights that depend on shapes.
MAX_SPECIALIZATIONS = 8


class _Specialization(msgspec.Struct, eq=False):
    """A context with the graph for one set of shapes and values.

    Attributes:
        context: The context.
        users: Number of runs that are using it.
        is_evicted: Whether it is freed when the last of these runs ends.
    """

    context: Context
    users: int = 0
    is_evicted: bool = False


class Specializer:
    """The graphs of a model file, one for each set of shapes and values of some inputs.

    The shapes of these inputs select the graph. So do the values of inputs that the conversion asks
    for; they become constants. Beyond the limit, the least recently used graph is freed. Threads
    may share a specializer.

    Args:
        path: The file.
        names: The inputs.
        prepare: Returns a context with a model's finalized graphs.
        ops: Ops for the conversions; by default those of all installed op packages.
        limit: Maximum number of graphs kept.
        input_format: Name of the frontend; by default it is found by suffix, then by content.

    Attributes:
        names: Names of the inputs.

    Raises:
        ConfigError: The limit is not a positive integer, a name occurs twice, or the model has no
            such input and the frontend knows its inputs without converting it.
        FrontendError: The file cannot be read, or no frontend reads it.
    """

    def __init__(
        self,
        path: PathLike,
        names: Sequence[str],
        prepare: Callable[[Model], Context],
        ops: OpRegistry | None = None,
        limit: int = MAX_SPECIALIZATIONS,
        input_format: str | None = None,
    ) -> None:
        # imported here, as below: a session without a specializer does without
        from dovetail.api.conversion import find_frontend

        _check_names(names)
        check_limit(limit)
        _require_inputs(find_frontend(Path(path), input_format), Path(path), names)
        self.names = tuple(names)
        self._path = path
        self._prepare = prepare
        self._ops = ops
        self._limit = limit
        self._input_format = input_format
        self._constant_inputs: tuple[str, ...] = ()
        self._kept: OrderedDict[Hashable, _Specialization] = OrderedDict()
        self._guard = threading.Lock()
        self._making = threading.Lock()  # one conversion at a time; hits do not wait for it

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """The inputs whose values conversions have needed so far."""
        return self._constant_inputs

    @property
    def latest(self) -> Context | None:
        """The context that was used last; None before the first use."""
        with self._guard:
            return next(reversed(self._kept.values())).context if self._kept else None

    @contextmanager
    def context(self, inputs: Mapping[str, Any]) -> Iterator[Context]:
        """Return the context for these inputs; it stays alive during the `with` block.

        Args:
            inputs: Real values, by name; they include the inputs of the specializer.

        Raises:
            BackendError: One of these inputs is missing or is not an array of numbers.
            DovetailError: The model cannot be converted or prepared for them.
        """
        found = self._take(self._selecting(inputs))
        try:
            yield found.context
        finally:
            self._give_back(found)

    def _selecting(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        others = inputs.keys() - set(self.names)
        if problems := [
            Problem(f"missing input '{name}'", hint=suggest_name(name, others) if others else "")
            for name in self.names
            if name not in inputs
        ]:
            raise BackendError(
                "missing inputs that the session is specialized for",
                code="INPUT_INVALID",
                problems=problems,
            )
        given = {name: as_array(inputs[name], name) for name in self.names}
        if wrong := [name for name, array in given.items() if array.dtype.hasobject]:
            raise BackendError(
                f"inputs are not arrays of numbers: {', '.join(wrong)}", code="INPUT_INVALID"
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
        from dovetail.api.conversion import convert

        while True:
            try:
                options = self._options(given)
                model = convert(self._path, options, ops=self._ops, input_format=self._input_format)
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
        """Replace a model's weights by equal ones that are already in memory."""
        with self._guard:
            kept = [each.context for each in self._kept.values()]
        known = (graph.ir for context in kept for graph in tuple(context.graphs.values()))
        share_blobs(model.graphs.values(), known)

    def _key(self, given: Mapping[str, Array]) -> Hashable:
        return tuple(
            (name, array.shape, _digest(array) if name in self._constant_inputs else None)
            for name, array in given.items()
        )


def sole_source(models: Sequence[Model | PathLike]) -> Path:
    """Return the path of the only model of a session, a file to be converted.

    Args:
        models: The models of the session.

    Raises:
        ConfigError: There are several models, or the model is already converted.
    """
    if len(models) != 1:
        why = f"`specialize` requires one model, got {len(models)}"
        raise ConfigError(why, code="USAGE", hint="create a session for each")
    (model,) = models
    if isinstance(model, Model) or is_converted(model):
        raise ConfigError(
            "the shapes of a converted model are static; `specialize` cannot change them",
            code="USAGE",
            where="" if isinstance(model, Model) else str(model),
            hint="pass the path of the file that it was converted from",
        )
    return Path(model)


def check_limit(limit: int) -> None:
    """Raise if a maximum number of graphs is not positive.

    Raises:
        ConfigError: It is not.
    """
    if limit < 1:
        raise ConfigError(
            f"`max_specializations` must be at least 1, got {limit}",
            code="USAGE",
            hint="pass the number of graphs to keep",
        )


def _check_names(names: Sequence[str]) -> None:
    if wrong := [type(name).__name__ for name in names if not isinstance(name, str)]:
        raise ConfigError(
            f"`specialize` must name inputs, got an object of type {wrong[0]}",
            code="USAGE",
            hint="pass the names of the inputs as strings",
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"duplicate names in `specialize`: {', '.join(twice)}", code="USAGE")


def _require_inputs(frontend: Frontend, path: Path, names: Sequence[str]) -> None:
    """Raise if the model lacks some inputs; without `Frontend.input_names`, a conversion will."""
    if not hasattr(frontend, "input_names"):
        return
    known = frontend.input_names(path)
    if problems := [
        Problem(f"input '{name}' not found in the model", hint=suggest_name(name, known))
        for name in names
        if name not in known
    ]:
        raise ConfigError(
            "`specialize` names unknown inputs", code="USAGE", where=str(path), problems=problems
        )


def _digest(array: Array) -> str:
    return hashlib.sha256(f"{array.dtype} ".encode() + array.tobytes()).hexdigest()
