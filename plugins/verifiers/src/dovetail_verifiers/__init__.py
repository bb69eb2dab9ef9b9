"""The verifiers of Dovetail: metrics that compare a tensor with the expected one."""

from dovetail_verifiers.difference import MAE, MSE, L1Error, ScaledDiff
from dovetail_verifiers.mean_iou import MeanIOU
from dovetail_verifiers.similarity import SQNR, CosineSimilarity
from dovetail_verifiers.tolerance import AdjustedRtolAtol, RtolAtol
from dovetail_verifiers.top_k import TopK

__all__ = [
    "MAE",
    "MSE",
    "SQNR",
    "AdjustedRtolAtol",
    "CosineSimilarity",
    "L1Error",
    "MeanIOU",
    "RtolAtol",
    "ScaledDiff",
    "TopK",
]
