"""The registry of named things: lazy, cached, and unmoved by whatever a plugin does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import ConfigError, PluginError
from dovetail.plugins import (
    COMMANDS,
    list_plugins,
    load,
    load_all,
    names,
    on_refresh,
    probe,
    refresh,
)

VERIFIERS = "dovetail.verifiers"
HELP = "dovetail.command_help"


def verifiers(**values: object) -> str:
    """Return the source of a module whose verifiers return fixed values."""
    return "\n".join(
        f"class {n}:\n    def update(self, golden, target): ...\n    def finish(self): return {v!r}"
        for n, v in values.items()
    )


def result(name: str) -> Any:
    loaded: Any = load(VERIFIERS, name)
    return loaded().finish()


def found(group: str, name: str) -> Any:
    return next(p for p in list_plugins(group) if p.name == name)


def test_listing_imports_nothing(site: Any) -> None:
    site.module("lazy_plugin", "thing = object()")
    site.dist("lazy-dist", {VERIFIERS: {"lazy": "lazy_plugin:thing"}}, version="2.1")
    plugin = found(VERIFIERS, "lazy")
    assert (plugin.dist, plugin.version, plugin.status) == ("lazy-dist", "2.1", "unloaded")
    assert plugin.value == "lazy_plugin:thing"
    assert "lazy" in names(VERIFIERS)
    assert plugin in list_plugins()
    assert "lazy_plugin" not in sys.modules


def test_plugin_is_loaded_once(site: Any) -> None:
    site.module("once_plugin", verifiers(thing=1))
    site.dist("once-dist", {VERIFIERS: {"once": "once_plugin:thing"}})
    thing = load(VERIFIERS, "once")
    assert thing is sys.modules["once_plugin"].thing
    assert load(VERIFIERS, "once") is thing
    assert found(VERIFIERS, "once").status == "ok"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no such luck\\nsecond line')", "RuntimeError: no such luck"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import a_module_that_does_not_exist", "ModuleNotFoundError: No module named 'a_module"),
        ("assert False", "AssertionError"),
        ("other = 1", "AttributeError: module 'bad_plugin' has no attribute 'thing'"),
        ("thing = = 1", "SyntaxError: invalid syntax"),
    ],
)
def test_broken_plugin_is_quarantined(site: Any, source: str, reason: str) -> None:
    site.module("bad_plugin", source)
    site.module("good_plugin", verifiers(thing=42))
    site.dist("bad-dist", {VERIFIERS: {"bad": "bad_plugin:thing", "good": "good_plugin:thing"}})
    with pytest.raises(PluginError) as caught:
        load(VERIFIERS, "bad")
    assert caught.value.code == "PLUGIN_BROKEN"
    assert "bad-dist 1.0" in caught.value.where
    assert reason in caught.value.message
    assert type(caught.value.__cause__).__name__ == reason.partition(":")[0]
    assert result("good") == 42
    bad = found(VERIFIERS, "bad")
    assert bad.status == "broken"
    assert bad.reason.startswith(reason)
    assert "second line" not in bad.reason


def test_broken_plugin_is_not_tried_again(site: Any) -> None:
    marks = site.folder / "marks"
    site.module(
        "sad_plugin",
        f"with open({str(marks)!r}, 'a') as f:\n    f.write('x')\nraise OSError('sad')",
    )
    site.dist("sad-dist", {VERIFIERS: {"sad": "sad_plugin:thing"}})
    for _ in range(2):
        with pytest.raises(PluginError, match="sad"):
            load(VERIFIERS, "sad")
    assert marks.read_text() == "x"
    refresh()
    with pytest.raises(PluginError, match="sad"):
        load(VERIFIERS, "sad")
    assert marks.read_text() == "xx"


def test_interrupt_during_an_import_is_the_users(site: Any) -> None:
    site.module("slow_plugin", "raise KeyboardInterrupt")
    site.dist("slow-dist", {VERIFIERS: {"slow": "slow_plugin:thing"}})
    with pytest.raises(KeyboardInterrupt):
        load(VERIFIERS, "slow")
    assert found(VERIFIERS, "slow").status == "unloaded"


def test_conflict_names_both_dists(site: Any) -> None:
    site.module("rival_plugin", verifiers(one=1, two=2, middle=3))
    # Not neighbors: between the two claims lies another name.
    first = {"same": "rival_plugin:one", "tame": "rival_plugin:middle"}
    site.dist("alpha-dist", {VERIFIERS: first})
    site.dist("omega-dist", {VERIFIERS: {"same": "rival_plugin:two"}}, version="7.0")
    with pytest.raises(PluginError) as caught:
        load(VERIFIERS, "same")
    assert caught.value.code == "PLUGIN_CONFLICT"
    assert "alpha-dist 1.0" in caught.value.message
    assert "omega-dist 7.0" in caught.value.message
    rivals = [p for p in list_plugins(VERIFIERS) if p.name == "same"]
    assert [(p.dist, p.status) for p in rivals] == [
        ("alpha-dist", "conflict"),
        ("omega-dist", "conflict"),
    ]
    assert all("alpha-dist" in p.reason and "omega-dist" in p.reason for p in rivals)
    assert "rival_plugin" not in sys.modules
    assert result("tame") == 3


def test_one_name_in_two_groups_is_no_conflict(site: Any) -> None:
    site.module("two_plugin", verifiers(one=1) + "\nclass two:\n    observe = range = print")
    site.dist("first-dist", {VERIFIERS: {"both": "two_plugin:one"}})
    site.dist("second-dist", {"dovetail.range_estimators": {"both": "two_plugin:two"}})
    assert result("both") == 1
    assert load("dovetail.range_estimators", "both") is sys.modules["two_plugin"].two


def test_dist_found_twice_is_the_first_one(site: Any, tmp_path: Path) -> None:
    site.module("copied_plugin", verifiers(new="new", old="old"))
    site.dist("copied.Dist", {VERIFIERS: {"copied": "copied_plugin:new"}}, version="2.0")
    behind = type(site)(tmp_path / "behind")
    behind.folder.mkdir()
    sys.path.append(str(behind.folder))  # the site fixture restores sys.path
    behind.dist("copied-dist", {VERIFIERS: {"copied": "copied_plugin:old"}}, version="1.0")
    assert [p.version for p in list_plugins(VERIFIERS) if p.name == "copied"] == ["2.0"]
    assert result("copied") == "new"


@pytest.mark.parametrize(
    ("requirement", "fault"),
    [
        ("dovetail-core>=99", "requires dovetail-core>=99, but dovetail-core 0.1.0 is installed"),
        ("Dovetail_Core (<0.1)", "requires dovetail-core<0.1"),
        ("dovetail-core>=0.1,!=0.1.*", "!=0.1.*"),
        ("dovetail-core>=ninety", "invalid requirement 'dovetail-core>=ninety'"),
        ("dovetail-core>=99; python_version >= '3'", "requires dovetail-core>=99"),
        ("dovetail-core>=0.1,<0.2", ""),
        ("dovetail-core", ""),
        ("dovetail-core>=99; extra == 'future'", ""),
        ("dovetail-core>=99; python_version < '3'", ""),
        ("dovetail-core-extras>=99", ""),
        ("numpy>=99", ""),
    ],
)
def test_requirement_on_core_is_judged_without_importing(
    site: Any, requirement: str, fault: str
) -> None:
    site.module("choosy_plugin", verifiers(thing=1))
    site.dist("choosy-dist", {VERIFIERS: {"choosy": "choosy_plugin:thing"}}, requires=[requirement])
    plugin = found(VERIFIERS, "choosy")
    if not fault:
        assert plugin.status == "unloaded"
        assert result("choosy") == 1
        return
    assert plugin.status == "incompatible"
    assert fault in plugin.reason
    with pytest.raises(PluginError) as caught:
        load(VERIFIERS, "choosy")
    assert caught.value.code == "PLUGIN_INCOMPATIBLE"
    assert "choosy-dist" in caught.value.where
    assert "choosy_plugin" not in sys.modules


def test_missing_plugin_suggests_the_nearest(site: Any) -> None:
    site.dist("near-dist", {VERIFIERS: {"CosineSimilarity": "nowhere:at_all"}})
    with pytest.raises(PluginError) as caught:
        load(VERIFIERS, "cosine-similarity")
    assert caught.value.code == "PLUGIN_MISSING"
    assert "'CosineSimilarity'" in caught.value.hint
    with pytest.raises(PluginError, match="plugin 'none-such' is not installed"):
        probe(VERIFIERS, "none-such")


def test_unknown_group_is_the_callers_error(site: Any) -> None:
    for call in (list_plugins, names, load_all):
        with pytest.raises(ConfigError) as caught:
            call("dovetail.backend")
        assert "'dovetail.backends'" in caught.value.hint
    with pytest.raises(ConfigError):
        load("dovetail.backend", "cpu")


def test_plugin_in_an_unknown_group_is_listed_with_a_suggestion(site: Any) -> None:
    site.dist("typo-dist", {"dovetail.verifyers": {"lost": "somewhere:thing"}})
    plugin = next(p for p in list_plugins() if p.dist == "typo-dist")
    assert plugin.status == "broken"
    assert "'dovetail.verifiers'" in plugin.reason


@pytest.mark.parametrize("damage", ["no metadata", "no name", "malformed entry points"])
def test_damaged_dist_is_listed_and_harms_no_other(site: Any, damage: str) -> None:
    site.module("whole_plugin", verifiers(thing=1))
    site.dist("whole-dist", {VERIFIERS: {"whole": "whole_plugin:thing"}})
    info = site.dist("torn-dist", {VERIFIERS: {"torn": "whole_plugin:thing"}})
    if damage == "no metadata":
        (info / "METADATA").unlink()
    elif damage == "no name":
        (info / "METADATA").write_text("Metadata-Version: 2.1\n\n")
    else:
        (info / "entry_points.txt").write_text(f"[{VERIFIERS}]\nthere is no equals sign\n")
    refresh()
    torn = [p for p in list_plugins() if p.dist in ("torn-dist", f"(unnamed in {site.folder})")]
    assert [p.status for p in torn] == ["broken"]
    assert "cannot be read" in torn[0].reason or "lack a name" in torn[0].reason
    assert result("whole") == 1


@pytest.mark.parametrize(
    ("selection", "kept"),
    [
        ("left-dist", {"left", "shared"}),
        ("LEFT_dist", {"left", "shared"}),
        (" left.dist , right ", {"left", "shared", "right"}),
        ("right", {"right"}),
        ("", set()),
        (" , ", set()),
    ],
)
def test_variable_restricts_the_plugins(
    site: Any, monkeypatch: pytest.MonkeyPatch, selection: str, kept: set[str]
) -> None:
    site.module("chosen_plugin", verifiers(thing=1))
    value = "chosen_plugin:thing"
    site.dist("left-dist", {VERIFIERS: {"left": value, "shared": value}})
    site.dist("right-dist", {VERIFIERS: {"right": value, "shared": value}})
    monkeypatch.setenv("DOVETAIL_PLUGINS", selection)
    refresh()
    assert set(names(VERIFIERS)) == kept
    # Both dists claim `shared`: leaving one out settles it.
    assert load_all(VERIFIERS).keys() == kept
    assert set(names(COMMANDS)) == {"cache", "doctor", "explain", "inspect", "plugins"}
    if "right" not in kept:
        with pytest.raises(PluginError) as caught:
            load(VERIFIERS, "right")
        assert caught.value.code == "PLUGIN_MISSING"
        assert "disabled by DOVETAIL_PLUGINS" in caught.value.message
        assert found(VERIFIERS, "right").status == "disabled"


def test_variable_that_names_nothing_is_an_error(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.dist("named-dist", {VERIFIERS: {"named": "somewhere:thing"}})
    monkeypatch.setenv("DOVETAIL_PLUGINS", "named,naemd-dist")
    refresh()
    with pytest.raises(ConfigError) as caught:
        list_plugins()
    assert caught.value.where == "DOVETAIL_PLUGINS"
    assert "'naemd-dist'" in caught.value.message
    assert "'named-dist'" in caught.value.hint


def test_load_all_leaves_out_the_unusable_with_one_warning(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site.module("fit_plugin", verifiers(thing=1))
    site.module("unfit_plugin", "raise ValueError('unfit')")
    site.dist("fit-dist", {VERIFIERS: {"fit": "fit_plugin:thing", "unfit": "unfit_plugin:thing"}})
    site.dist("new-dist", {VERIFIERS: {"new": "fit_plugin:thing"}}, requires=["dovetail-core>9"])
    for _ in range(2):
        assert "fit" in load_all(VERIFIERS)
        assert load_all(VERIFIERS).keys().isdisjoint({"unfit", "new"})
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len([w for w in warnings if "'unfit'" in w and "ValueError: unfit" in w]) == 1
    assert len([w for w in warnings if "'new'" in w and "dovetail-core>9" in w]) == 1
    assert len(warnings) == 2


def test_probe_tells_what_loading_came_to(site: Any) -> None:
    site.module("fine_plugin", verifiers(thing=1))
    site.dist("fine-dist", {VERIFIERS: {"fine": "fine_plugin:thing", "gone": "fine_plugin:gone"}})
    assert probe(VERIFIERS, "fine").status == "ok"
    gone = probe(VERIFIERS, "gone")
    assert gone.status == "broken"
    assert "no attribute 'gone'" in gone.reason


@pytest.mark.parametrize("line", ["Say: hello, world", "help [Say: hello, world]"])
def test_line_of_help_is_the_value_itself(site: Any, line: str) -> None:
    site.dist("hello-dist", {HELP: {"hello": line}})
    assert load(HELP, "hello") == "Say: hello, world"
    assert found(HELP, "hello").status == "ok"


def test_refresh_finds_what_was_installed_since(site: Any) -> None:
    calls: list[str] = []
    on_refresh(lambda: calls.append("refreshed"))
    assert "later" not in names(VERIFIERS)
    site.module("later_plugin", verifiers(thing=1))
    site.dist("later-dist", {VERIFIERS: {"later": "later_plugin:thing"}})
    assert result("later") == 1
    assert "refreshed" in calls


def test_threads_load_different_plugins_of_a_group(site: Any) -> None:
    count = 8
    for i in range(count):
        site.module(f"thread_plugin{i}", "import time\ntime.sleep(0.01)\n" + verifiers(thing=i))
    points = {f"t{i}": f"thread_plugin{i}:thing" for i in range(count)}
    site.dist("thread-dist", {VERIFIERS: points})
    start = threading.Barrier(2 * count)
    results: list[tuple[int, object]] = []

    def work(i: int) -> None:
        start.wait()
        results.append((i, result(f"t{i}")))

    threads = [threading.Thread(target=work, args=(i % count,)) for i in range(2 * count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted([(i, i) for i in range(count)] * 2)


def test_plugin_may_use_the_registry_as_it_is_imported(site: Any) -> None:
    source = "from dovetail.plugins import load\nthing = load('dovetail.verifiers', 'inner')"
    site.module("outer_plugin", source)
    site.module("inner_plugin", verifiers(thing=1))
    site.dist("nested-dist", {VERIFIERS: {"outer": "outer_plugin:thing"}})
    site.dist("other-dist", {VERIFIERS: {"inner": "inner_plugin:thing"}})
    assert load(VERIFIERS, "outer") is sys.modules["inner_plugin"].thing


def test_stevedore_is_kept_from_its_disk_cache(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from stevedore import _cache

    def refuse(*_: object) -> object:
        raise AssertionError("stevedore asked its disk cache")

    monkeypatch.setattr(_cache.Cache, "_get_data_for_path", refuse)
    site.module("warm_plugin", verifiers(thing=1))
    site.dist("warm-dist", {VERIFIERS: {"warm": "warm_plugin:thing"}})
    assert result("warm") == 1


def test_no_cache_is_written_to_the_users_home(site: Any, tmp_path: Path) -> None:
    site.module("cold_plugin", verifiers(thing=1))
    site.dist("cold-dist", {VERIFIERS: {"cold": "cold_plugin:thing"}})
    home = tmp_path / "home"
    home.mkdir()
    # Where the interpreter lies under /tmp stevedore writes no cache; say that it lies elsewhere.
    program = (
        "import sys; sys.executable = '/usr/bin/python'\n"
        "from dovetail.plugins import load, list_plugins\n"
        f"list_plugins(); print(load({VERIFIERS!r}, 'cold')().finish())"
    )
    path = os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": path}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert list(home.rglob("*")) == []
