"""A third party's dist, found by entry points only: discovered, used, broken, quarantined."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import forked
import numpy as np
import onnx
import pytest
import wheels
from onnx import TensorProto, helper

TOY = Path(__file__).parent / "toy_plugin"

USE = """
import sys
import numpy as np
import dovetail as dt
from dovetail.container import Producer
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops

x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
graph = Graph("toy")
a = graph.add_tensor(Tensor("a", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
b = graph.add_tensor(Tensor("b", DType.FLOAT_32, (2, 3)))
c = graph.add_tensor(Tensor("c", DType.FLOAT_32, (2, 3), TensorKind.APP_READ))
graph.add_node(Node("mirror", "toy.ops", "Mirror", [a], [b]))
graph.add_node(Node("relu", "qti.aisw", "Relu", [b], [c]))
model = dt.Model.of(graph, producer=Producer("test", "1"), registry=installed_ops())
for backend in sys.argv[1:]:
    with dt.Session(model, backend=backend) as session:
        print(backend, session.run({"a": x})["c"].ravel().tolist())
"""

CREATE = "import dovetail as dt; dt.runtime.Backend.create('toy')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy dist installed in it."""
    folder = tmp_path_factory.mktemp("site")
    wheels.install(TOY, folder)
    return folder


def run(site: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return forked.run(command, site, path=[site])


def listed(site: Path, *options: str) -> dict[tuple[str, str], dict[str, Any]]:
    done = run(site, "dovetail", "--json", "plugins", *options)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    rows = data["plugins"] if isinstance(data, dict) else data
    return {(row["group"], row["name"]): row for row in rows}


def test_it_is_discovered(site: Path) -> None:
    rows = listed(site)
    for group, name in (("dovetail.op_packages", "toy.ops"), ("dovetail.backends", "toy")):
        row = rows[group, name]
        assert (row["dist"], row["version"], row["status"]) == ("toy-plugin", "1.2.3", "unloaded")


def test_without_it_there_is_none(tmp_path: Path) -> None:
    assert not any(row["dist"] == "toy-plugin" for row in listed(tmp_path).values())


def test_its_ops_run_on_its_backend_and_on_ours(site: Path) -> None:
    done = run(site, "python", "-W", "error", "-c", USE, "toy", "cpu")
    assert done.returncode == 0, done.stderr
    toy, cpu = (line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert (toy[0], cpu[0]) == ("toy", "cpu")
    assert toy[1] == cpu[1]
    assert any(json.loads(toy[1])), "all zeros would show nothing"


def test_an_onnx_model_with_its_op_converts_and_runs(site: Path, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    node = helper.make_node("Mirror", ["x"], ["y"], "mirror", domain="toy.ops", axis=0)
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("toy.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    done = run(site, "dovetail", "convert", "-i", str(tmp_path / "net.onnx"))
    assert done.returncode == 0, done.stderr
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    x.tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text(f"{tmp_path / 'x.raw'}\n")
    files = ["--model", str(tmp_path / "net.dvt"), "--input-list", str(tmp_path / "list.txt")]
    done = run(site, "dovetail", "net-run", *files, "--output-dir", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    y = np.fromfile(tmp_path / "out" / "Result_0" / "y.raw", np.float32).reshape(2, 3)
    np.testing.assert_array_equal(y, x[::-1])
    without = run(tmp_path, "dovetail", "convert", "-i", str(tmp_path / "net.onnx"))
    assert without.returncode == 4
    assert "toy.ops" in without.stderr


def test_broken_it_is_listed_with_the_reason_and_harms_nothing(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    (broken / "toy_plugin" / "backend.py").write_text("import a_library_that_is_not_there\n")
    row = listed(broken, "--load")["dovetail.backends", "toy"]
    assert row["status"] == "broken"
    assert "a_library_that_is_not_there" in row["reason"]
    still = run(broken, "python", "-c", USE, "cpu")
    assert still.returncode == 0, still.stderr
    refused = run(broken, "python", "-c", CREATE)
    assert "a_library_that_is_not_there" in refused.stderr
    doctor = run(broken, "dovetail", "doctor")
    assert doctor.returncode == 6
    assert "a_library_that_is_not_there" in doctor.stdout + doctor.stderr


def test_two_dists_that_claim_one_name_are_both_named(site: Path, tmp_path: Path) -> None:
    rival = tmp_path / "rival-1.0.dist-info"
    rival.mkdir()
    (rival / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1.0\n")
    (rival / "entry_points.txt").write_text("[dovetail.backends]\ntoy = rival:Backend\n")
    done = forked.run(["python", "-c", CREATE], tmp_path, path=[site, tmp_path])
    assert done.returncode != 0
    assert "toy-plugin" in done.stderr
    assert "rival" in done.stderr
