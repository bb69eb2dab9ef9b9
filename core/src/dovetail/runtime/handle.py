"""Handles: valid until freed; hooks are notified of their calls."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from dovetail.arguments import ArgumentRules
from dovetail.errors import BackendError
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.runtime.api_table import API, ApiFunction
from dovetail.runtime.fast_path import parameters_of, with_fast_path

Method = TypeVar("Method", bound=Callable[..., Any])

_IDS = itertools.count(1)
_MAX_TYPES = 16  # remembered for each argument
CALL_MARK = "__dovetail_call__"
# The current call of this thread if it ends later (`graph_execute_async`).
_CURRENT: ContextVar[ApiCall | None] = ContextVar("dovetail_api_call", default=None)


class Handle:
    """Base class of all handles.

    Attributes:
        id: Number of the handle, unique in the process; traces refer to handles by it.
    """

    kind: ClassVar[str] = "handle"
    invalid_code: ClassVar[str] = "COMMON_ERROR_INVALID_ARGUMENT"
    _freed = False

    def __init__(self) -> None:
        self.id = next(_IDS)

    @property
    def is_freed(self) -> bool:
        """True if the handle may no longer be used."""
        return self._freed

    def require_alive(self) -> None:
        """Raise if the handle was freed.

        Raises:
            BackendError: It was freed; the code is the kind's INVALID_HANDLE.
        """
        if self._freed:
            raise BackendError(
                f"{self.describe()} was freed",
                code=self.invalid_code,
                hint="create a new handle; freeing a handle or its owner makes it invalid",
            )

    def invalidate(self) -> None:
        """Mark the handle as freed; called by itself or by its owner."""
        self._freed = True

    def __reduce__(self) -> NoReturn:
        raise BackendError(
            f"{self.describe()} cannot be pickled or copied",
            code="COMMON_ERROR_OPERATION_NOT_PERMITTED",
            hint="create handles in each process",
        )

    def describe(self) -> str:
        """Return the handle's name for errors."""
        return f"the {self.kind} (handle {self.id})"


def api_call(name: str) -> Callable[[Method], Method]:
    """Decorate a method as the call `name` of the API table.

    Before each call, check the handle and the types of the arguments; notify the hooks of each
    call, also of one that this rejects. The parameters of the method are those of the table, in
    order (a test compares them). A class method creates a handle from nothing.
    """
    function = API[name]

    def decorate(method: Method) -> Method:
        arguments = _Arguments(method)

        def slow(owner: Any, *values: object) -> Any:
            if owner._freed:
                owner.require_alive()
            arguments.check(values)
            return method(owner, *values)

        announced = _announced(function, slow)
        run = with_fast_path(method, slow, arguments.accepted, announced)
        setattr(run, CALL_MARK, name)
        return cast("Method", run)

    return decorate


class _Arguments:
    """The arguments of a method, and checks of their types.

    Attributes:
        names: Names of the parameters after the handle.
        accepted: Types whose values need no check, by parameter; found by checks.
    """

    def __init__(self, method: Callable[..., object]) -> None:
        self.names = parameters_of(method)[1:]
        self.accepted: dict[str, set[type]] = {name: set() for name in self.names}
        # annotations may name what is defined after the method
        self._rules = functools.cache(lambda: ArgumentRules.of(method))

    def check(self, values: tuple[object, ...]) -> None:
        """Raise for values of wrong types.

        Raises:
            ConfigError: As `ArgumentRules.check_named`.
        """
        for value, types in zip(values, self.accepted.values(), strict=True):
            if type(value) not in types:
                self._check_all(values)
                return

    def _check_all(self, values: tuple[object, ...]) -> None:
        rules, given = self._rules(), dict(zip(self.names, values, strict=True))
        rules.check_named(given)
        for name, value in given.items():
            types = self.accepted[name]
            if len(types) < _MAX_TYPES and rules.depends_on_type_alone(name):
                types.add(type(value))


def _announced(
    function: ApiFunction, run: Callable[..., Any]
) -> Callable[[Any, dict[str, object]], Any]:
    """Return a function that runs a call and notifies the hooks before and after it."""

    def announced(owner: Any, arguments: dict[str, object]) -> Any:
        values = tuple(arguments.values())  # whatever a hook does to the others
        call = ApiCall.begin(function.name, arguments, owner if function.owner else None)
        hooks.api_call(call)
        token = _CURRENT.set(call) if function.ends_later else None
        try:
            result = run(owner, *values)
        except BaseException as error:
            hooks.api_return(call.failed(error))
            raise
        finally:
            if token is not None:
                _CURRENT.reset(token)
        hooks.api_return(call.returned(result))
        return result

    return announced


def current_call() -> ApiCall | None:
    """Return the current call of this thread if it ends later and hooks are notified of it."""
    return _CURRENT.get()
