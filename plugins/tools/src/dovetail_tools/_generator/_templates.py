"""Texts of generated files that differ between op packages only in their `@name@`s."""

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "@dist@"
version = "@version@"
description = "The op package @package@ for Dovetail"
readme = "README.md"
requires-python = ">=3.11"
dependencies = [
    "dovetail-core>=0.1,<0.2",
    "numpy>=2,<3",
]

[project.optional-dependencies]
# Requirements of its tests.
test = [
    "dovetail-core[testing]>=0.1,<0.2",
    "dovetail-cpu>=0.1,<0.2",
@frontend@]

@points@

[tool.hatch.build.targets.wheel]
packages = ["src/@module@"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["tests"]
addopts = ["--strict-markers", "--strict-config", "-ra"]
xfail_strict = true
filterwarnings = ["error"]

[tool.mypy]
strict = true
files = ["src", "tests"]
mypy_path = ["$MYPY_CONFIG_FILE_DIR/src", "$MYPY_CONFIG_FILE_DIR/tests"]
explicit_package_bases = true

[tool.ruff]
line-length = 100
target-version = "py311"
src = ["src", "tests"]

[tool.ruff.lint]
select = ["E", "F", "W", "I", "UP", "B", "D", "RUF", "SIM"]
ignore = [
    "D105",
    "D107",
    # Names and texts come from the op package's definition: a parameter may be named `l`, and a
    # description may be in any language and have a line that looks like a heading.
    "D4",
    "E741",
    "RUF001",
    "RUF002",
    "RUF003",
]

[tool.ruff.lint.pydocstyle]
convention = "google"
"""

UNWRITTEN = '''
def _unwritten(name: str) -> UnsupportedOpError:
    """Return the error of an op whose code is not written."""
    return UnsupportedOpError(
        f"the op {PACKAGE.name}::{name} has no code yet",
        hint=f"write its `reference` in {__file__}",
    )
'''

KERNELS_DOCSTRING = '''
"""Kernels: faster code for the ops, one for each backend and op.

An op without a kernel runs by its `reference`. A kernel returns None for a call that it does not
support, before it declares anything. Otherwise it declares what it reads and writes, and returns a
function of the arrays, in the order of these declarations:

    if call.spec(0).dtype is not DType.FLOAT_32:
        return None
    alpha = np.float32(call.op.alpha)  # a param
    call.read(0)
    call.write()

    def run(x: Array, out: Array) -> None:
        np.multiply(x, alpha, out=out)

    return call.array_step(run)

The backend `gpu` runs no reference and no function of arrays: its kernels return
`dovetail_gpu.launch(call, ...)`, with OpenCL C of their own.
"""
'''

IMPORTERS_DOCSTRING = '''
"""Importers of the ONNX operators of `@domain@`.

By default an operator becomes the op of the same name, and its attributes become the params of the
same names. If they differ, write a function:

    @IMPORTERS.importer("Name", versions=(1,))
    def name(op: OpContext) -> Tensor:
        alpha = op.attr.number("alpha", 1.0)
        return op.emit("Name", [op.tensor(0)], package=PACKAGE, alpha=alpha)
"""
'''

TESTS = '''\
"""The ops meet the requirements on op packages, and their cases have the expected outputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dovetail import plugins
from dovetail.errors import UnsupportedOpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import OpRegistry
from dovetail.runtime.plan import KernelRegistry
from dovetail.testing import (
    ASPECTS,
    Bench,
    Encoded,
    OpCase,
    OpSubject,
    Outcome,
    Status,
    run_aspect,
    run_case,
    subjects,
)

@own@

BACKENDS = [@backends@]


def marks(op: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return marks that expect an op without code to fail, for that reason only."""
    if op not in UNWRITTEN:
        return ()
    todo = f"once {op} is written, remove it from UNWRITTEN in tests/cases.py"
    return (pytest.mark.xfail(raises=UnsupportedOpError, strict=True, reason=todo),)


def need_code(case: OpCase) -> None:
    """Run a reference, and ignore its result."""
    schema = PACKAGE.schemas[case.op_type]
    ins = [None if x is None else spec_of(x) for x in case.inputs]
    op = schema.op(ins, **case.params)
    outs = case.outputs or schema.infer(op, ins, [None] * len(schema.outputs))
    schema.reference(op, [x.values if isinstance(x, Encoded) else x for x in case.inputs], outs)


def spec_of(given: Array | Encoded) -> Spec:
    """Return the type and shape of an input."""
    if isinstance(given, Encoded):
        return given.spec
    return Spec(DType.of(given.dtype), given.shape)


def conclude(outcome: Outcome) -> None:
    """Skip or fail a test by its outcome."""
    if outcome.status is Status.UNSUPPORTED:
        pytest.skip(outcome.reason)
    assert outcome.status is Status.PASSED, outcome.reason


@pytest.mark.parametrize(
    ("subject", "aspect"),
    [
        pytest.param(
            subject,
            aspect,
            id=f"{subject.schema.name}-{aspect.__name__}",
            marks=() if aspect.__name__ == "definition" else marks(subject.schema.name),
        )
        for subject in subjects(PACKAGE, CASES)
        for aspect in ASPECTS
    ],
)
def test_op(subject: OpSubject, aspect: Callable[[OpSubject], None]) -> None:
    """An op is defined, computes its cases, runs quantized and rejects invalid inputs."""
    if aspect.__name__ != "definition":
        for case in subject.cases:
            need_code(case)
    conclude(run_aspect(subject, aspect))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id, marks=marks(case.op_type)) for case in CASES]
)
def test_backend(backend: str, case: OpCase) -> None:
    """A backend computes a case as expected, by a kernel or by the reference."""
    need_code(case)
    conclude(run_case(Bench(backend, packages=[PACKAGE]), case))


def test_it_is_installed() -> None:
    """The plugins of the dist load; install it first: `pip install -e '.[test]'`."""
    assert plugins.load("dovetail.op_packages", PACKAGE.name) is PACKAGE
    for backend in BACKENDS:
        kernels = plugins.load("dovetail.kernels", f"{backend}:{PACKAGE.name}")
        assert isinstance(kernels, KernelRegistry)
        kernels.check(OpRegistry.of(PACKAGE))
'''
