"""A compiler understands `X.cpp` as the reader does: a program composes the model and prints it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_graphs import convolution

from dovetail.csource import CONSTANTS
from dovetail.ir import AxisScaleOffset, Graph, Scalar, ScaleOffset, Tensor
from dovetail_qnn import QnnCppExporter, QnnCppFrontend, QnnCppOptions

HEADERS = Path(__file__).with_name("headers")
COMPILER = shutil.which("g++")
MAIN = """
int main() {
  uint32_t count = 0;
  ModelError_t error = QnnModel_composeGraphs(nullptr, 0, nullptr, nullptr, 0, nullptr, &count, false, nullptr, 0);
  return error != MODEL_NO_ERROR || count != 1;
}
"""  # noqa: E501 - lines of C++


def printed(graph: Graph) -> Iterator[str]:
    """Yield the lines that the program prints for a graph that was read without its extras."""
    yield f"graph {graph.name}"
    for tensor in graph.tensors.values():
        if graph.producer(tensor) is None:
            yield shown("tensor", tensor)
    for node in graph.nodes:
        yield f"node {node.name} {node.package} {node.op_type}"
        for name, param in node.params.items():
            if isinstance(param, Scalar):
                yield f"scalar {name} {int(param.dtype)} {param.value}"
            else:
                yield shown("param", param).replace(f"{node.name}.", f"{node.name}_")
        yield from (f"input {tensor.name}" for tensor in node.inputs if tensor)
        yield from (shown("output", tensor) for tensor in node.outputs)


def shown(what: str, tensor: Tensor) -> str:
    parts = [what, tensor.name, str(int(tensor.kind)), str(int(tensor.dtype)), "["]
    parts += [*map(str, tensor.shape), "]"]
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset):
        parts += [f"{encoding.scale:.9g}", str(encoding.offset)]
    if isinstance(encoding, AxisScaleOffset):
        assert encoding.offsets is not None
        parts += ["axis", str(encoding.axis)]
        for scale, offset in zip(encoding.scales, encoding.offsets, strict=True):
            parts += [f"{float(np.float32(scale)):.9g}", str(offset)]
    return " ".join(parts)


@pytest.mark.skipif(COMPILER is None, reason="there is no g++")
@pytest.mark.parametrize(
    "options",
    [
        QnnCppOptions(),
        QnnCppOptions(op_style="2.18", copyright="(c) me */ \\\n// dovetail {\nmore"),
        QnnCppOptions(op_style="2.27", package_name="my.ops", exclude_named_tensors=True),
    ],
    ids=str,
)
def test_the_program_composes_what_is_read(tmp_path: Path, options: QnnCppOptions) -> None:
    path = tmp_path / "net.cpp"
    QnnCppExporter().export(convolution(), path, options)
    numbers = "".join(f"#define {name.decode()} {value}\n" for name, value in CONSTANTS.items())
    (tmp_path / "numbers.h").write_text(numbers, "utf-8")
    (tmp_path / "main.cpp").write_text(f'#include "{path.name}"\n{MAIN}', "utf-8")
    program = tmp_path / "program"
    includes = ("-I", str(HEADERS), "-I", str(tmp_path))
    command = [
        str(COMPILER),
        "-std=c++17",
        *includes,
        str(tmp_path / "main.cpp"),
        "-o",
        str(program),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=10, check=True)
    text = path.read_text("utf-8")
    path.write_text(
        "\n".join(x for x in text.splitlines() if not x.startswith("// dovetail")), "utf-8"
    )
    (graph,) = QnnCppFrontend().read(path)
    assert run.stdout.splitlines() == list(printed(graph))
