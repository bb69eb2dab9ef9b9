"""Files before their mutation: our own models, and those of ONNX's backend tests."""

from __future__ import annotations

import logging
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

import dovetail
from dovetail.errors import DovetailError
from fuzz import control, models, quantized

_LIGHT = ("light_squeezenet", "light_shufflenet")
# Larger files take longer and show nothing new.
_MOST_BYTES = 100_000
# Own models are few and rich: about a fifth of all files are mutations of them.
_TIMES = 30
# Largest number of elements of an input that determines shapes or axes.
_FEW = 64


@dataclass(frozen=True, slots=True)
class Seed:
    """A file before its mutation."""

    name: str
    data: bytes


def own_seeds() -> list[Seed]:
    """Return our own models."""
    made = [*models.models(), *control.models(), *quantized.models()]
    return [Seed(name, model.SerializeToString()) for name, model in made]


def onnx_seeds() -> list[Seed]:
    """Return our own models, many times, and those of the installed onnx."""
    with warnings.catch_warnings(action="ignore"):  # NumPy warns of infinities
        nodes = load_model_tests(kind="node")
    seeds = [Seed(c.name, c.model.SerializeToString()) for c in nodes if c.model is not None]
    numbered = ((case.name, with_numbers(case)) for case in nodes)
    seeds += [Seed(f"{name} with numbers", m.SerializeToString()) for name, m in numbered if m]
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    files = [data / "light" / f"{name}.onnx" for name in _LIGHT]
    for folder in ("simple", "pytorch-operator", "pytorch-converted"):
        files += sorted((data / folder).glob("*/model.onnx"))
    seeds += [Seed(f"{file.parent.name}/{file.stem}", file.read_bytes()) for file in files]
    return own_seeds() * _TIMES + [seed for seed in seeds if len(seed.data) < _MOST_BYTES]


def with_numbers(case: TestCase) -> ModelProto | None:
    """Return a case's model with its small inputs of integers as constants, if it has any.

    Values that determine shapes are then constants, which can be mutated.
    """
    if case.model is None or not case.data_sets:
        return None
    model = ModelProto()
    model.CopyFrom(case.model)
    for info, given in zip(case.model.graph.input, case.data_sets[0][0], strict=False):
        values = numpy_helper.to_array(given) if isinstance(given, TensorProto) else given
        if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.size <= _FEW:
            model.graph.input.remove(info)
            model.graph.initializer.append(numpy_helper.from_array(values, info.name))
    if len(model.graph.input) == len(case.model.graph.input):
        return None
    return model


def container_seeds() -> list[Seed]:
    """Return the containers of our own models that can be converted."""
    logging.disable(logging.WARNING)
    seeds = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / models.WEIGHTS_FILE).write_bytes(bytes(models.WEIGHTS_BYTES))
        path, made = Path(folder) / "model.onnx", Path(folder) / "model.dvt"
        for seed in own_seeds():
            path.write_bytes(seed.data)
            try:
                dovetail.convert(path).save(made)
            except DovetailError:
                continue
            seeds.append(Seed(seed.name, made.read_bytes()))
    return seeds
