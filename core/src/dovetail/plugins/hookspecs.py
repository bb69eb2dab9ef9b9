"""Specifications of all hooks.

A plugin marks its functions with `hookimpl`:

    from dovetail.plugins.hookspecs import hookimpl

    @hookimpl
    def dovetail_api_return(call):
        print(call.function, call.duration_ns)

Hooks observe and never change anything: their results are ignored, wrappers are rejected, and a
hook that raises is reported and detached.
"""

from __future__ import annotations

import pluggy

from dovetail.plugins.events import ApiCall, NodeExecuted, PassFinished, Progress

PROJECT = "dovetail"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def dovetail_api_call(call: ApiCall) -> None:
    """Observe the start of a call of the runtime API, in the calling thread."""


@hookspec
def dovetail_api_return(call: ApiCall) -> None:
    """Observe the end of a call of the runtime API; an asynchronous one is only queued by then."""


@hookspec
def dovetail_api_complete(call: ApiCall) -> None:
    """Observe the end of an asynchronous execution, outputs being valid; in the queue's thread."""


@hookspec
def dovetail_pass_finished(event: PassFinished) -> None:
    """Observe the end of a pass on a graph."""


@hookspec
def dovetail_node_executed(event: NodeExecuted) -> None:
    """Observe the end of a step of a watched run; not called in other runs."""


@hookspec
def dovetail_progress(event: Progress) -> None:
    """Observe the progress of a long task."""
