"""The float cases of all ops on fixed-point tensors, for backends that compute in integers.

They are separate from `dovetail_opset.testing.CASES`, which has fixed-point cases of the commonest
ops, because creating them computes every expected output again.
"""

from __future__ import annotations

from dovetail.ir import DType
from dovetail.testing import OpCase, quantized_cases, subjects
from dovetail_opset import PACKAGE
from dovetail_opset import testing as standard

_TYPES = (DType.UFIXED_POINT_8, DType.UFIXED_POINT_16, DType.SFIXED_POINT_16)
_KNOWN = {case.id for case in standard.CASES}

CASES: tuple[OpCase, ...] = tuple(
    case
    for subject in subjects(PACKAGE, standard.CASES)
    for case in quantized_cases(subject, *_TYPES)
    if case.id not in _KNOWN
)
