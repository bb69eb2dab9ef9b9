"""The cases of ONNX's backend tests: collecting, running, and which of them are in scope."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from dovetail_onnx import backend

SCOPE = Path(__file__).parents[1] / "backend" / "scope.toml"
REASONS = (
    "sequence, optional, map or string types",
    "training",
    "float8, float4 or int2",
    "random without a seed",
    "control flow that does not fold",
)
# Those of the real models are light ones, whose weights are computed.
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        given: As ONNX's loader gives it.
        kind: One of `KINDS`.
    """

    given: TestCase
    kind: str

    @property
    def name(self) -> str:
        """Unique among all cases."""
        return self.given.name

    @cached_property
    def model(self) -> ModelProto:
        """The model."""
        if self.given.model is not None:
            return self.given.model
        return onnx.load(self._path)

    def data_sets(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Return inputs and wanted outputs, in the model's order."""
        if self.given.data_sets is not None:
            for inputs, outputs in self.given.data_sets:
                yield _arrays(inputs), _arrays(outputs)
        elif self.given.model_dir is None:
            yield self._light_data()
        else:
            for folder in sorted(Path(self.given.model_dir).glob("test_data_set*")):
                ins, outs = self.model.graph.input, self.model.graph.output
                yield _loaded(folder, "input", len(ins)), _loaded(folder, "output", len(outs))

    @property
    def _path(self) -> Path:
        if self.given.model_dir is not None:
            return Path(self.given.model_dir) / "model.onnx"
        assert self.given.url is not None  # every case has a model, a folder or an address
        return Path(onnx.__file__).parents[1] / self.given.url

    def _light_data(self) -> tuple[list[Any], list[Any]]:
        graph, path = self.model.graph, self._path
        constants = {tensor.name for tensor in graph.initializer}
        inputs = [
            Runner.generate_dummy_data(info, name=self.name)
            for info in graph.input
            if info.name not in constants
        ]
        files = [path.with_name(f"{path.stem}_output_{i}.pb") for i in range(len(graph.output))]
        return inputs, [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


def _arrays(values: Sequence[Any]) -> list[Any]:
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]


def _loaded(folder: Path, word: str, most: int) -> list[Any]:
    files = [folder / f"{word}_{i}.pb" for i in range(most)]
    return [numpy_helper.to_array(onnx.load_tensor(str(f))) for f in files if f.exists()]


def load_cases() -> list[Case]:
    """Return all cases of the installed onnx, in the order of `KINDS`."""
    with warnings.catch_warnings(action="ignore"):  # NumPy's, of infinities that they are about
        return [Case(case, kind) for kind in KINDS for case in load_model_tests(kind=kind)]


def run_case(case: Case) -> backend.PreparedModel:
    """Run a case on the backend, and return what it was prepared to.

    Raises:
        AssertionError: An output has another type, shape or value than is wanted.
        DovetailError: The model cannot be converted or run.
    """
    prepared = backend.prepare(case.model)
    try:
        for inputs, outputs in case.data_sets():
            found = prepared.run(inputs)
            Runner.assert_similar_outputs(
                outputs, found, rtol=case.given.rtol, atol=case.given.atol
            )
    finally:
        prepared.close()
    return prepared


@dataclass(frozen=True)
class Scope:
    """What is in scope, and what of it is known to fail.

    Attributes:
        onnx: Version of onnx, as far as its minor number, that the names are of.
        out: Cases that are not, and which of the `REASONS` it is.
        failing: Cases that are, but fail, and why.
    """

    onnx: str
    out: Mapping[str, str]
    failing: Mapping[str, str]

    @property
    def is_of_installed(self) -> bool:
        """Whether the names are those of the installed onnx."""
        return onnx.__version__.startswith(f"{self.onnx}.")


def load_scope() -> Scope:
    """Return what the data file says.

    Raises:
        ValueError: It names a case twice, or a reason that is none of the fixed ones.
    """
    data = tomllib.loads(SCOPE.read_text("utf-8"))
    out = _by_name(data["out_of_scope"])
    failing = _by_name(data["failing"])
    if both := out.keys() & failing.keys():
        raise ValueError(f"cases are out of scope and failing: {sorted(both)}")
    if wrong := set(out.values()) - set(REASONS):
        raise ValueError(f"these are no reasons to be out of scope: {sorted(wrong)}")
    return Scope(data["onnx"], out, failing)


def _by_name(groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    pairs = [(f"test_{name}", reason) for reason, names in groups.items() for name in names]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a case has two reasons")
    return found
