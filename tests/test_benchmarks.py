"""The benchmarks: outputs are compared, ratios and targets are right."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest
from benchmarks import conversion, gauges, machine, rounds, summary, switching, tables
from benchmarks.__main__ import PARTS, _engines_of
from benchmarks.busy import busy_processes
from benchmarks.chains import units
from benchmarks.engines import ENGINES
from benchmarks.preparation import build
from benchmarks.process import ProcessFailedError, ask
from benchmarks.quantization import subjects
from benchmarks.quantization import summary as quantization_summary
from benchmarks.quantization.rounds import Accuracy, Cost, sqnr_db
from benchmarks.targets import Target
from trained import TRAINED

import dovetail as dt

ROOT = Path(__file__).parents[1]


def run(*arguments: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    # the driver alone is forked: it starts the processes that are measured as it always does
    return forked.run(["python", "-m", module, *arguments], ROOT)


def sample(
    median_ms: float, *, added_mb: float = 10, difference: float = 0, precision: str = "float32"
) -> rounds.Sample:
    return rounds.Sample(
        median_ms=median_ms,
        lower_quartile_ms=median_ms,
        upper_quartile_ms=median_ms,
        import_ms=1,
        build_ms=1,
        peak_mb=30 + added_mb,
        baseline_mb=30,
        version="1",
        precision=precision,
        checksum="",
        difference=difference,
    )


def samples(ours: Sequence[float], theirs: Sequence[float]) -> rounds.Samples:
    engines = {"dovetail": [sample(t) for t in ours], "onnxruntime": [sample(t) for t in theirs]}
    return {"net": engines}


def test_one_network_end_to_end(tmp_path: Path) -> None:
    done = run(
        *("--networks", "lstm", "--engines", "dovetail,onnxruntime", "--quick", "--json"),
        *("--cache", str(tmp_path), "--busy", "0,1"),
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert list(data["busy"]) == ["0", "1"]
    for load in data["busy"].values():
        found = load["networks"]["lstm"]
        assert list(found) == ["dovetail", "onnxruntime"]
        for engine, (taken,) in found.items():
            assert taken["precision"] == "float32", engine
            assert 0 < taken["median_ms"] < taken["build_ms"] + 1e3, engine
            assert taken["peak_mb"] > taken["baseline_mb"] > 0, engine
            assert taken["difference"] <= rounds.TOLERANCE, engine
    (adds,) = data["framework"]["200 one-element adds, a run"]
    assert adds["nodes"] == 200
    assert {"measured", "limit", "met"} <= set(data["targets"][0])
    kinds = sorted(path.name.split(".", 1)[1] for path in tmp_path.glob("lstm-*"))
    assert kinds == ["dvt", "inputs.npz", "onnx", "reference.npz"]


def test_a_quantized_network_end_to_end(tmp_path: Path) -> None:
    done = run(
        *("--networks", "lstm", "--engines", "dovetail-int8,onnxruntime-int8", "--quick", "--json"),
        *("--cache", str(tmp_path), "--parts", "int8"),
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["busy"] == {}
    found = data["int8"]["networks"]["lstm"]
    assert list(found) == ["dovetail-int8", "onnxruntime-int8"]
    for engine, (taken,) in found.items():
        assert taken["precision"] == "int8", engine
        # 8 bits are a relative step of 1/255; the sums of 20 steps of the LSTM add some of them
        assert rounds.TOLERANCE < taken["difference"] < 0.1, engine
    assert data["targets"][0]["label"] == "speed over onnxruntime-int8, geometric mean"
    kinds = sorted(path.name.split(".", 1)[1] for path in tmp_path.glob("quantized-*"))
    assert kinds == ["int8.dvt", "qdq.onnx"]


def test_each_engine_is_in_one_part() -> None:
    options = argparse.Namespace(parts=PARTS, engines=list(ENGINES))
    found = {part: _engines_of(part, options) for part in PARTS}
    assert sorted(engine for engines in found.values() for engine in engines) == sorted(ENGINES)
    assert found["dynamic"] == ["dovetail-dynamic", "onnxruntime-dynamic"]
    assert "htp-int16" in found["int8"]
    times = {"dovetail-dynamic": [sample(8)], "onnxruntime-dynamic": [sample(20)]}
    compared = summary.standings({"encoder": times})
    assert {peer: each["encoder"].ratio for peer, each in compared.items()} == {
        "onnxruntime-dynamic": 2.5
    }


def test_a_trained_network_quantized_by_both() -> None:
    done = run(
        *("--networks", "recurrent", "--parts", "accuracy", "--json"),
        module="benchmarks.quantization",
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    found = data["accuracy"]["recurrent"]
    assert list(found) == ["dovetail", "onnxruntime"]
    for quantizer, taken in found.items():
        # 8 bits are some 50 dB at best; what 5 of 360 images lose is told elsewhere
        assert 25 < taken["sqnr_db"] < 60, quantizer
        assert abs(taken["right"] - TRAINED["recurrent"].right) <= 5, quantizer
        assert taken["images"] == 360, quantizer
    assert data["targets"] == []  # the trained ones have none


def test_the_quantized_networks_are_those_there_are() -> None:
    assert {name: trained.path for name, trained in TRAINED.items()} == subjects.TRAINED
    assert {"resnet50", "unet", "mobilenet_v3"} < set(subjects.DRAWN)


def test_targets_of_quantizers_leave_the_trained_networks_out() -> None:
    def both(ours: float, theirs: float) -> dict[str, Accuracy]:
        found = {"dovetail": ours, "onnxruntime": theirs}
        return {name: Accuracy(db, None, 1, 0) for name, db in found.items()}

    costs = {
        "dovetail": [Cost(2, 100, "1"), Cost(9, 3000, "1")],
        "onnxruntime": [Cost(4, 500, "1"), Cost(9, 500, "1")],
    }
    accuracies = {"a": both(30, 29), "b": both(30.5, 31.5), "digits": both(1, 90)}
    middle, worst, time, memory = quantization_summary.targets(accuracies, {"resnet50": costs})
    assert (middle.measured, middle.is_met) == (0, True)
    assert (worst.measured, worst.is_met) == (-1, False)
    assert "(b)" in worst.label
    assert (time.measured, time.is_met) == (0.75, True)  # of rounds with a ratio of 1/2 and 1
    assert (memory.measured, memory.is_met) == (3000, False)


def test_noise_is_told_from_the_signal() -> None:
    exact = np.array([3.0, 4.0], np.float32)
    assert sqnr_db([(exact, exact)]) == math.inf
    assert sqnr_db([(exact, exact + np.float32(0.5))]) == pytest.approx(10 * math.log10(25 / 0.5))
    assert sqnr_db([(exact, exact[:1])]) == -math.inf


def test_the_driver_imports_no_engine() -> None:
    program = (
        "import sys, benchmarks.__main__, benchmarks.quantization.__main__; "
        "import benchmarks.vendor.__main__; "
        "print(sorted({'dovetail', 'onnx', 'onnxruntime', 'openvino'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--networks", "resnet5"), "did you mean resnet50?"),
        (
            ("--engines", "tvm"),
            "expected some of dovetail, dovetail-bf16, dovetail-numpy, dovetail-gpu",
        ),
        (("--rounds", "0"), "'0' is not a whole number of at least 1"),
        (("--busy", "0,-1"), "'0,-1' is not a list of whole numbers"),
        (("--json", "--markdown"), "not allowed with argument"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_ratios_pair_the_rounds() -> None:
    # The second round was disturbed: both took three times as long, and the ratio stays.
    found = summary.standings(samples([1, 3, 1], [2, 6, 4]))["onnxruntime"]["net"]
    assert found.ratio == pytest.approx(2)
    assert found.upper_ratio == pytest.approx(3)  # of 2, 2 and 4
    assert found.memory_ratio == pytest.approx(1)


def test_the_mean_of_twice_and_half_as_fast_is_one() -> None:
    twice, half = (samples([1], [2]), samples([2], [1]))
    found = summary.standings({"a": twice["net"], "b": half["net"]})["onnxruntime"]
    assert summary.mean_ratio(found) == pytest.approx(1)
    mean, worst, memory = summary.targets({"onnxruntime": found})
    assert "(b)" in worst.label
    assert worst.measured == pytest.approx(0.5)
    assert (mean.is_met, worst.is_met, memory.is_met) == (False, False, True)


def test_who_rounds_is_compared_with_who_rounds() -> None:
    taken = {"dovetail": [sample(10)], "openvino": [sample(20)], "openvino-bf16": [sample(6)]}
    found = summary.standings({"net": taken})
    assert {peer: each["net"].ratio for peer, each in found.items()} == {
        "openvino": 2,
        "openvino-bf16": 0.6,
    }
    found = summary.standings({"net": {**taken, "dovetail-bf16": [sample(5)]}})
    assert {peer: each["net"].ratio for peer, each in found.items()} == {
        "dovetail-bf16": 0.5,
        "openvino": 2,
        "openvino-bf16": 1.2,
    }


def test_integer_engines_are_compared_with_the_first_of_ours(monkeypatch) -> None:
    monkeypatch.setattr(summary, "has_exact_products", lambda: False)
    taken = {
        "dovetail-int8": [sample(8)],
        "htp-int8": [sample(10)],
        "htp-int16": [sample(30)],
        "onnxruntime-int8": [sample(20)],
    }
    found = summary.standings({"net": taken})
    assert {peer: each["net"].ratio for peer, each in found.items()} == {
        "dovetail-int8": 0.8,
        "htp-int16": 3,
        "onnxruntime-int8": 2,
    }
    slow = taken | {"htp-int16": [sample(50)], "onnxruntime-int8": [sample(8)]}
    met = {t.label: t.is_met for t in summary.int8_targets({"net": slow, "encoder": taken})}
    assert met == {
        "speed over onnxruntime-int8, geometric mean": True,  # of 0.8 and 2
        "speed over onnxruntime-int8, worst (net)": False,
        "speed over onnxruntime-int8, encoder": True,
        "16-bit activations, times the time of 8 bits, worst (net)": False,
    }
    monkeypatch.setattr(summary, "has_exact_products", lambda: True)
    assert [t.limit for t in summary.int8_targets({"net": taken})] == [1.3, 4.0]


@pytest.mark.parametrize("listed", ["avx2 avx512f avx512_vnni amx_int8", "avx2 avx_vnni"])
def test_a_masked_processor_has_no_exact_products(monkeypatch, listed: str) -> None:
    monkeypatch.setattr(machine, "_cpuinfo", lambda field: {"flags": listed}[field])
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert machine.has_exact_products()
    monkeypatch.setenv("LD_PRELOAD", f"/made/{machine.MASK}")
    assert not machine.has_exact_products()
    assert machine._instruction_sets() == "avx2"
    assert f'"{machine.MASK}"' in (ROOT / "tools" / "avx2" / "__main__.py").read_text("utf-8")


def test_a_failed_peer_is_named_and_left_out(tmp_path, monkeypatch) -> None:
    def once(files: object, engine: str, *_: object) -> rounds.Sample:
        if (files, engine) == ("deep", "openvino-int8"):
            raise ProcessFailedError("measure: exit status -11\nstack", "exit status -11")
        return sample({"htp-int8": 10.0}.get(engine, 20.0))

    monkeypatch.setattr(rounds, "_once", once)
    monkeypatch.setattr(summary, "has_exact_products", lambda: True)
    failures: rounds.Failures = {}
    told: list[str] = []
    names = ("htp-int8", "onnxruntime-int8", "openvino-int8")
    (found,) = rounds.measure(
        {"deep": "deep", "flat": "flat"},
        names,
        loads=[0],
        rounds=2,
        threads=1,
        effort=gauges.QUICK,
        scratch=tmp_path,
        tell=told.append,
        failures=failures,
    ).values()
    assert failures == {"openvino-int8": {"deep": "exit status -11"}}
    assert sum("failed: exit status -11" in line for line in told) == 1  # it ran once
    assert [len(taken) for taken in found["deep"].values()] == [2, 2, 0]
    rows = [line.split("|") for line in tables.latencies(found, render=tables.markdown).split("\n")]
    assert [cell.strip() for cell in rows[2]][4:-1] == ["failed", "2.00 (2.00)", ""]
    assert "failed" in tables.differences(found)
    assert "openvino-int8 on deep" in tables.failures(failures)
    assert {t.label: t.measured for t in summary.int8_targets(found)} == {
        "speed over onnxruntime-int8, geometric mean": pytest.approx(2),
        "speed over openvino-int8 without deep, geometric mean": pytest.approx(2),
    }


def test_our_own_failure_ends_the_measurement(tmp_path, monkeypatch) -> None:
    def once(*_: object) -> rounds.Sample:
        raise ProcessFailedError("measure: exit status 1", "exit status 1")

    monkeypatch.setattr(rounds, "_once", once)
    with pytest.raises(ProcessFailedError):
        rounds.measure(
            {"net": "net"},
            ["htp-int8"],
            loads=[0],
            rounds=1,
            threads=1,
            effort=gauges.QUICK,
            scratch=tmp_path,
            tell=lambda line: None,
            failures={},
        )


def test_targets_beside_busy_processes_are_others() -> None:
    loads = {0: samples([1], [1]), 1: samples([1], [1]), 2: samples([1], [1.25])}
    mean, worst = summary.all_targets(loads)[3:]
    assert (mean.label, mean.is_met) == (
        "speed over onnxruntime with 2 busy, geometric mean",
        True,
    )
    assert (worst.label, worst.is_met) == (
        "speed over onnxruntime with 2 busy, worst (net)",
        True,
    )
    assert not any(t.is_met for t in summary.all_targets({2: samples([1], [0.9])}))


def test_tables_in_markdown() -> None:
    found = tables.latencies(samples([2], [3]), busy=2, render=tables.markdown)
    assert found.splitlines() == [
        "| ms with 2 busy | dovetail | onnxruntime | over onnxruntime |",
        "| --- | --- | --- | --- |",
        "| net | 2.000 | 3.000 | 1.50 (1.50) |",
        "| geometric mean |  |  | 1.50 |",
    ]


def test_busy_processes_compute_and_end() -> None:
    with pytest.raises(KeyboardInterrupt), busy_processes(2) as processes:  # noqa: PT012
        assert [p.poll() for p in processes] == [None, None]
        raise KeyboardInterrupt
    assert None not in [p.returncode for p in processes]


@pytest.mark.skipif(sys.platform == "win32", reason="kills by a signal")
def test_busy_processes_end_with_a_driver_that_is_killed() -> None:
    program = (
        "import os, signal\n"
        "from benchmarks.busy import busy_processes\n"
        "with busy_processes(1) as (process,):\n"
        "    print(process.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while _runs(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(int(done.stdout))


def _runs(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    if Path("/proc/self/stat").exists():
        # one that ended may wait for its parent
        return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_targets_reach_to_their_limit() -> None:
    assert Target("", 2, 2, at_least=True).is_met
    assert Target("", 2, 2).is_met
    assert not Target("", 1.9, 2, at_least=True).is_met
    assert not Target("", 2.1, 2).is_met


def test_wrong_answers_are_named_but_not_those_of_lower_precision() -> None:
    taken = {
        "dovetail": [sample(1), sample(1, difference=2e-4)],
        "onnxruntime": [sample(1)],
        "openvino-bf16": [sample(1, difference=4e-3, precision="bfloat16")],
    }
    assert summary.faults({"net": taken}) == ["dovetail on net: off by 2.0e-04"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"y": [1.0, -4.0]}, 0.0),
        ({"y": [1.0, -3.0]}, 0.25),
        ({"y": [1.0, math.nan]}, math.inf),
        ({"y": [1.0]}, math.inf),
        ({"z": [1.0, -4.0]}, math.inf),
    ],
    ids=["same", "apart", "nan", "shape", "name"],
)
def test_difference(tmp_path: Path, found: dict[str, list[float]], expected: float) -> None:
    np.savez(tmp_path / "found.npz", **{k: np.array(v) for k, v in found.items()})
    np.savez(tmp_path / "wanted.npz", y=np.array([1.0, -4.0]))
    assert rounds.difference(tmp_path / "found.npz", tmp_path / "wanted.npz") == expected


def test_effort_needs_both_bounds_or_the_cap() -> None:
    effort = gauges.Effort(seconds=0.5, runs=10, cap_s=3)
    assert not effort.reached(9, 0.6)
    assert not effort.reached(1000, 0.4)
    assert effort.reached(10, 0.5)
    assert effort.reached(1, 3)


PEAK = """
import numpy as np
from benchmarks import gauges

before = gauges.peak_memory_mb()
np.ones(int((before + 64) * 2**20 / 8))  # larger than this process ever was, by 64 MB
assert gauges.peak_memory_mb() >= before + 64
"""


def test_peak_memory_sees_what_was_freed() -> None:
    # in a process of its own, which never was large
    done = forked.run(["python", "-c", PEAK], ROOT)
    assert done.returncode == 0, done.stderr


def test_the_choice_of_auto_next_to_its_candidates() -> None:
    done = run(
        *("--networks", "perceptron-16,digits", "--quick", "--json", "--candidates", "cpu,plain"),
        module="benchmarks.auto",
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["network"] for row in rows] == ["perceptron-16", "digits"]
    for row in rows:
        assert row["ms"].keys() == {"auto", "cpu", "plain"}
        alone = {name: row["ms"][name] for name in ("cpu", "plain")}
        assert row["best"] == min(alone, key=lambda name: alone[name])
        assert row["regret"] == alone[row["chosen"]] / alone[row["best"]] - 1 >= 0


def test_two_graphs_of_a_context_in_turns(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.onnx" for name in ("adds", "digits")]
    for path in paths:
        build(name=path.stem, output=str(path))
    found = switching.measure([dt.convert(path) for path in paths], "cpu", rounds=3)
    assert [len(times.alternating) for times in found] == [3, 3]
    times = switching.Times([10.0, 20.0, 40.0], [11.0, 26.0, 42.0])
    assert times.medians == (20, 26, 2)  # what is added is the median of 1, 6 and 2


def test_conversion_is_measured_next_to_onnxruntime(tmp_path: Path) -> None:
    onnx.save(units(count=9), tmp_path / "chain.onnx")
    arguments = {"model": str(tmp_path / "chain.onnx"), "rounds": 2}
    found = ask("measure_conversion:measure", arguments, threads=1)
    assert {name: len(times) for name, times in found.items()} == {"dovetail": 2, "onnxruntime": 2}
    assert all(wall > 0 for times in found.values() for wall, _ in times)
    times = {"dovetail": [(8, 6), (9, 5), (100, 4)], "onnxruntime": [(4, 2), (3, 5), (2, 0)]}
    _, row = conversion.table({"net": times}, {"net": 1000}).splitlines()
    assert row.split() == ["net", "1,000", "9", "3", "3.00", "5", "2", "3.00", "5"]


def test_the_measured_chain_computes(tmp_path: Path) -> None:
    onnx.save(units(count=4), tmp_path / "chain.onnx")
    x = np.array([[-2, -1, 0, 0.5, 1, 2, 3, 4]], np.float32)
    (found,) = dt.Session(tmp_path / "chain.onnx").run({"x": x}).values()
    wanted = (1 / (1 + np.exp(-np.maximum(x, 0))) + 1 + 2 / 8) * (1 + 3 / 8)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)  # a few roundings of float32
