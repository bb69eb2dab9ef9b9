"""Detections, regions of interest and key points on a device, against `cpu`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples
from small_nets import model_of, real

import dovetail as dt
from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind
from dovetail_opset.build import add

FLOAT = DType.FLOAT_32


def boxes(count, seed, scale):
    draw = np.random.default_rng(seed)
    low = draw.uniform(-2, scale, (count, 2))
    high = low + draw.uniform(0, scale, (count, 2))
    return np.concatenate([low, high], axis=1).astype(np.float32)


@examples(60)
@given(
    st.data(),
    st.integers(1, 2),
    st.sampled_from((0, 1, 7, 40)),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_detections(check_op, data, images, anchors, classes, is_fast, seed):
    draw = np.random.default_rng(seed)
    shares = is_fast or data.draw(st.booleans())
    # equal scores too, of which the lower index comes first
    scores = draw.choice(np.linspace(0, 1, 9, dtype=np.float32), (images, anchors, classes))
    if anchors and data.draw(st.booleans()):
        scores[0, 0, 0] = np.nan
    deltas = real(images, anchors if shares else anchors * classes, 4, seed=seed)
    priors = draw.uniform(0.1, 1, (images * anchors, 4)).astype(np.float32)
    most = data.draw(st.integers(1, 30))
    specs = [
        Spec(FLOAT, (images, most)),
        Spec(FLOAT, (images, most, 4)),
        Spec(DType.INT_32, (images, most)),
        Spec(DType.UINT_32, (images,)),
    ]
    params = {
        "delta_scaling_factors": np.array([10, 10, 5, 5], np.float32),
        "confidence_threshold": data.draw(st.sampled_from((0.0, 0.3))),
        "iou_threshold": data.draw(st.sampled_from((0.0, 0.1, 0.6))),
        "nms_type": 0 if is_fast else 1,
        "background_class_idx": data.draw(st.integers(0, 2)),
        "use_bg_in_nms": data.draw(st.booleans()),
        "output_background": data.draw(st.booleans()),
        "share_location": shares,
        "nms_eta": data.draw(st.sampled_from((1.0, 0.9))),
        "detection_limit": data.draw(st.sampled_from((-1, 0, 2))),
    }
    check_op("DetectionOutput", scores, deltas, priors, specs=specs, **params)


@examples(50)
@given(
    st.data(),
    st.sampled_from((1, 3, 8, 11)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from(((-1, -1), (2, 1), (0, 3))),
    st.booleans(),
    st.booleans(),
)
def test_roi_align(check_op, data, channels, bins, samples, aligned, allows_invalid):
    count = data.draw(st.integers(0, 5))
    regions = boxes(count, channels, 30)
    if allows_invalid:
        regions = regions[:, ::-1].copy()
    images = np.random.default_rng(count).integers(0, 2, count).astype(np.int32)
    params = {
        "img_size_ratio": np.array([2, 4], np.float32),
        "num_samples_y": samples[0],
        "num_samples_x": samples[1],
        "aligned": aligned,
        "allow_invalid_roi": allows_invalid,
    }
    specs = [Spec(FLOAT, (count, *bins, channels))]
    check_op("RoiAlign", real(2, 9, 7, channels), regions, images, specs=specs, **params)


@examples(30)
@given(st.integers(0, 3), st.integers(2, 9), st.integers(2, 9), st.integers(1, 5), st.booleans())
def test_key_points(check_op, images, height, width, points, is_flat):
    maps = real(images, height, width, points)
    check_op(
        "HeatMapMaxKeyPoint",
        maps * 0 if is_flat else maps,
        boxes(images, 1, 30),
        specs=(None, None),
    )


@pytest.mark.parametrize("images", [[0], [5]])
def test_wrong_regions_are_nan(images):
    graph = Graph("net")
    feeds = {"x": real(1, 4, 4, 9), "image": np.array(images, np.int32)}
    # in image 0, the corners are in the wrong order
    feeds["region"] = np.array([[3, 3, 1, 1]] if images == [0] else [[0, 0, 2, 2]], np.float32)
    tensors = [
        graph.add_tensor(Tensor(n, DType.of(a.dtype), a.shape, TensorKind.APP_WRITE))
        for n, a in ((n, feeds[n]) for n in ("x", "region", "image"))
    ]
    params = {"img_size_ratio": np.array([1, 1], np.float32)}
    y = add(graph, "RoiAlign", tensors, name="y", spec=Spec(FLOAT, (1, 2, 2, 9)), **params)
    y.kind = TensorKind.APP_READ
    model = model_of(graph)
    with dt.Session(model, backend="gpu") as session:
        assert np.isnan(session.run(feeds)["y"]).all()
