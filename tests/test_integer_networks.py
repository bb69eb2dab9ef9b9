"""Whole quantized networks: every engine and instruction set computes the same bits.

The networks are trained. oneDNN reads the limit of its instruction set once in a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained import TRAINED, calibration, held_out

import dovetail as dt
from dovetail.ir import ScaleOffset

IMAGES = 12
# `cpu` simulates 16 bits, and both simulate the LSTM, whose state needs 16 bits: see the last test
NARROW = ("digits", "depthwise", "scaled", "attention")
WIDE = ("digits", "depthwise", "scaled")
CASES = [
    *((name, 8, backend) for name in NARROW for backend in ("cpu", "hetero:htp,cpu")),
    *((name, 16, "htp") for name in WIDE),
]

PROGRAM = """
import json, sys
import numpy as np
import dovetail as dt
from dovetail.ops import EVERYTHING, NOTHING

images, folder, cases = np.load(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])

def scores(path, backend, engine, observed):
    members = backend.rpartition(":")[2].split(",")
    config = {"backend": {name: {"engine": engine} for name in members}}
    with dt.Session(path, backend=backend, config=config, observed=observed) as session:
        return np.stack([session.run(image, native=False)["scores"] for image in images])

for name, bits, backend in cases:
    path = f"{folder}/{name}.{bits}.dvt"
    found = [
        scores(path, backend, engine, observed).tolist()
        for engine, observed in (("numpy", NOTHING), ("onednn", NOTHING), ("onednn", EVERYTHING))
    ]
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quantize each network with 8- and 16-bit activations; return the folder of the files."""
    made = tmp_path_factory.mktemp("quantized")
    for name, bits in [*((n, 8) for n in (*NARROW, "recurrent")), *((n, 16) for n in WIDE)]:
        network = TRAINED[name]
        options: dict[str, Any] = {"act_bitwidth": bits, "use_per_channel_quantization": True}
        model = dt.quantize(dt.convert(network.path), list(calibration(50)[:, None]), **options)
        model.save(made / f"{name}.{bits}.dvt")
    np.save(made / "images.npy", held_out()[0][:IMAGES, None])
    return made


def results(folder: Path, cases: list[tuple[str, int, str]], limit: str | None) -> Iterator[Any]:
    """Yield the scores (n, 10) of each case by engine: numpy, onednn, onednn without fusing."""
    environment = {k: v for k, v in os.environ.items() if k != "ONEDNN_MAX_CPU_ISA"}
    if limit is not None:
        environment["ONEDNN_MAX_CPU_ISA"] = limit
    given = [str(folder / "images.npy"), str(folder), json.dumps(cases)]
    command = [sys.executable, "-c", PROGRAM, *given]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        yield [np.array(each) for each in json.loads(line)]


@pytest.fixture(scope="module")
def unlimited(folder: Path) -> list[Any]:
    """Return the scores with all instructions that the processor has."""
    return list(results(folder, CASES, None))


@pytest.mark.parametrize("limit", [None, "AVX512_CORE", "AVX2"])
def test_engines_agree_bit_for_bit(folder: Path, unlimited: list[Any], limit: str | None) -> None:
    found = unlimited if limit is None else list(results(folder, CASES, limit))
    for case, each, (wanted, *_) in zip(CASES, found, unlimited, strict=True):
        for ours in each:
            np.testing.assert_array_equal(ours, wanted, err_msg=str(case))
        assert len(np.unique(wanted)) > IMAGES, case


def test_a_simulated_lstm_agrees_to_a_step(folder: Path) -> None:
    """Sums of floats in another order round to the other step where they are between two."""
    (graph,) = dt.load(folder / "recurrent.8.dvt").graphs.values()
    encoding = graph.outputs[0].encoding
    assert isinstance(encoding, ScaleOffset)
    ((by_numpy, by_onednn, _),) = results(folder, [("recurrent", 8, "cpu")], None)
    assert np.abs(by_onednn - by_numpy).max() <= 1.01 * encoding.scale


@pytest.mark.parametrize("name", [*NARROW, "recurrent"])
def test_integers_are_as_accurate_as_their_simulation(folder: Path, name: str) -> None:
    images, _ = held_out()

    def right(backend: str, **options: Any) -> int:
        with dt.Session(folder / f"{name}.8.dvt", backend=backend, **options) as session:
            scores = [session.run(image[None])["scores"] for image in images]
        return TRAINED[name].count_right(np.concatenate(scores))

    simulated = right("cpu", options={"quantized": "simulate"})
    for backend in ("cpu", "hetero:htp,cpu"):
        assert abs(right(backend) - simulated) <= 1, backend  # one of 360 is 0.28 points
