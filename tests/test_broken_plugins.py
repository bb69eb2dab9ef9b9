"""Plugins of the wrong shape: left out with one warning, an error where they are named."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import forked
import pytest
from one_node_model import write_model

SOURCE = """
from dovetail.ops.frontend import FrontendOptions
from dovetail.runtime.plan import KernelRegistry

def function(graph): ...

class Empty: ...

class Suffixless:
    name, suffixes, options_type = "a", None, FrontendOptions

    def recognises(self, path): ...
    def read(self, path, options, ops): ...
    def dry_run(self, path, options, ops): ...

unknown_op = KernelRegistry("cpu")
unknown_op.register("qti.aisw", "NoSuchOp")(print)

class Raises:
    name, phase, after = "raises", "late", None

    def run(self, graph):
        raise ValueError("no reason")

raises = Raises()

class Position:
    name = "odd"

    def __init__(self, phase, after):
        self.phase, self.after = phase, after

    def run(self, graph):
        return False

unknown_phase = Position("soon", None)
unknown_after = Position("late", "nonsense")
too_early = Position("early", "channels-last")
after_number = Position("late", 5)
"""


def install(folder: Path, group: str, name: str, attribute: str) -> Path:
    """Install one plugin of the dist `odd-dist` in a folder, and return the folder."""
    site = folder / "site"
    info = site / "odd_dist-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "odd_plugin.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = odd_plugin:{attribute}\n")
    return site


def run(site: Path, command: str) -> subprocess.CompletedProcess[str]:
    return forked.run(command, site.parent, path=[site])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x (1, 4) -> Relu -> y, with an input list."""
    write_model(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("group", "name", "attribute", "reason"),
    [
        ("dovetail.passes", "odd", "function", "missing 'name', 'run(graph)'"),
        ("dovetail.passes", "odd", "unknown_phase", "unknown phase 'soon'; expected one of early"),
        ("dovetail.passes", "odd", "after_number", "must be the name of a pass or None, got 5"),
        ("dovetail.frontends", "a", "Empty", "missing 'name', 'suffixes'"),
        ("dovetail.frontends", "a", "Suffixless", "must be several strings, got None"),
        ("dovetail.kernels", "cpu:qti.aisw", "function", "expected a KernelRegistry"),
        ("dovetail.kernels", "cpu:qti.aisw", "unknown_op", "lacks: NoSuchOp"),
        ("dovetail.kernels", "cpu:qti.aisw", "missing", "has no attribute 'missing'"),
        ("dovetail.op_packages", "odd", "Empty", "expected an OpPackage, got the class Empty"),
        ("dovetail.hooks", "odd", "Empty", "no hook is implemented"),
    ],
)
def test_broken_plugin_is_left_out_of_every_command(
    model: Path, group: str, name: str, attribute: str, reason: str
) -> None:
    site = install(model, group, name, attribute)
    (model / "net.onnx").rename(model / "net.model")  # so that every frontend is tried
    commands = [
        "dovetail convert -i net.model",
        "dovetail net-run --model net.dvt --input-list list.txt",
        "dovetail quantize -i net.dvt --input-list list.txt",
    ]
    warnings = []
    for command in commands:
        done = run(site, command)
        assert done.returncode == 0, done.stderr
        found = [line for line in done.stderr.splitlines() if "odd-dist" in line]
        assert all(reason in line for line in found)
        assert len(found) <= 1
        warnings += found
    assert warnings or group == "dovetail.op_packages", "no command loads op packages unasked"
    for command in ("dovetail --json plugins --load", "dovetail --json doctor"):
        rows = json.loads(run(site, command).stdout)["plugins"]
        (row,) = [row for row in rows if row["dist"] == "odd-dist"]
        assert row["status"] == "broken"
        assert reason in row["reason"]


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("unknown_after", "pass 'nonsense' to run after not found"),
        ("too_early", "is to run after 'channels-last', which runs later than early"),
    ],
)
def test_pass_at_an_impossible_position_is_left_out(
    model: Path, attribute: str, reason: str
) -> None:
    site = install(model, "dovetail.passes", "odd", attribute)
    for command in ("dovetail convert -i net.onnx", "dovetail convert -i net.onnx --dry-run"):
        done = run(site, command)
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if "odd-dist" in line]
        assert "dovetail.passes 'odd' (dist odd-dist 1.0) is ignored: " in line
        assert reason in line
        assert " odd " not in done.stdout


@pytest.mark.parametrize(
    ("group", "command"),
    [
        ("dovetail.backends", "net-run --model net.onnx --input-list list.txt --backend odd"),
        (
            "dovetail.quantization_algorithms",
            "quantize -i net.onnx --input-list list.txt --algorithms odd",
        ),
        (
            "dovetail.range_estimators",
            "quantize -i net.onnx --input-list list.txt --act-quantizer-calibration odd",
        ),
        ("dovetail.exporters", "export net.onnx -o out.odd --format odd"),
    ],
)
def test_broken_plugin_that_the_user_names_is_an_error(
    model: Path, group: str, command: str
) -> None:
    done = run(install(model, group, "odd", "Empty"), f"dovetail {command}")
    assert done.returncode == 6, done.stderr
    assert f"error[PLUGIN_BROKEN]: {group} 'odd' (dist odd-dist 1.0): " in done.stderr


def test_pass_that_raises_is_named(model: Path) -> None:
    site = install(model, "dovetail.passes", "raises", "raises")
    done = run(site, "dovetail convert -i net.onnx")
    assert done.returncode == 6, done.stderr
    assert done.stderr.startswith(
        "error[PLUGIN_FAILED]: dovetail.passes 'raises' (dist odd-dist 1.0): "
        "the plugin's code failed: ValueError: no reason\n"
    )
    assert not (model / "net.dvt").exists()
