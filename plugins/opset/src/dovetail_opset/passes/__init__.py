"""Graph passes on the standard op set, and the pipeline that `convert` runs."""

from dovetail_opset.passes.channels_last import ChannelsLast
from dovetail_opset.passes.dead_code import DeadCode
from dovetail_opset.passes.fold_batchnorm import FoldBatchnorm
from dovetail_opset.passes.fold_constants import FoldConstants
from dovetail_opset.passes.fold_flatten import FoldFlatten
from dovetail_opset.passes.fuse_bias import FuseBias
from dovetail_opset.passes.fuse_channel_shuffle import FuseChannelShuffle
from dovetail_opset.passes.fuse_depth_to_space import FuseDepthToSpace
from dovetail_opset.passes.fuse_layer_norm import FuseLayerNorm
from dovetail_opset.passes.pipeline import PHASES, Pipeline, ThirdPartyPass
from dovetail_opset.passes.remove_identities import RemoveIdentities

CONVERT_DEFAULT = Pipeline(
    "convert.default",
    early=(DeadCode(), FoldConstants(), RemoveIdentities()),
    # what is written out with transposes of its own keeps those of the layout from cancelling
    layout=(FuseChannelShuffle(), FuseDepthToSpace(), ChannelsLast(), FoldFlatten()),
    # a bias may stand before a batchnorm, and be what is left of one
    fusion=(FuseLayerNorm(), FuseBias(), FoldBatchnorm(), FuseBias()),
    late=(RemoveIdentities(), FoldConstants(), DeadCode()),
)

__all__ = [
    "CONVERT_DEFAULT",
    "PHASES",
    "ChannelsLast",
    "DeadCode",
    "FoldBatchnorm",
    "FoldConstants",
    "FoldFlatten",
    "FuseBias",
    "FuseChannelShuffle",
    "FuseDepthToSpace",
    "FuseLayerNorm",
    "Pipeline",
    "RemoveIdentities",
    "ThirdPartyPass",
]
