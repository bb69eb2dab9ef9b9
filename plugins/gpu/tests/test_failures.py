"""Failures: each is an error that names the device and the remedy, and nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_nets import chain, expected, model_of, some

import dovetail as dt
from dovetail.errors import BackendError, ConfigError, PluginError, UnsupportedOpError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.runtime import SignalKind
from dovetail.runtime.plan import KernelCall, KernelRegistry, Step
from dovetail_gpu import Launch, Source, _backend, computing, driver, launch, read, write
from dovetail_gpu.driver import choose_device, opencl
from dovetail_gpu.options import GpuGraph
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

SLOW = """
__kernel void slow(TENSOR_IN(float, x), TENSOR_OUT(float, y), int count) {
  TENSOR_READ(float, x);
  TENSOR_WRITE(float, y);
  float v = x[get_global_id(0)];
  for (int i = 0; i < count; i++) v = cos(v);
  y[get_global_id(0)] = v;
}
"""


def driver_error(routine: str, code: int) -> Exception:
    """Return an error as pyopencl raises it."""
    cl = opencl()
    record = cl._cl._ErrorRecord(msg="", code=code, routine=routine)
    error: Exception = cl.RuntimeError(record)
    return error


def run_doctor(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dovetail", "doctor"]
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_doctor_says_that_pyopencl_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pyopencl.py").write_text("raise ImportError('libOpenCL.so.1 was not found')\n")
    done = run_doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 6, done.stdout + done.stderr
    assert "pyopencl cannot be imported: libOpenCL.so.1 was not found" in done.stdout
    assert "pip install 'pyopencl[pocl]'" in done.stdout


def test_without_a_driver_or_a_device_the_error_says_how_to_install_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cl = opencl()

    def fails() -> list[Any]:
        raise driver_error("clGetPlatformIDs", -1001)

    def bare() -> list[Any]:
        raise driver_error("clGetDeviceIDs", -1)

    platform = SimpleNamespace(name="Bare ", get_devices=bare)
    for platforms, reason in (
        (fails, "no OpenCL driver was found"),
        (list, "no OpenCL device was found; drivers: none"),
        (lambda: [platform], "no OpenCL device was found; drivers: Bare"),
    ):
        monkeypatch.setattr(cl, "get_platforms", platforms)
        with pytest.raises(PluginError, match=reason) as caught:
            choose_device(None)
        assert "pip install 'pyopencl[pocl]'" in caught.value.hint


def test_a_device_whose_driver_compiles_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cl = driver.opencl()

    class Refused:
        def __init__(self, *_: object) -> None:
            pass

        def build(self, options: list[str], *, cache_dir: bool) -> None:
            assert not options
            assert not cache_dir  # pyopencl's own cache fails with some drivers
            text = "clBuildProgram failed\nerror: unknown target CPU 'generic'\n(options: -I x)"
            raise cl.RuntimeError(text)

    before = driver.devices()
    monkeypatch.setattr(cl, "Program", Refused)
    driver._fault.cache_clear()
    try:
        if all(device.is_cpu for device in before):
            with pytest.raises(PluginError, match="no OpenCL device can be used") as caught:
                driver.devices()
            assert "compiles no kernel (error: unknown target CPU" in str(caught.value)
            assert "pocl-opencl-icd" in caught.value.hint
        else:
            assert driver.devices() == tuple(d for d in before if not d.is_cpu)
    finally:
        driver._fault.cache_clear()


def test_two_drivers_are_told_apart_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    (real, *_) = driver.devices()
    names = {"platform": "Other Platform", "name": "Other Chip"}
    other = driver.Device(
        **{field: names.get(field, getattr(real, field)) for field in driver.Device.__slots__}
    )
    monkeypatch.setattr(driver, "devices", lambda: (real, other))
    assert choose_device(None) is real
    assert choose_device("1") is choose_device("other pla") is choose_device("chip") is other
    for name in ("99", "third", ""):
        with pytest.raises(ConfigError, match="no OpenCL device matches") as caught:
            choose_device(name)
        assert "1: Other Chip (Other Platform)" in caught.value.hint


def one_op(op_type: str, shape: tuple[int, ...], dtype: DType, **params: Any) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    add(graph, op_type, [x], name="y", **params).kind = TensorKind.APP_READ
    return graph


def test_a_tensor_beyond_the_limits_is_rejected_before_anything_is_allocated() -> None:
    with pytest.raises(UnsupportedOpError, match="size: ") as caught:
        dt.Session(model_of(one_op("Relu", (2**16, 2**16), DType.FLOAT_32)), backend="gpu")
    assert "allowed: at most" in str(caught.value)


@pytest.mark.parametrize(
    ("op_type", "params"), [("Transpose", {"perm": [1, 0]}), ("ReduceSum", {"axes": [0]})]
)
def test_numbers_of_64_bits_are_rejected_and_not_rounded(
    op_type: str, params: dict[str, list[int]]
) -> None:
    with pytest.raises(UnsupportedOpError, match=r"in\[0\].dtype is FLOAT_64"):
        dt.Session(model_of(one_op(op_type, (2, 3), DType.FLOAT_64, **params)), backend="gpu")


def test_a_device_without_memory_is_an_error_that_says_how_much_there_is(tmp_path: Path) -> None:
    """In a process whose driver has one gigabyte: five results of 200 MB, and nothing shared."""
    if "Portable Computing Language" not in choose_device(None).platform:
        pytest.skip("only PoCL has a setting for the memory of a process")
    script = """
import sys
import numpy as np
import dovetail as dt
from dovetail.errors import BackendError
from small_nets import chain, model_of
shape = (200, 2**18)
graph = chain(shape)
settings = {"disable_memory_optimizations": True, "disable_node_optimizations": True}
config = {"graph": [{"graph_name": "chain", **settings}]}
try:
    with dt.Session(model_of(graph), backend="gpu", config=config) as session:
        session.run({"x": np.zeros(shape, np.float32)})
except BackendError as error:
    print(error)
with dt.Session(model_of(chain()), backend="gpu") as session:
    print(session.run({"x": np.ones((2, 5, 13), np.float32)})["y"].shape)
"""
    helpers = str(Path(__file__).parent / "helpers")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"POCL_MEMORY_LIMIT": "1", "PYTHONPATH": helpers},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "has not enough memory to" in done.stdout
    assert "use a smaller batch" in done.stdout
    assert done.stdout.endswith("(2, 5, 13)\n")  # another session of the process still runs


def test_a_program_that_the_driver_rejects_is_an_error_with_the_drivers_words() -> None:
    with dt.Session(model_of(chain()), backend="gpu") as session:
        programs = session.backend.plugin.opencl.programs
        with pytest.raises(BackendError, match="does not compile a kernel") as caught:
            programs.kernel(Source.from_text("__kernel void f() { unheard_of(1); }"), "f")
        assert "unheard_of" in caught.value.message
        assert "hetero:gpu,cpu" in caught.value.hint
        with pytest.raises(BackendError, match="create the kernel 'g'"):
            programs.kernel(Source.from_text("__kernel void f() { }"), "g")
        np.testing.assert_allclose(session.run({"x": some()})["y"], expected(some()), 1e-5, 1e-6)


def test_arguments_that_are_not_those_of_the_function_are_an_error() -> None:
    source = Source.from_text("__kernel void f(TENSOR_OUT(S, y), int n) { }")
    with dt.Session(model_of(chain()), backend="gpu") as session:
        engine = session.backend.plugin.opencl
        with (
            computing.Computing(engine, GpuGraph()),
            pytest.raises(BackendError, match=r"'f' has 3 parameters, and the launch passes 1"),
        ):
            Launch(source, "f", [7], (1,))


def test_damaged_files_of_the_cache_are_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"backend": {"gpu": {"kernel_repo_path": str(tmp_path)}}}

    def compiled() -> int:
        with dt.Session(model_of(chain()), backend="gpu", config=config) as session:
            found = session.run({"x": some()})["y"]
            np.testing.assert_allclose(found, expected(some()), 1e-5, 1e-6)
            opencl_engine = session.backend.plugin.opencl
            (tmp_path / opencl_engine.tuning.file.name).write_bytes(b'{"\xff": ""}')
            return int(opencl_engine.programs.compiled)

    assert compiled() == 1
    (path,) = tmp_path.glob("*.bin")
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1  # perhaps in machine code
    for damaged in (b"", whole[:100], bytes(flipped), b"\0" * 4096):
        path.write_bytes(damaged)
        assert compiled() == 1
        assert len(path.read_bytes()) > 1000
    assert compiled() == 0
    assert "tuning" in caplog.text


def test_pipes_in_the_cache_are_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"backend": {"gpu": {"kernel_repo_path": str(tmp_path)}}}
    with dt.Session(model_of(chain()), backend="gpu", config=config) as session:
        session.run({"x": some()})
        tuning = tmp_path / session.backend.plugin.opencl.tuning.file.name
    (program,) = tmp_path.glob("*.bin")
    program.unlink()
    tuning.unlink(missing_ok=True)
    for path in (program, tuning):
        os.mkfifo(path)
    with dt.Session(model_of(chain()), backend="gpu", config=config) as session:
        np.testing.assert_allclose(session.run({"x": some()})["y"], expected(some()), 1e-5, 1e-6)
        assert session.backend.plugin.opencl.programs.compiled == 1
    assert f"{tuning} is not read" in caplog.text
    assert "the cache cannot be written" in caplog.text
    assert program.is_fifo()


FORK = """
import os, sys
import numpy as np
import dovetail as dt
from small_nets import chain, expected, model_of, some

def tried(action):
    try:
        action()
    except dt.DovetailError as error:
        return f"{error.message}; {error.hint}"
    return "no error"

session = dt.Session(model_of(chain()), backend="gpu")
session.run({"x": some()})
sys.stdout.flush()
child = os.fork()
if not child:
    for backend in ("gpu", "auto:gpu,cpu"):
        print(tried(lambda: dt.Session(model_of(chain()), backend=backend).run({"x": some()})))
    print(tried(lambda: session.run({"x": some()})))
    print(tried(session.close))
    sys.stdout.flush()
    os._exit(0)  # as forked workers end: a driver may not survive the release of what it holds
_, status = os.waitpid(child, 0)
np.testing.assert_allclose(session.run({"x": some()})["y"], expected(some()), 1e-5, 1e-6)
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_is_not_left_waiting_for_the_drivers_threads() -> None:
    helpers = str(Path(__file__).parent / "helpers")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK],
        env=os.environ | {"PYTHONPATH": helpers},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    new, auto, old, closed = done.stdout.splitlines()
    assert auto == closed == "no error"
    for reason in (new, old):
        assert "was forked" in reason
        assert "spawn" in reason


def test_a_lost_device_is_an_error_and_the_session_can_be_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cl = opencl()

    def lost(*_: object) -> None:
        raise driver_error("clEnqueueNDRangeKernel", -9999)

    with dt.Session(model_of(chain()), backend="gpu") as session:
        with monkeypatch.context() as patch:
            patch.setattr(cl, "enqueue_nd_range_kernel", lost)
            for _ in range(2):
                with pytest.raises(BackendError, match="was lost") as caught:
                    session.run({"x": some()})
                assert "create another" in caught.value.hint
                assert "y" in caught.value.where
        # a driver that comes back is used again
        np.testing.assert_allclose(session.run({"x": some()})["y"], expected(some()), 1e-5, 1e-6)


@pytest.fixture
def slow_relu(monkeypatch: pytest.MonkeyPatch) -> Iterator[dt.Session]:
    """A session whose Relu takes about two seconds; it computes cos, again and again."""
    registry = KernelRegistry("gpu")

    @registry.register(PACKAGE.name, "Relu")
    def slow(call: KernelCall) -> Step:
        x, y = read(call, 0), write(call)
        return launch(call, Source.from_text(SLOW), "slow", [x, y, 10_000_000], (1,))

    monkeypatch.setattr(_backend, "kernels", lambda: registry)
    with dt.Session(model_of(one_op("Relu", (1,), DType.FLOAT_32)), backend="gpu") as session:
        yield session


def test_a_timeout_ends_the_wait_for_the_device(slow_relu: dt.Session) -> None:
    (graph,) = slow_relu.graphs.values()
    feeds = {"x": np.zeros(1, np.float32)}
    signal = slow_relu.backend.create_signal(SignalKind.TIMEOUT, timeout_us=100_000)
    for _ in range(2):  # the second waits for what the first has left behind
        start = time.monotonic()
        with pytest.raises(BackendError) as caught:
            graph.execute(feeds, signal=signal)
        assert caught.value.code == "GRAPH_ERROR_TIMED_OUT"
        assert time.monotonic() - start < 1
    found = graph.execute(feeds)["y"]  # after the end of those
    np.testing.assert_allclose(found, [0.739085], 1e-5)  # where cos(v) is v


def test_a_signal_ends_the_wait_for_the_device(slow_relu: dt.Session) -> None:
    (graph,) = slow_relu.graphs.values()
    signal = slow_relu.backend.create_signal(SignalKind.ABORT)
    timer = threading.Timer(0.1, signal.trigger)
    timer.start()
    start = time.monotonic()
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": np.zeros(1, np.float32)}, signal=signal)
    assert caught.value.code == "GRAPH_ERROR_ABORTED"
    assert time.monotonic() - start < 1
    timer.join()


def test_a_device_that_does_not_end_is_given_up(
    slow_relu: dt.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "PATIENCE_S", 0.02)
    (graph,) = slow_relu.graphs.values()
    feeds = {"x": np.zeros(1, np.float32)}
    signal = slow_relu.backend.create_signal(SignalKind.TIMEOUT, timeout_us=20_000)
    with pytest.raises(BackendError):
        graph.execute(feeds, signal=signal)
    with pytest.raises(BackendError, match="does not end an execution that was stopped"):
        graph.execute(feeds)
