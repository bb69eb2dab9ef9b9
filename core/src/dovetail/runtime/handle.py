"""Handles: valid until freed; hooks are notified of their calls."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextvars import ContextVar
from typing import ClassVar, Concatenate, NoReturn, ParamSpec, TypeVar

from dovetail.arguments import check_arguments
from dovetail.errors import BackendError
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.runtime.api_table import API

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound="Handle")

_IDS = itertools.count(1)
CALL_MARK = "__dovetail_call__"
# The current call of this thread, for calls that end later (`graph_execute_async`).
_CURRENT: ContextVar[ApiCall | None] = ContextVar("dovetail_api_call", default=None)


class Handle:
    """Base class of all handles.

    Attributes:
        id: Number of the handle, unique in the process; traces refer to handles by it.
    """

    kind: ClassVar[str] = "handle"
    invalid_code: ClassVar[str] = "COMMON_ERROR_INVALID_ARGUMENT"

    def __init__(self) -> None:
        self.id = next(_IDS)
        self._freed = False

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


def api_call(
    name: str,
) -> Callable[[Callable[Concatenate[H, P], R]], Callable[Concatenate[H, P], R]]:
    """Decorate a method as the call `name` of the API table.

    Before each call, check the handle and the types of the arguments, and notify the hooks. The
    parameters of the method are those of the table, in order (a test compares them).
    """
    call = API[name]
    names = tuple(arg for arg, _ in call.args)

    def decorate(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
        run = check_arguments(method)

        @functools.wraps(method)
        def announced(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
            if self._freed:
                self.require_alive()
            if not hooks.active:
                return run(self, *args, **kwargs)
            arguments: dict[str, object] = {"handle": self}
            arguments |= dict(zip(names, args, strict=False)) | kwargs
            return call_with_hooks(name, arguments, lambda: run(self, *args, **kwargs))

        setattr(announced, CALL_MARK, name)
        return announced

    return decorate


def call_with_hooks(name: str, arguments: dict[str, object], run: Callable[[], R]) -> R:
    """Run a call of the API table and notify the hooks, if there are any."""
    if not hooks.active:
        return run()
    call = ApiCall.begin(name, arguments)
    hooks.api_call(call)
    token = _CURRENT.set(call)
    try:
        result = run()
    except BaseException as error:
        hooks.api_return(call.failed(error))
        raise
    finally:
        _CURRENT.reset(token)
    hooks.api_return(call.returned(result))
    return result


def current_call() -> ApiCall | None:
    """Return the current call of this thread if hooks are notified of it."""
    return _CURRENT.get()
