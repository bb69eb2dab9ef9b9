"""The conformance kit on every backend there is, as its users call it: one pytest command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forked
import picky_cpu
import pytest
import wheels
from null_backend import NullBackend
from opencl_driver import require_opencl

from dovetail import __version__
from dovetail.testing import CHECKS, Bench, Status, run_case
from dovetail.testing.outcome import COMPUTES_NOTHING
from dovetail_opset.testing import CASES

TESTS = Path(__file__).parent
HELPERS = TESTS.parent / "core" / "tests" / "helpers"
SUITE = ["-q", "-p", "dovetail.testing.plugin", "-p", "no:cacheprovider", "--pyargs"]
OPSET = ("--cases", "dovetail_opset.testing:CASES")
Report = dict[str, Any]


def conformance(folder: Path, *options: str, path: tuple[Path, ...] = ()) -> Report:
    """Run the kit, which must pass, and give its report."""
    report = folder / "report.json"
    command = ["pytest", "-W", "error", *SUITE, "dovetail.testing.suite", *options]
    done = forked.run([*command, "--conformance-json", str(report)], folder, path=path)
    assert done.returncode == 0, done.stdout + done.stderr
    data: Report = json.loads(report.read_text("utf-8"))
    assert data["total"]["failed"] == 0
    return data


def unsupported(report: Report, area: str) -> dict[str, str]:
    return {
        row["name"]: row["reason"]
        for row in report["results"]
        if row["area"] == area and row["status"] == "unsupported"
    }


def test_cpu_runs_every_op(tmp_path: Path) -> None:
    report = conformance(tmp_path, "--backend", "cpu", *OPSET)
    assert report["without_case"] == ["qti.aisw::If"]  # it names graphs, which no node can run
    assert report["versions"] == {"dovetail-core": __version__, "dovetail-cpu": __version__}
    assert unsupported(report, "op cases") == {}
    assert set(unsupported(report, "capabilities")) == {"opaque_ops"}
    assert unsupported(report, "images") == {}
    assert unsupported(report, "updates") == {}
    assert min(counts["passed"] for counts in report["ops"].values()) >= 1


def test_cpu_runs_quantized_ops_as_they_are_meant(tmp_path: Path) -> None:
    cases = ("--cases", "dovetail_opset.testing.quantized:CASES")
    report = conformance(tmp_path, "--backend", "cpu", *cases, "-k", "op_case")
    assert len(report["ops"]) > 80


def test_the_null_backend_lives_and_refuses_as_any(tmp_path: Path) -> None:
    backend = ("--backend", "null_backend:NullBackend", "-k", "not failures")
    report = conformance(tmp_path, *backend, path=(HELPERS,))
    assert set(report["areas"]) == {check.area for check in CHECKS} - {"failures"}
    lacking = {row["name"] for row in report["results"] if row["status"] == "unsupported"}
    assert lacking == {
        "opaque_ops",
        "overlapped_runs_end_before_their_context",
        "graphs_are_restored_without_their_model",
    }


def test_saver_accepts_everything_and_computes_nothing(tmp_path: Path) -> None:
    options = ("--backend-options", json.dumps({"output": str(tmp_path / "traces")}))
    report = conformance(tmp_path, "--backend", "saver", *options, *OPSET)
    # what is not judged, and nothing else
    assert set(report["areas"]) == {*(check.area for check in CHECKS), "op cases"}
    for area, counts in report["areas"].items():
        is_judged = area not in ("failures", "op cases")
        assert counts["unsupported"] == 0 if is_judged else counts["passed"] == 0
    reasons = {row["reason"] for row in report["results"] if row["status"] == "unsupported"}
    assert reasons == {COMPUTES_NOTHING}
    assert report["areas"]["op cases"]["unsupported"] > 700


def test_htp_runs_what_its_tables_allow_and_says_why_it_does_not_run_the_rest(
    tmp_path: Path,
) -> None:
    report = conformance(tmp_path, "--backend", "htp", *OPSET)
    rules = {reason.split(":")[0] for reason in unsupported(report, "op cases").values()}
    assert rules <= {"op", "dtype", "encoding"}
    assert report["areas"]["op cases"]["passed"] > 500
    assert set(unsupported(report, "capabilities")) == {"opaque_ops"}
    assert unsupported(report, "images") == {}


def test_gpu_meets_the_requirements_on_every_backend(tmp_path: Path) -> None:
    require_opencl()
    report = conformance(tmp_path, "--backend", "gpu", *OPSET, "-k", "not op_case")
    # the kit's own ops have no kernels for it
    assert set(unsupported(report, "capabilities")) == {"op_packages", "opaque_ops"}
    for area in ("life cycle", "contexts", "images", "updates", "spaces", "errors"):
        assert unsupported(report, area) == {}


def test_gpu_runs_cases_of_a_few_ops(tmp_path: Path) -> None:
    require_opencl()
    some = "op_case and (Relu or Conv2d) and not (Relu1 or Transpose)"
    report = conformance(tmp_path, "--backend", "gpu", *OPSET, "-k", some)
    assert report["areas"]["op cases"]["passed"] > 10
    rules = {reason.split(":")[0] for reason in unsupported(report, "op cases").values()}
    assert rules <= {"op", "dtype", "kernel"}


def test_every_op_has_a_case_that_zeros_do_not_pass() -> None:
    bench = Bench(NullBackend)
    caught = {c.op_name for c in CASES if run_case(bench, c).status is Status.FAILED}
    assert {c.op_name for c in CASES} - caught == set()


@pytest.mark.parametrize(
    ("backend", "own"),
    [
        ("hetero:picky,cpu", {}),
        ("auto:picky,cpu", {"trial_seconds": 0.001, "cache": False, "min_fraction": 0}),
    ],
)
def test_a_placement_on_two_backends_runs_every_op(
    tmp_path: Path, backend: str, own: dict[str, object]
) -> None:
    options = {"members": {"picky": {"refuse": ["Halve", "Relu", "Conv2d", "Softmax"]}}, **own}
    report = conformance(
        tmp_path,
        *("--backend", backend, "--backend-options", json.dumps(options), *OPSET),
        path=(picky_cpu.write_dist(tmp_path), TESTS / "helpers"),
    )
    assert unsupported(report, "op cases") == {}
    cpu = conformance(tmp_path, "--backend", "cpu", "-k", "capabilities")
    mine, alone = (unsupported(r, "capabilities") for r in (report, cpu))
    assert mine.keys() == alone.keys()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy dist installed in it."""
    folder = tmp_path_factory.mktemp("site")
    wheels.install(TESTS / "toy_plugin", folder)
    return folder


def test_a_third_partys_backend_and_ops(site: Path, tmp_path: Path) -> None:
    toy = ("--backend", "toy", "--op-package", "toy.ops", "--cases", "toy_plugin.cases:CASES")
    report = conformance(tmp_path, *toy, *OPSET, path=(site,))
    assert report["ops"]["toy.ops::Mirror"]["passed"] == 2 + 4  # cases, and aspects of the op
    assert len(unsupported(report, "capabilities")) == 5
    refused = unsupported(report, "op cases")
    assert refused
    assert all(reason.startswith("rank: in[") for reason in refused.values())
