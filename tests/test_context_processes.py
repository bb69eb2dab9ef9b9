"""Context binaries and processes: killed writers, shared weights, memory, recordings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import numpy as np
import pytest

import dovetail as dt
from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, static

KILLS = int(os.environ.get("DOVETAIL_KILLS", "8"))  # 200 take half a minute
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc has the memory of processes")


def model(size: int, names: str = "ab", scale: float = 1.0) -> Model:
    """Products with different weights of `size` squared."""
    graphs = []
    for seed, name in enumerate(names):
        graph = Graph(name)
        x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (4, size), TensorKind.APP_WRITE))
        values = np.random.default_rng(seed).standard_normal((size, size), np.float32)
        w = static(graph, "w", scale * values)
        add(graph, "MatMul", [x, w], name="y").kind = TensorKind.APP_READ
        graphs.append(graph)
    return Model.of(*graphs, producer=Producer("test", "1"), registry=installed_ops())


# Forked writers of one file are killed at random times of a write.
_WRITERS = """
import os, random, signal, sys, time
import dovetail as dt
folder, count = sys.argv[1], int(sys.argv[2])
random.seed(1)
path = os.path.join(folder, "context.bin")
whole = [open(os.path.join(folder, name), "rb").read() for name in ("old.bin", "new.bin")]
sessions = [dt.Session(os.path.join(folder, f"{name}.dvt")) for name in ("old", "new")]
start = time.perf_counter()
sessions[0].save_context(path)
took, seen = time.perf_counter() - start, set()
for i in range(count):
    writer = os.fork()
    if writer == 0:
        sessions[(i + 1) % 2].save_context(path)
        os._exit(0)
    time.sleep(random.random() * took * 1.2)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    found = open(path, "rb").read()
    assert found in whole, f"kill {i}: {len(found)} bytes"
    seen.add(whole.index(found))
sessions[0].save_context(path)
print(len(seen), sorted(name for name in os.listdir(folder) if name.endswith(".part")))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
def test_killed_writers_leave_a_whole_file(tmp_path: Path) -> None:
    for name, scale in (("old", 1.0), ("new", 2.0)):
        model(400, scale=scale).save(tmp_path / f"{name}.dvt")
        with dt.Session(tmp_path / f"{name}.dvt") as session:
            session.save_context(tmp_path / f"{name}.bin")
    done = forked.run(["python", "-c", _WRITERS, str(tmp_path), str(KILLS)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["[]"]  # what killed writers left is removed by the next


def test_equal_contexts_have_equal_bytes_in_all_processes(tmp_path: Path) -> None:
    model(64).save(tmp_path / "net.dvt")
    code = (
        "import dovetail as dt, sys\n"
        "for backend in ('cpu', 'hetero:cpu'):\n"
        "    dt.Session('net.dvt', backend).save_context(f'{backend}{sys.argv[1]}')"
    )
    for seed in ("1", "2"):  # a fork would have the hash seed of its parent
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, seed]
        subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    for backend in ("cpu", "hetero:cpu"):
        first, second = ((tmp_path / f"{backend}{seed}").read_bytes() for seed in "12")
        assert first == second


# Children that load one file measure their share of its pages while all of them have loaded it.
# They have loaded a small one before, and with it everything that is imported.
_READERS = """
import json, os, sys
import numpy as np
from dovetail import Session
path, size, count, small = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def pss():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))

def loaded(path, size):
    session = Session.from_context(path)
    for name in session.graphs:
        session.run(np.ones((4, size), np.float32), graph=name)
    return session

def work(ready, go, result, end):
    first = loaded(small, 64)
    before = pss()
    session = loaded(path, size)
    os.write(ready, b"1")
    os.read(go, 1)
    os.write(result, json.dumps(pss() - before).encode() + b"\\n")
    os.read(end, 1)

def measured(count):
    ready, go, result, end = (os.pipe() for _ in range(4))
    children = []
    for _ in range(count):
        children.append(os.fork())
        if children[-1] == 0:
            work(ready[1], go[0], result[1], end[0])
            os._exit(0)
    for _ in children:
        os.read(ready[0], 1)
    os.write(go[1], b"1" * count)
    text = b""
    while text.count(b"\\n") < count:
        text += os.read(result[0], 1 << 12)
    os.write(end[1], b"1" * count)
    for child in children:
        os.waitpid(child, 0)
    return sum(map(json.loads, text.split()))

print(json.dumps([measured(1), measured(count)]))
"""


@ON_LINUX
def test_processes_share_the_weights_of_a_file(tmp_path: Path) -> None:
    """Four take little more than one: without sharing, three more copies of 32 MB."""
    size, weights = 2000, 2 * 2000 * 2000 * 4
    for name, each in (("context", size), ("small", 64)):
        with dt.Session(model(each)) as session:
            session.save_context(tmp_path / f"{name}.bin")
    paths = [str(tmp_path / f"{name}.bin") for name in ("context", "small")]
    command = ["python", "-c", _READERS, paths[0], str(size), "4", paths[1]]
    done = forked.run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    one, four = json.loads(done.stdout)
    assert one > 0.9 * weights
    assert four < one + 0.5 * weights  # what each has of its own


_LIMITED = """
import gc, sys
import numpy as np
from dovetail import Session

def status(field):
    return int(open("/proc/self/status").read().split(f"{field}:")[1].split()[0]) << 10

path, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.ones((4, size), np.float32)

def run(**context):
    with Session.from_context(path, config={"context": context}) as session:
        for _ in range(2):
            for name in session.graphs:
                session.run(x, graph=name)

run(enable_graphs=["a"])  # libraries, and code of kernels
gc.collect()
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
run(memory_limit_hint=limit)
print(status("VmHWM") - before)
"""


@ON_LINUX
@pytest.mark.parametrize("limit", [40, 80])
def test_the_memory_limit_holds(tmp_path: Path, limit: int) -> None:
    """Six graphs of 16 MB: with the manifest, the peak is within a tenth of the limit."""
    size = 2048  # Linux may map a file by 2 MB: the ends of two graphs and the manifest add up to 6
    with dt.Session(model(size, "abcdef")) as session:
        session.save_context(tmp_path / "context.bin", embed_model=False)
    command = ["python", "-c", _LIMITED, str(tmp_path / "context.bin"), str(size), str(limit)]
    done = forked.run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout) / 2**20
    assert limit - 2 * 16 < peak < 1.1 * limit


def test_recorded_contexts_are_replayed(tmp_path: Path) -> None:
    with dt.Session(model(64)) as session:
        session.save_context(tmp_path / "context.bin")
    x, data = np.ones((4, 64), np.float32), (tmp_path / "context.bin").read_bytes()
    with dt.record(tmp_path / "trace"):
        for source in (tmp_path / "context.bin", data):
            with dt.Session.from_context(source) as session:
                session.run(x, graph="a")
                context = session.graphs["a"].context
                context.apply_binary_section(context.get_binary_section())
                session.save_context(tmp_path / "again.bin")
                session.backend.validate_binary(source)
    (tmp_path / "context.bin").unlink()  # the trace has its bytes
    for command in ("replay trace", "trace verify trace"):
        done = forked.run(f"dovetail {command}", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
