"""Hooks: told in order, verified when they are registered, detached when they fail."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import types
from typing import Any

import pytest
from hook_recorder import Recorder

from dovetail.errors import BackendError, PluginError
from dovetail.plugins import refresh
from dovetail.plugins.events import ApiCall, NodeExecuted, PassFinished, Progress
from dovetail.plugins.hooks import Hooks
from dovetail.plugins.hookspecs import hookimpl


def test_every_event_reaches_its_hook() -> None:
    hooks, recorder = Hooks(), Recorder()
    call = ApiCall.begin("graph_execute", {"inputs": 3})
    done = call.returned(7)
    finished = PassFinished("g", "fold", True, 1.5)
    executed = NodeExecuted("g", ("conv", "relu"), {}, 12.0)
    assert not hooks.active
    with hooks.registered(recorder):
        assert hooks.active
        hooks.api_call(call)
        hooks.api_return(done)
        hooks.api_complete(done)
        hooks.pass_finished(finished)
        hooks.node_executed(executed)
        hooks.progress(Progress("run", 1, 10))
    assert not hooks.active
    hooks.api_call(call)  # nobody listens any more
    assert recorder.events == [
        ("call", call),
        ("return", done),
        ("complete", done),
        ("pass", finished),
        ("node", executed),
        ("progress", None),
    ]


def test_api_call_keeps_its_number_and_takes_its_time() -> None:
    first, second = ApiCall.begin("a", {}), ApiCall.begin("b", {"x": 1})
    assert second.number > first.number
    assert first.duration_ns is None
    error = BackendError("no")
    returned, failed = second.returned("r"), second.failed(error)
    assert (returned.number, returned.function, returned.arguments) == (
        second.number,
        "b",
        {"x": 1},
    )
    assert (returned.result, returned.error) == ("r", None)
    assert (failed.result, failed.error) == (None, error)
    assert returned.duration_ns is not None
    assert returned.duration_ns >= 0
    assert returned.start_ns == second.start_ns


def test_module_may_be_a_plugin() -> None:
    seen: list[object] = []
    module = types.ModuleType("hook_module")

    @hookimpl
    def dovetail_progress(event: Progress) -> None:
        seen.append(event.task)

    module.dovetail_progress = dovetail_progress  # type: ignore[attr-defined]
    module.dovetail_cpu = types.ModuleType("dovetail_cpu")  # type: ignore[attr-defined]
    hooks = Hooks()
    with hooks.registered(module):
        hooks.progress(Progress("convert", 1))
    assert seen == ["convert"]


class Misspelt:
    @hookimpl
    def dovetail_api_cal(self, call: ApiCall) -> None: ...


class WrongArgument:
    @hookimpl
    def dovetail_api_call(self, event: ApiCall) -> None: ...


class Unmarked:
    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None: ...

    def dovetail_api_return(self, call: ApiCall) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def dovetail_api_call(self, call: ApiCall) -> Any:
        return (yield)


class Empty:
    pass


@pytest.mark.parametrize(
    ("plugin", "message", "hint"),
    [
        (Misspelt, "dovetail_api_cal", "did you mean 'dovetail_api_call'?"),
        (WrongArgument, "event", ""),
        (Unmarked, "not marked with hookimpl: dovetail_api_return", ""),
        (Wrapper, "dovetail_api_call is a wrapper", ""),
        (Empty, "no hook is implemented", ""),
    ],
)
def test_plugin_that_does_not_fit_is_refused(plugin: type[object], message: str, hint: str) -> None:
    hooks, recorder = Hooks(), Recorder()
    hooks.register(recorder)
    refused = plugin()
    with pytest.raises(PluginError) as caught:
        hooks.register(refused)
    assert caught.value.code == "PLUGIN_BROKEN"
    assert plugin.__name__ in caught.value.where
    assert message in caught.value.message
    assert hint in caught.value.hint
    # Nothing of it stays: others are told as before, and register as before.
    hooks.register(other := Recorder())
    hooks.api_call(ApiCall.begin("a", {}))
    assert len(recorder.events) == len(other.events) == 1
    hooks.unregister(recorder)
    hooks.unregister(other)
    assert not hooks.active


def test_one_plugin_is_registered_once() -> None:
    hooks, recorder = Hooks(), Recorder()
    hooks.register(recorder)
    with pytest.raises(PluginError) as caught:
        hooks.register(recorder)
    assert caught.value.code == "PLUGIN_CONFLICT"
    hooks.progress(Progress("x", 1))
    assert len(recorder.events) == 1
    hooks.unregister(recorder)
    hooks.unregister(recorder)  # a second time it is nothing


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.count = 0

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        self.count += 1
        raise self.error

    @hookimpl
    def dovetail_progress(self, event: Progress) -> None:
        self.count += 100


@pytest.mark.parametrize("error", [ValueError("disk full"), SystemExit(1)])
def test_failing_hook_is_reported_once_and_detached(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    hooks, before, failing, after = Hooks(), Recorder(), Failing(error), Recorder()
    for plugin in (before, failing, after):
        hooks.register(plugin)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            hooks.api_call(ApiCall.begin("a", {}))
        hooks.progress(Progress("x", 1))
    assert failing.count == 1  # detached with all its hooks
    assert len(before.events) == len(after.events) == 4
    assert len(caplog.records) == 1
    text = caplog.records[0].getMessage()
    assert "Failing" in text
    assert "dovetail_api_call" in text
    assert str(error) in text


def test_interrupt_in_a_hook_is_the_users() -> None:
    hooks = Hooks()
    with hooks.registered(Failing(KeyboardInterrupt())), pytest.raises(KeyboardInterrupt):
        hooks.api_call(ApiCall.begin("a", {}))


def test_hook_that_fails_in_many_threads_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks = Hooks()
    start = threading.Barrier(4)

    class Together:
        @hookimpl
        def dovetail_progress(self, event: Progress) -> None:
            start.wait(timeout=30)  # all four are in it when the first one fails
            raise ValueError("together")

    hooks.register(Together())
    threads = [threading.Thread(target=hooks.progress, args=(Progress("x", i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caplog.records) == 1
    assert not hooks.active


HOOK_MODULE = """
from dovetail.plugins.hookspecs import hookimpl
seen = []

@hookimpl
def dovetail_progress(event):
    seen.append(event.done)
"""


def test_installed_hooks_are_loaded_once(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    site.module("hook_plugin", HOOK_MODULE)
    site.module("bad_hook_plugin", HOOK_MODULE.replace("_progress", "_progres"))
    site.module("torn_hook_plugin", "raise ImportError('torn')")
    names = ("hook_plugin", "bad_hook_plugin", "torn_hook_plugin")
    site.dist("hook-dist", {"dovetail.hooks": {name: name for name in names}})
    hooks = Hooks()
    hooks.expect_installed()
    for done in (1, 2):
        assert hooks.active
        hooks.progress(Progress("x", done))
    assert sys.modules["hook_plugin"].seen == [1, 2]
    warned = [r.getMessage() for r in caplog.records]
    assert len(warned) == 2
    assert any("torn" in w for w in warned)
    assert any("dovetail_progres" in w for w in warned)
    refresh()  # what is registered stays so, and is not registered twice
    hooks.expect_installed()
    hooks.progress(Progress("x", 3))
    assert sys.modules["hook_plugin"].seen == [1, 2, 3]


ASKED_MODULE = """
from dovetail.plugins.hookspecs import hookimpl
asked, seen = [], []

class Seeing:
    @hookimpl
    def dovetail_progress(self, event):
        seen.append(event.done)

def nothing():
    asked.append("nothing")

def seeing():
    asked.append("seeing")
    return Seeing()

def misfit():
    return object()

def failing():
    raise RuntimeError("no disk")

def needing(name):
    return Seeing()
"""


def test_a_function_returns_the_hooks_or_none(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    site.module("asked_plugin", ASKED_MODULE)
    names = ("nothing", "seeing", "misfit", "failing", "needing")
    site.dist("asked-dist", {"dovetail.hooks": {n: f"asked_plugin:{n}" for n in names}})
    hooks = Hooks()
    hooks.expect_installed()
    for done in (1, 2):
        hooks.progress(Progress("x", done))
    module = sys.modules["asked_plugin"]
    assert (sorted(module.asked), module.seen) == (["nothing", "seeing"], [1, 2])
    warned = sorted(r.getMessage() for r in caplog.records)
    assert len(warned) == 3
    assert "'failing'" in warned[0]
    assert "RuntimeError: no disk" in warned[0]
    assert "'misfit'" in warned[1]
    assert "no hook is implemented" in warned[1]
    assert "'needing'" in warned[2]
    assert "expected 'needing()'" in warned[2]
    refresh()  # asked once in a process
    hooks.expect_installed()
    hooks.progress(Progress("x", 3))
    assert (sorted(module.asked), module.seen) == (["nothing", "seeing"], [1, 2, 3])


def test_hooks_are_inactive_if_no_function_returns_any(site: Any) -> None:
    site.module("idle_plugin", ASKED_MODULE)
    site.dist("idle-dist", {"dovetail.hooks": {"idle": "idle_plugin:nothing"}})
    hooks = Hooks()
    hooks.expect_installed()
    assert hooks.active
    hooks.progress(Progress("x", 1))
    assert not hooks.active


def test_pluggy_waits_for_the_first_registration() -> None:
    program = (
        "import sys\n"
        "from dovetail.plugins.hooks import hooks\n"
        "from dovetail.plugins.events import Progress\n"
        "hooks.progress(Progress('x', 1))\n"
        "print(hooks.active, 'pluggy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("False False\n", "")


SELFISH_MODULE = """
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl

hooks.progress(Progress("import", 0))  # while it is being imported
seen = []

@hookimpl
def dovetail_progress(event):
    seen.append(event.task)
"""


def test_an_installed_hook_may_use_dovetail_while_it_is_imported(site: Any) -> None:
    site.module("selfish_plugin", SELFISH_MODULE)
    site.dist("selfish-dist", {"dovetail.hooks": {"selfish": "selfish_plugin"}})
    from dovetail.plugins.hooks import hooks

    refresh()
    hooks.progress(Progress("first", 1))
    try:
        assert sys.modules["selfish_plugin"].seen == ["first"]
    finally:
        hooks.unregister(sys.modules["selfish_plugin"])
    assert not hooks.active


def test_threads_wait_for_the_installed_hooks(site: Any) -> None:
    source = HOOK_MODULE.replace("seen = []", "import time\ntime.sleep(0.2)\nseen = []")
    site.module("slow_hook_plugin", source)
    site.dist("slow-dist", {"dovetail.hooks": {"slow": "slow_hook_plugin"}})
    hooks = Hooks()
    hooks.expect_installed()
    threads = [threading.Thread(target=hooks.progress, args=(Progress("x", i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sys.modules["slow_hook_plugin"].seen) == [0, 1, 2, 3]
