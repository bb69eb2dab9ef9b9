"""The pytest plugin of the kit: options, parameters of the suite, and the report.

It is loaded by name (`-p dovetail.testing.plugin`) and not by an entry point, which would add its
options to every pytest run of every project with Dovetail installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.files import atomic_write
from dovetail.ops import OpPackage
from dovetail.plugins import list_plugins
from dovetail.plugins.ops import installed_ops
from dovetail.testing.bench import Bench
from dovetail.testing.case import OpCase
from dovetail.testing.checks import CHECKS, Check
from dovetail.testing.lookup import find_backend, find_cases, find_package
from dovetail.testing.outcome import Status
from dovetail.testing.packages import ASPECTS, Aspect, OpSubject, subjects
from dovetail.testing.report import OPS_AREA, Report, Row

SUITE = Path(__file__).with_name("suite")
T = TypeVar("T")
NAME = "dovetail-conformance"
_STATUS = {"passed": Status.PASSED, "skipped": Status.UNSUPPORTED, "failed": Status.FAILED}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the kit's options."""
    group = parser.getgroup("dovetail conformance")
    group.addoption("--backend", metavar="NAME", help="backend to check: its name, or module:Class")
    group.addoption("--backend-options", metavar="JSON", default="{}", help="the backend's options")
    group.addoption(
        "--op-package",
        metavar="NAME",
        action="append",
        default=[],
        help="op package to check: its name, or module:attribute; repeatable",
    )
    group.addoption(
        "--cases",
        metavar="MODULE:ATTRIBUTE",
        action="append",
        default=[],
        help="sequence of op cases; repeatable",
    )
    group.addoption(
        "--conformance-json", metavar="FILE", help="write the report to this file as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Create the kit of this run."""
    config.pluginmanager.register(Kit(config), NAME)


def kit_of(config: pytest.Config) -> Kit:
    """Return the kit of a pytest run.

    Raises:
        pytest.UsageError: The plugin is not loaded.
    """
    found = config.pluginmanager.get_plugin(NAME)
    if not isinstance(found, Kit):
        raise pytest.UsageError("the suite needs `-p dovetail.testing.plugin`")
    return found


class Kit:
    """The kit of a pytest run; the objects that its options name are found when first needed.

    Raises:
        pytest.UsageError: An option names something that is not found.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._rows: list[Row] = []
        self._is_idle = False  # whether the suite was collected without an option for it

    # -- options ----------------------------------------------------------------------------------

    @cached_property
    def cases(self) -> tuple[OpCase, ...]:
        """The cases that `--cases` names."""
        return _usable(lambda: find_cases(self._config.getoption("cases")))

    @cached_property
    def packages(self) -> tuple[OpPackage, ...]:
        """The packages that `--op-package` names."""
        names = self._config.getoption("op_package")
        return _usable(lambda: tuple(find_package(name) for name in names))

    @cached_property
    def bench(self) -> Bench:
        """The backend that `--backend` names."""
        text, options = (self._config.getoption(n) for n in ("backend", "backend_options"))

        def make() -> Bench:
            try:
                decoded = msgspec.json.decode(options, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise pytest.UsageError(f"--backend-options: {error}") from error
            made = Bench(find_backend(text), decoded, self.cases, self.packages)
            made.create().free()  # a missing backend is not a failed check
            return made

        return _usable(make)

    # -- pytest hooks -----------------------------------------------------------------------------

    def pytest_collection(self) -> None:
        """Look up the names in the options before the collection; a wrong name ends the run.

        The report of an earlier run is removed, so that a run that dies does not leave it.
        """
        if (path := self._config.getoption("conformance_json")) and not self._is_worker:
            Path(path).unlink(missing_ok=True)
        _ = self.cases, self.packages
        if self._config.getoption("backend"):
            _ = self.bench

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignore the parts of the suite without an option."""
        if collection_path.parent != SUITE or not collection_path.name.startswith("test_"):
            return None
        backend, package = (self._config.getoption(n) for n in ("backend", "op_package"))
        self._is_idle = not backend and not package
        wanted = {
            "test_backend": backend,
            "test_op_cases": backend and self.cases,
            "test_op_package": package,
        }
        return None if wanted[collection_path.stem] else True

    def pytest_collection_modifyitems(self) -> None:
        """End the run of a suite without options, which would pass without a test."""
        if self._is_idle:
            raise pytest.UsageError("the suite needs --backend NAME or --op-package NAME")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize the suite's tests with checks, cases and ops."""
        if "check" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_backend"):
            metafunc.parametrize("check", CHECKS, ids=lambda check: check.id)
        elif "op_case" in metafunc.fixturenames:
            metafunc.parametrize("op_case", self.cases, ids=lambda case: case.id)
        elif "op_aspect" in metafunc.fixturenames:
            pairs = [
                (subject, aspect)
                for package in self.packages
                for subject in subjects(package, self.cases)
                for aspect in ASPECTS
            ]
            ids = [f"{s.schema.name}-{aspect.__name__}" for s, aspect in pairs]
            metafunc.parametrize("op_aspect", pairs, ids=ids)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Record the subject of an item, which its reports transport, also from other processes."""
        found = getattr(item, "callspec", None)
        if found is not None:
            for value in found.params.values():
                if (about := _about(value)) is not None:
                    item.user_properties.append((NAME, about))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a result to the report."""
        about: Any = dict(report.user_properties).get(NAME)
        if about is not None and (report.when == "call" or report.outcome != "passed"):
            area, subject, name = about
            status = _STATUS[report.outcome]
            self._rows.append(Row(area, subject, name, status, _reason(report)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report."""
        if self._rows:
            terminalreporter.section(f"conformance of {self.report().title}")
            for line in self.report().lines():
                terminalreporter.write_line(line)

    def pytest_sessionfinish(self) -> None:
        """Write the report as JSON."""
        path = self._config.getoption("conformance_json")
        if path and self._rows and not self._is_worker:
            with atomic_write(path) as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.report().data())) + b"\n")

    @property
    def _is_worker(self) -> bool:
        """True if another process collects the results of this one."""
        return hasattr(self._config, "workerinput")

    def report(self) -> Report:
        """Return the report so far."""
        backend = self._config.getoption("backend")
        titles = [f"backend '{self.bench.name}'"] if backend else []
        titles += [f"op package '{p.name}'" for p in self.packages]
        known = {case.op_name for case in self.cases}
        packages = {p.name: p for p in self.packages}
        for name in {case.package for case in self.cases} - packages.keys():
            packages[name] = installed_ops().package(name)
        ops = [s.full_name for p in packages.values() for s in p.schemas.values()]
        missing = tuple(sorted(op for op in ops if op not in known))
        return Report(" and ".join(titles), self._rows, missing, self._versions())

    def _versions(self) -> dict[str, str]:
        """Return the versions of the dists under test, if installed, and of core."""
        judged = {("dovetail.backends", self._config.getoption("backend"))}
        judged |= {("dovetail.op_packages", package.name) for package in self.packages}
        found = {p.dist: p.version for p in list_plugins() if (p.group, p.name) in judged}
        return {"dovetail-core": __version__, **found}


def _usable(make: Callable[[], T]) -> T:
    try:
        return make()
    except DovetailError as error:
        raise pytest.UsageError(str(error)) from error


def _about(value: object) -> tuple[str, str, str] | None:
    """Return area, op and name of a test of the suite; None for other tests."""
    if isinstance(value, Check):
        return value.area, "", value.name
    if isinstance(value, OpCase):
        return OPS_AREA, value.op_name, value.id
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], OpSubject):
        aspect: Aspect = value[1]
        return f"op {aspect.__name__}", value[0].schema.full_name, aspect.__name__
    return None


def _reason(report: pytest.TestReport) -> str:
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):  # of a skipped test: file, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)
