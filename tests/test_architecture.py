"""The house rules that a program can check: dists, packages, contracts, and what files may say."""

import ast
import functools
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from workspace import ROOT, Dist, find_dists, read_toml

DISTS = find_dists()
CONFIG = read_toml(ROOT / "pyproject.toml")
UMBRELLA = CONFIG["project"]
each_dist = pytest.mark.parametrize("dist", DISTS, ids=lambda dist: dist.folder)

# What the workspace does not consist of: git's own files and what .gitignore leaves to programs.
IGNORED = (ROOT / ".gitignore").read_text("utf-8").split()
FOREIGN = {".git", *(line.rstrip("/") for line in IGNORED if re.fullmatch(r"[\w.-]+/", line))}


def project_of(dist: Dist) -> dict[str, Any]:
    table: dict[str, Any] = read_toml(ROOT / dist.folder / "pyproject.toml")["project"]
    return table


def requirement_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found.group().lower().replace("_", "-") if found else ""


@functools.cache
def all_own_files() -> tuple[Path, ...]:
    found = []
    for folder, inner, files in os.walk(ROOT):
        inner[:] = set(inner) - FOREIGN  # not even walked: an environment is large
        found += [Path(folder, name) for name in files if name not in FOREIGN]
    return tuple(sorted(path for path in found if path.is_file()))


def own_files(pattern: str) -> Iterator[Path]:
    return (path for path in all_own_files() if path.match(pattern))


def test_every_project_file_is_a_dist_that_the_tools_find() -> None:
    # A dist one folder deeper than the tools look would be built, typed and tested by nobody.
    found = {p.parent.relative_to(ROOT).as_posix() for p in own_files("pyproject.toml")}
    found = {f for f in found if f.split("/")[0] in {"core", "plugins"}}
    assert found == {dist.folder for dist in DISTS}
    assert len(found) > 1


@each_dist
def test_dist_is_complete(dist: Dist) -> None:
    folder = ROOT / dist.folder
    assert dist.name, f"{dist.folder} has no pyproject.toml"
    # One import name a dist, made from the dist's name; core alone carries the product's name.
    expected = "dovetail" if dist.folder == "core" else dist.name.replace("-", "_")
    assert dist.packages == (expected,)
    assert (folder / "src" / expected / "py.typed").is_file()
    assert (folder / "README.md").is_file()
    assert list(folder.glob("tests/**/test_*.py")), f"{dist.folder} has no tests"


@each_dist
def test_dist_versions_go_together(dist: Dist) -> None:
    project = project_of(dist)
    assert project["version"] == UMBRELLA["version"]
    assert project["requires-python"] == UMBRELLA["requires-python"]
    internal = [r for r in project["dependencies"] if r.startswith("dovetail")]
    assert all(r.endswith(">=0.1,<0.2") for r in internal), internal


def test_umbrella_offers_every_dist() -> None:
    extras = UMBRELLA["optional-dependencies"].values()
    offered = [*UMBRELLA["dependencies"], *(r for extra in extras for r in extra)]
    names = {requirement_name(r) for r in offered}
    assert {dist.name for dist in DISTS} <= names


def test_umbrella_has_a_name_that_is_free() -> None:
    assert UMBRELLA["name"] == "dovetail-nn"
    assert UMBRELLA["name"] not in {dist.name for dist in DISTS}


def test_readme_installs_the_default_set_by_path() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\$ .*pip (install|wheel) ", line)]
    paths = [[word for word in line.split() if word.startswith(".")] for line in lines]
    required = {requirement_name(r) for r in UMBRELLA["dependencies"]}
    default = {f"./{dist.folder}" for dist in DISTS if dist.name in required} | {"."}
    assert [set(found) for found in paths if found] == [default, default]
    rest = [line for line, found in zip(lines, paths, strict=True) if not found]
    assert rest == ["$ python -m pip install wheels/*.whl"]


def test_readme_links_every_document() -> None:
    linked = re.findall(r"^- \[(docs/\w+\.md)\]", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert sorted(linked) == sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))


def imports_of(folder: Path) -> set[str]:
    """Collect the top-level names that the Python files below a folder import."""
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names


@each_dist
def test_dist_declares_what_it_imports(dist: Dist) -> None:
    project = project_of(dist)
    extras = project.get("optional-dependencies", {}).values()
    declared = {requirement_name(r) for rs in [project["dependencies"], *extras] for r in rs}
    own = {p: [d.name] for d in DISTS for p in d.packages}
    providers = {**packages_distributions(), **own}
    imported = imports_of(ROOT / dist.folder / "src") - set(sys.stdlib_module_names)
    missing = {
        name
        for name in imported - set(dist.packages)
        if not declared & {requirement_name(p) for p in providers.get(name, [])}
    }
    assert not missing, f"{dist.folder}/pyproject.toml does not name {sorted(missing)}"


@each_dist
def test_tools_reach_every_source_root(dist: Dist) -> None:
    source = f"{dist.folder}/src"
    mypy = CONFIG["tool"]["mypy"]
    assert source in mypy["files"]
    assert f"$MYPY_CONFIG_FILE_DIR/{source}" in mypy["mypy_path"]
    patterns = CONFIG["tool"]["ruff"]["src"]
    assert any((ROOT / source) in ROOT.glob(pattern) for pattern in patterns)
    patterns = CONFIG["tool"]["pytest"]["ini_options"]["testpaths"]
    assert any((ROOT / dist.folder / "tests") in ROOT.glob(pattern) for pattern in patterns)


@each_dist
def test_entry_points_load(dist: Dist) -> None:
    groups = project_of(dist).get("entry-points", {})
    for group in groups.keys() - {"dovetail.command_help"}:
        for name, value in groups[group].items():
            assert EntryPoint(name, value, group).load() is not None
    commands = groups.get("dovetail.commands", {})
    lines = groups.get("dovetail.command_help", {})
    assert commands.keys() == lines.keys()
    # entry_points.txt is an INI file: these are what its readers would take apart or drop.
    assert all(re.fullmatch(r"[A-Z][^=:#;\[\]\n]*\w", line) for line in lines.values()), lines


# Absolute paths that only one machine has. URLs and paths inside an archive have a word before.
MACHINE_PATH = re.compile(r"(?<![\w.~*$})>/-])/(?:work|tmp|opt|root|home|mnt|Users)/\w")
# On the public index `dovetail` is another project, and the parts' names are not registered: every
# part is installed by path.
INDEX_INSTALL = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|conda)\b[^\n`;|&#]*?\b(?:install|add)\b[^\n`;|&#]*?"
    r"[\s\"']dovetail[\w-]*(?![\w/\\-]|\.\w)"
)
# How packages are fetched is the affair of whoever installs.
INDEX_OPTION = re.compile(r"(?:--|PIP_|UV_)(?:extra[-_])?(?:index[-_]url|find[-_]links)", re.I)


TEXT = {"", ".csv", ".json", ".md", ".py", ".toml", ".txt", ".xml", ".yaml"}


@pytest.mark.parametrize(
    "rule",
    [MACHINE_PATH, INDEX_INSTALL, INDEX_OPTION],
    ids=["machine-path", "index-install", "index-option"],
)
def test_files_say_nothing_about_one_machine(rule: re.Pattern[str]) -> None:
    found = []
    for path in (p for p in own_files("*") if p.suffix in TEXT):
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()
        where = path.relative_to(ROOT).as_posix()
        found += [f"{where}:{i}: {line}" for i, line in enumerate(lines, 1) if rule.search(line)]
    assert not found


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (MACHINE_PATH, ["see ", "/home", "/ann/x"], "https://example.org/home/ann/x"),
        (MACHINE_PATH, ['open("', "/tmp", '/x")'], "plugins/tmp/x"),
        (INDEX_INSTALL, ["python -m pip inst", "all -U dovetail-core"], "pip install ./core"),
        (INDEX_INSTALL, ["pip inst", "all numpy dovetail"], "pip install dovetail/core"),
        (INDEX_INSTALL, ["uv pip inst", "all 'dovetail-nn[test]'"], "pip install ./my-dovetail"),
        (INDEX_INSTALL, ["uv ad", "d dovetail-nn"], "pip install wheels/dovetail_nn-0.1.0.whl"),
        (INDEX_OPTION, ["pip install --index", "-url=x"], "an index and its url"),
    ],
    ids=["home", "temporary", "core", "second", "extra", "uv", "index-option"],
)
def test_rules_tell_bad_from_good(rule: re.Pattern[str], bad: list[str], good: str) -> None:
    # In pieces, since this file is searched too.
    assert rule.search("".join(bad))
    assert not rule.search(good)
