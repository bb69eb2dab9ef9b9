"""The hooks there are.

A plugin marks its functions with `hookimpl`:

    from dovetail.plugins.hookspecs import hookimpl

    @hookimpl
    def dovetail_api_return(call):
        print(call.function, call.duration_ns)

Hooks are notices, never filters: what they return is ignored, wrappers are refused, and one that
raises is reported and detached.
"""

from __future__ import annotations

import pluggy

from dovetail.plugins.events import ApiCall, NodeExecuted, PassFinished, Progress

PROJECT = "dovetail"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def dovetail_api_call(call: ApiCall) -> None:
    """A call of the runtime API is about to be made; in the thread that makes it."""


@hookspec
def dovetail_api_return(call: ApiCall) -> None:
    """A call of the runtime API returned or failed; an asynchronous one was only queued."""


@hookspec
def dovetail_api_complete(call: ApiCall) -> None:
    """An asynchronous execution ended and its outputs are valid; in the queue's thread."""


@hookspec
def dovetail_pass_finished(event: PassFinished) -> None:
    """A pass went over a graph."""


@hookspec
def dovetail_node_executed(event: NodeExecuted) -> None:
    """A step of a watched run ended; never sent in other runs."""


@hookspec
def dovetail_progress(event: Progress) -> None:
    """A long task got further."""
