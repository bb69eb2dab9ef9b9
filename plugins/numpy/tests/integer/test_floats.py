"""Float cases: nodes that are named as float, and only those."""

from dovetail.ir import DType, ScaleOffset, Spec
from dovetail_numpy.integer import DEFINITIONS, FLOAT_CASES, float_case

U8, F16, INT = DType.UFIXED_POINT_8, DType.FLOAT_16, DType.INT_32
GRID = ScaleOffset(0.1, -3)


def glimpse(node, noise, grid=GRID):
    ins = [Spec(U8, (1, 4, 4, 1), grid), Spec(DType.FLOAT_32, (1, 2))]
    return node("ExtractGlimpse", ins, [Spec(U8, (1, 2, 2, 1), grid)], size=[2, 2], noise=noise)


def test_noise_decides(node):
    assert float_case(glimpse(node, 0)) is FLOAT_CASES["ExtractGlimpse"]
    zeros = glimpse(node, 2)
    assert float_case(zeros) is None
    assert DEFINITIONS.of(zeros) is not None


def test_missing_encoding_is_no_float_case(node):
    unknown = glimpse(node, 0, None)
    assert float_case(unknown) is None
    assert DEFINITIONS.of(unknown) is None


def test_float_result_decides(node):
    weights = Spec(DType.SFIXED_POINT_8, (4, 3), ScaleOffset(0.1))
    view = node("MatMul", [Spec(F16, (2, 4)), weights], [Spec(F16, (2, 3))])
    assert float_case(view) is FLOAT_CASES["MatMul"]
    exact = node("MatMul", [Spec(U8, (2, 4), GRID), weights], [Spec(U8, (2, 3), GRID)])
    assert float_case(exact) is None


def test_suppression_with_exponentials(node):
    ins = [Spec(U8, (1, 4, 4), GRID), Spec(U8, (1, 4, 3), GRID)]
    outs = [
        Spec(U8, (1, 5, 4), GRID),
        Spec(U8, (1, 5), GRID),
        Spec(INT, (1, 5)),
        Spec(DType.UINT_32, (1,)),
    ]
    for sigma, is_float in ((0.0, False), (0.5, True)):
        view = node("MultiClassNms", ins, outs, iou_threshold=0.5, soft_nms_sigma=sigma)
        assert (float_case(view) is not None) is is_float
