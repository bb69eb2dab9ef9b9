"""docs/htp.md says which options of the quantizer write types that each processor takes."""

import re
from pathlib import Path

import numpy as np
import pytest

import dovetail as dt
from dovetail import runtime
from dovetail.container import Model

ROOT = Path(__file__).parents[1]
FAMILIES = ("htp", "dsp", "hta", "lpai")
TABLE = re.search(
    r"<!-- options of the quantizer -->\n(.*?)<!-- end -->",
    (ROOT / "docs" / "htp.md").read_text("utf-8"),
    re.DOTALL,
)
assert TABLE is not None
ROWS = re.findall(r"^\| (`.*`|the defaults) \| (.*) \|$", TABLE[1], re.MULTILINE)


@pytest.fixture(scope="module")
def model() -> Model:
    return dt.convert(ROOT / "examples" / "digits" / "digits.onnx")


def test_the_table_is_read() -> None:
    assert len(ROWS) == 7


@pytest.mark.parametrize(("options", "taken"), ROWS, ids=[options for options, _ in ROWS])
def test_processors_take_products_of_these_options(model: Model, options: str, taken: str) -> None:
    images = np.load(ROOT / "examples" / "trained" / "calibration.npz")["images"][:8] / 16
    given = re.findall(r"(\w+)=(\w+)", options)
    values = {name: value == "True" or int(value) for name, value in given}
    quantized = dt.quantize(model, images.reshape(-1, 1, 1, 8, 8), **values)
    (graph,) = quantized.graphs.values()
    products = [n for n in graph.nodes if n.op_type in ("Conv2d", "FullyConnected")]
    assert {node.op_type for node in products} == {"Conv2d", "FullyConnected"}
    found = []
    for family in FAMILIES:
        with runtime.Backend.create(family) as backend:
            if all(backend.validate_op(node).ok for node in products):
                found.append(family)
    assert found == re.findall(r"`(\w+)`", taken)
