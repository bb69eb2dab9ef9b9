"""The definition of integer arithmetic: what a quantized node computes, in NumPy, bit for bit.

`DEFINITIONS` has the definition of each op that has one. Engines may compute in any way that gives
the same bits. Nothing here imports an engine. docs/htp_arithmetic.md states the same in words.
"""

from dovetail_numpy.integer import (  # noqa: F401 - registers definitions
    binary,
    by_real_values,
    choices,
    conversions,
    interpolation,
    moves,
    norms,
    products,
    recurrent,
    sums,
    tables,
)
from dovetail_numpy.integer.definitions import DEFINITIONS, Definition, Definitions
from dovetail_numpy.integer.faults import Fault
from dovetail_numpy.integer.floats import FLOAT_CASES, FloatCase, float_case
from dovetail_numpy.integer.products import Pass, accumulator_bound, passes
from dovetail_numpy.integer.rescaling import Rescale, levels, rescale_of_products
from dovetail_numpy.integer.validation import find_faults

__all__ = [
    "DEFINITIONS",
    "FLOAT_CASES",
    "Definition",
    "Definitions",
    "Fault",
    "FloatCase",
    "Pass",
    "Rescale",
    "accumulator_bound",
    "find_faults",
    "float_case",
    "levels",
    "passes",
    "rescale_of_products",
]
