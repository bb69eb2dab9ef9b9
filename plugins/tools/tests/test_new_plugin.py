"""`dovetail new-plugin`: every template installed, checked, tested and listed; refusals."""

from __future__ import annotations

import io
import itertools
import json
import keyword
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import forked
import pytest
import wheels
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cli import main
from dovetail.errors import ContainerError
from dovetail_tools._new_folder import NewFolder, write_folders
from dovetail_tools._scaffold import Names, PluginKind, form_faults, project_files

# Kind -> name of the plugin, dist, group and class or object that its entry point loads.
MADE = {
    "backend": ("sample-npu", "sample-npu", "backends", "sample_npu:SampleNpuBackend"),
    "op-package": ("sample.ops", "sample-ops", "op_packages", "sample_ops.ops:PACKAGE"),
    "frontend": ("sampleText", "sample-text", "frontends", "sample_text:SampleTextFrontend"),
    "verifier": ("SampleL2", "sample-l2", "verifiers", "sample_l2:RelativeError"),
    "estimator": ("sample_mean", "sample-mean", "range_estimators", "sample_mean:MovingAverage"),
    "hook": ("sample-calls", "sample-calls", "hooks", "sample_calls:HOOK"),
    "pass": ("sample-negations", "sample-negations", "passes", "sample_negations:PASS"),
    "exporter": ("sampleDot", "sample-dot", "exporters", "sample_dot:SampleDotExporter"),
    "command": ("sample-ops-count", "sample-ops-count", "commands", "sample_ops_count:app"),
}
EACH = pytest.mark.parametrize("kind", MADE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dist of each kind, as the command writes them."""
    folder = tmp_path_factory.mktemp("made")
    for kind, (name, *_) in MADE.items():
        with redirect_stdout(io.StringIO()):
            assert main(["new-plugin", kind, name, "--output-path", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def site(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where all of them are installed."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("site")
    for _, dist, *_ in MADE.values():
        wheels.install(made / dist, folder)
    return folder


def told(command: Sequence[str] | str, folder: Path, site: Path) -> str:
    """Run a command with what is installed in `site`; return what it prints."""
    done = forked.run(command, folder, path=[site])
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_all_are_listed_and_load(site: Path, tmp_path: Path) -> None:
    rows = json.loads(told(["dovetail", "--json", "plugins", "--load"], tmp_path, site))
    found = {(row["group"], row["name"]): row for row in rows["plugins"]}
    for name, dist, group, value in MADE.values():
        row = found[f"dovetail.{group}", name]
        assert (row["dist"], row["version"], row["value"]) == (dist, "0.1.0", value)
        assert row["status"] == "ok", row["reason"]
    assert found["dovetail.kernels", "cpu:sample.ops"]["status"] == "ok"


@EACH
def test_it_passes_its_own_tests(kind: str, made: Path, site: Path) -> None:
    out = told("pytest -q -p no:cacheprovider", made / MADE[kind][1], site)
    found = re.search(r"(\d+) passed", out)
    assert found is not None, out
    assert int(found[1]) >= 10
    assert kind == "backend" or "skipped" not in out


def test_all_satisfy_the_type_checker(made: Path, check_types: Any) -> None:
    dists = [made / dist for _, dist, *_ in MADE.values()]
    told = check_types([folder / part for folder in dists for part in ("src", "tests")])
    assert told.startswith("Success"), told


@EACH
def test_its_readme_tells_the_truth(kind: str, made: Path, site: Path, tmp_path: Path) -> None:
    dist = MADE[kind][1]
    (tmp_path / dist).symlink_to(made / dist)
    text = (made / dist / "README.md").read_text("utf-8")
    lines = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    assert lines[:2] == [f"pip install -e './{dist}[test]'", f"python -m pytest {dist}"]
    # the first two need an environment of their own; the second has a test above
    for line in lines[2:]:
        if "dovetail_opset.testing" not in line:  # the backend's tests run these cases, too
            told(line, tmp_path, site)
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        assert told(["python", "-W", "error", "-c", block], tmp_path, site)
    for path in re.findall(r"\]\(([^)]+)\)", text):
        assert (made / dist / path).is_file(), path


# The longest name, one of many short words, and the shortest; each in all places.
NAMES = ["Abcdefghijklmnopqrstuvwxyzabcd", "a.b1-c_dE.fG-hI.jK", "x"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_fits_the_formatter(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    assert not form_faults(name)
    for kind in PluginKind:
        write_folders([NewFolder(tmp_path / kind, project_files(kind, Names.of(name)))])
    for command in (("check", "--no-cache", "."), ("format", "--no-cache", "--check", ".")):
        ruff = [sys.executable, "-m", "ruff", *command]
        done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@given(st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True))
def test_a_name_gives_good_names_or_is_refused(name: str) -> None:
    if form_faults(name):
        return
    names = Names.of(name)
    for each in (names.module, names.words):
        assert each.isidentifier()
        assert not keyword.iskeyword(each)
    # what pip makes of a dist's name (PEP 503)
    assert names.dist == re.sub(r"[-_.]+", "-", names.dist).lower()
    joined = re.sub(r"[._-]", "", name).lower()
    assert {"".join(n).lower() for n in (names.module.split("_"), names.words)} == {joined}
    for kind in PluginKind:
        for path, text in project_files(kind, names).items():
            assert "{{" not in text
            assert "module" not in path or "module" in names.module


def test_what_it_prints(run: Any, entries: Any) -> None:
    done = run("new-plugin", "verifier", "SampleL2", "-o", "here/below", "--json")
    assert done.code == 0
    assert done.data["dist"] == "sample-l2"
    assert done.data["folder"] == "here/below/sample-l2"
    written = {e for e in entries() if Path(e).is_file()}
    assert {f"here/below/sample-l2/{file}" for file in done.data["files"]} == written
    assert "pyproject.toml" in done.data["files"]
    assert done.data["next"] == [
        "pip install -e './here/below/sample-l2[test]'",
        "python -m pytest here/below/sample-l2",
        "dovetail plugins --group verifiers --load",
    ]
    text = run("new-plugin", "verifier", "SampleL2").out
    assert text.splitlines()[0] == "sample-l2: a verifier 'SampleL2'"
    assert text.splitlines()[-3:] == [
        f"  {line.replace('here/below/', '')}" for line in done.data["next"]
    ]


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("backend", "cpu", "claimed by dovetail-cpu 0.1.0"),
        ("op-package", "qti.aisw", "claimed by dovetail-opset"),
        ("frontend", "onnx", "claimed by dovetail-onnx"),
        ("verifier", "Hypothesis", "dist 'hypothesis'"),
        ("estimator", "dovetail", "hide Python's or Dovetail's own"),
        ("estimator", "dovetail-mean", "Dovetail's own"),
        ("verifier", "typing_extensions", "is installed"),
        ("backend", "random", "would hide"),
        ("backend", "Class", "would hide"),
        ("backend", "../up", "invalid plugin name"),
        ("backend", "a/b", "invalid plugin name"),
        ("backend", ".", "invalid plugin name"),
        ("backend", "", "invalid plugin name"),
        ("backend", "a b", "invalid plugin name"),
        ("backend", "npu\n", "invalid plugin name"),
        ("backend", "größer", "invalid plugin name"),
        ("backend", "1st", "invalid plugin name"),
        ("backend", "a" * 31, "up to 30"),
        ("backend", 'x"] = 1', "invalid plugin name"),
    ],
)
def test_names_that_are_refused(run: Any, entries: Any, kind: str, name: str, said: str) -> None:
    done = run("--json", "new-plugin", kind, name)
    assert done.code == 2
    assert any(said in json.dumps(p, ensure_ascii=False) for p in done.error["problems"]), done.err
    assert not entries()


def test_a_folder_that_holds_something_is_refused(run: Any, entries: Any) -> None:
    Path("sample-npu").mkdir()
    Path("sample-npu/mine.txt").write_text("mine")
    done = run("new-plugin", "backend", "sample-npu")
    assert done.code == 3
    assert "is not replaced" in done.err
    assert entries() == {"sample-npu", "sample-npu/mine.txt"}


def test_an_empty_folder_is_filled(run: Any) -> None:
    Path("sample-npu").mkdir()
    assert run("new-plugin", "backend", "sample-npu").code == 0
    assert Path("sample-npu/pyproject.toml").is_file()


@pytest.mark.parametrize("make", [lambda p: p.write_text("x"), lambda p: p.symlink_to("else")])
def test_what_is_no_folder_is_refused(run: Any, entries: Any, make: Any) -> None:
    make(Path("sample-npu"))
    done = run("new-plugin", "backend", "sample-npu")
    assert done.code == 3
    assert "is not a folder" in done.err
    assert entries() == {"sample-npu"}


def test_a_kind_that_there_is_not(run: Any) -> None:
    done = run("new-plugin", "bakend", "x")
    assert done.code == 2
    assert "op-package" in done.err


def holding(*names: str) -> list[NewFolder]:
    return [NewFolder(Path(name), {"a": "1", "c/b": "2"}) for name in names]


# Each write and each move of two folders, where one gives way or both are new.
CALLS = [
    (names, step, call)
    for names, moves in (("old other", 3), ("other old", 3), ("new/folder/one new/folder/two", 2))
    for step, count in (("write_bytes", 4), ("replace", moves))
    for call in range(1, count + 1)
]


@pytest.mark.parametrize(("names", "step", "call"), CALLS)
def test_after_a_full_disk_everything_is_as_it_was(
    entries: Any, monkeypatch: Any, names: str, step: str, call: int
) -> None:
    real, calls = getattr(Path, step), itertools.count(1)

    def full(path: Path, *args: Any) -> Any:
        if next(calls) == call:
            raise OSError(28, "No space left on device")
        return real(path, *args)

    Path("old").mkdir()
    Path("old/mark").touch()
    before = entries()
    monkeypatch.setattr(Path, step, full)
    with pytest.raises(ContainerError, match="No space left"):
        write_folders(holding(*names.split()))
    assert entries() == before


def test_folders_give_way(entries: Any) -> None:
    for name in ("kept", "dropped", "empty"):
        Path(name).mkdir()
    for name in ("kept", "dropped"):
        Path(name, "mark").touch()
    keep = {Path("kept"): Path("elsewhere")}
    write_folders(holding("kept", "dropped", "empty"), keep.get)
    written = {f"{n}{f}" for n in ("kept", "dropped", "empty") for f in ("", "/a", "/c", "/c/b")}
    assert entries() == {*written, "elsewhere", "elsewhere/mark"}
    assert Path("empty/c/b").read_text() == "2"
