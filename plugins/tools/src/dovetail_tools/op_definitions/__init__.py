"""QNN's op-package XML: op definitions as data, and as op packages without code.

`read_definitions` reads a file and reports all faults with their lines, `make_package` creates the
ops, `unexpressed` lists the facts that a schema cannot express.
"""

from collections.abc import Sequence
from pathlib import Path

from dovetail.ops import OpPackage
from dovetail_tools.op_definitions._decode import read_definitions
from dovetail_tools.op_definitions._model import (
    Constraint,
    Definitions,
    Layout,
    OpDefinition,
    Parameter,
    ShapeRule,
    Tensor,
)
from dovetail_tools.op_definitions._package import choices_of, make_package, param_field, shape_of
from dovetail_tools.op_definitions._unexpressed import Remark, unexpressed
from dovetail_tools.op_definitions._values import default_value


def load_definitions(paths: Sequence[Path]) -> list[OpPackage]:
    """Return the op packages of XML files.

    Raises:
        ConfigError: A file cannot be read or is invalid; lists all faults with their lines.
    """
    return [make_package(read_definitions(path)) for path in paths]


__all__ = [
    "Constraint",
    "Definitions",
    "Layout",
    "OpDefinition",
    "Parameter",
    "Remark",
    "ShapeRule",
    "Tensor",
    "choices_of",
    "default_value",
    "load_definitions",
    "make_package",
    "param_field",
    "read_definitions",
    "shape_of",
    "unexpressed",
]
