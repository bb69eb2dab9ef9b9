"""A plugin that records the events of hooks."""

from __future__ import annotations

from dovetail.plugins.events import ApiCall, NodeExecuted, PassFinished
from dovetail.plugins.hookspecs import hookimpl


class Recorder:
    """Keeps the kind and the argument of each event, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        self.events.append(("call", call))

    @hookimpl
    def dovetail_api_return(self, call: ApiCall) -> None:
        self.events.append(("return", call))

    @hookimpl
    def dovetail_api_complete(self, call: ApiCall) -> None:
        self.events.append(("complete", call))

    @hookimpl
    def dovetail_pass_finished(self, event: PassFinished) -> None:
        self.events.append(("pass", event))

    @hookimpl
    def dovetail_node_executed(self, event: NodeExecuted) -> None:
        self.events.append(("node", event))

    @hookimpl
    def dovetail_progress(self) -> None:  # an argument that it does not need may be left out
        self.events.append(("progress", None))
