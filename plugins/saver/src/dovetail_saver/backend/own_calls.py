"""The recorder of one Saver backend: of its own calls, and of no others."""

from __future__ import annotations

import time
from collections.abc import Mapping

from dovetail.plugins.events import ApiCall
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime import Backend, contract
from dovetail.runtime.handle import Handle
from dovetail_saver.tape import Tape, TapeHook


class OwnCalls(TapeHook):
    """Records the calls of the handles that come from one backend.

    Its creation is recorded with the first of them: that call is announced before the backend
    exists, or not at all.

    Args:
        tape: Receives the records.
        plugin: The backend.
        arguments: Those of its creation.

    Attributes:
        is_freeing: Whether `backend_free` is in progress.
    """

    def __init__(
        self, tape: Tape, plugin: contract.Backend, arguments: Mapping[str, object]
    ) -> None:
        super().__init__(tape)
        self._plugin = plugin
        self._own: set[int] = set()  # identifiers of handles
        self.is_freeing = False
        self._created = ApiCall(0, "backend_create", None, arguments, time.perf_counter_ns())
        super().dovetail_api_call(self._created)  # the arguments may change later

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        """Read the arguments of a call."""
        owner = call.owner
        if isinstance(owner, Backend) and owner.plugin is self._plugin and not self._own:
            self._own.add(owner.id)
            super().dovetail_api_return(self._created.returned(owner))
        if self._is_own(call):
            self.is_freeing = self.is_freeing or call.function == "backend_free"
            super().dovetail_api_call(call)

    @hookimpl
    def dovetail_api_return(self, call: ApiCall) -> None:
        """Record a call with its result; after that of `backend_free`, end the trace."""
        if not self._is_own(call):
            return
        super().dovetail_api_return(call)
        if isinstance(call.result, Handle):
            self._own.add(call.result.id)
        if call.function == "backend_free":
            self.is_freeing = False
            if call.error is None:
                self._tape.close()

    @hookimpl
    def dovetail_api_complete(self, call: ApiCall) -> None:
        """Record the end of an asynchronous execution."""
        if self._is_own(call):
            super().dovetail_api_complete(call)

    def _is_own(self, call: ApiCall) -> bool:
        return isinstance(call.owner, Handle) and call.owner.id in self._own
