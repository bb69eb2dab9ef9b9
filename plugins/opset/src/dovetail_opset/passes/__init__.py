"""Graph passes on the standard op set, and the pipeline that `convert` runs."""

from dovetail_opset.passes._integers import integers_in
from dovetail_opset.passes._reciprocals import RECIPROCAL, multiply_instead, reciprocals_of
from dovetail_opset.passes.cast_last import CastLast
from dovetail_opset.passes.channels_last import ChannelsLast
from dovetail_opset.passes.dead_code import DeadCode, UnusedInputs
from dovetail_opset.passes.drop_nan_tests import DropNanTests
from dovetail_opset.passes.fold_batchnorm import FoldBatchnorm
from dovetail_opset.passes.fold_constants import FoldConstants
from dovetail_opset.passes.fold_flatten import COLUMNS_LAST, COLUMNS_MOVED, FoldFlatten
from dovetail_opset.passes.fold_reversals import FoldReversals
from dovetail_opset.passes.fold_softmax_scale import FoldSoftmaxScale
from dovetail_opset.passes.fold_transposed_matmul import FoldTransposedMatmul
from dovetail_opset.passes.fuse_bias import FuseBias
from dovetail_opset.passes.fuse_channel_shuffle import FuseChannelShuffle
from dovetail_opset.passes.fuse_concat import FuseConcat
from dovetail_opset.passes.fuse_depth_to_space import FuseDepthToSpace
from dovetail_opset.passes.fuse_group_norm import FuseGroupNorm
from dovetail_opset.passes.fuse_hard_swish import FuseHardSwish
from dovetail_opset.passes.fuse_l2_norm import FuseL2Norm
from dovetail_opset.passes.fuse_layer_norm import FuseLayerNorm
from dovetail_opset.passes.fuse_rms_norm import FuseRmsNorm
from dovetail_opset.passes.interface import Interface, TensorForm
from dovetail_opset.passes.join_axes import JoinAxes
from dovetail_opset.passes.join_scatters import JoinScatters
from dovetail_opset.passes.merge_convolutions import MergeConvolutions
from dovetail_opset.passes.merge_matmul_scales import MergeMatmulScales
from dovetail_opset.passes.move_stored import MoveStored
from dovetail_opset.passes.narrow_integers import NarrowIntegers
from dovetail_opset.passes.narrow_types import NARROWER, NarrowTypes
from dovetail_opset.passes.pipeline import Pipeline, ThirdPartyPass
from dovetail_opset.passes.remove_identities import RemoveIdentities
from dovetail_opset.passes.reshape_transposes import ReshapeTransposes
from dovetail_opset.passes.restore_names import RestoreNames
from dovetail_opset.passes.single_ops import SingleOps
from dovetail_opset.passes.slice_gathers import SliceGathers
from dovetail_opset.passes.variant_ops import VariantOps
from dovetail_opset.passes.write_out import WriteOut, can_write_out
from dovetail_opset.passes.zero_biases import ZeroBiases

INTERFACE = Interface()
MERGE_CONVOLUTIONS = MergeConvolutions()
NARROW_TYPES = NarrowTypes(cast_inputs=True)
VARIANT_OPS = VariantOps()
UNUSED_INPUTS = UnusedInputs()
ZERO_BIASES = ZeroBiases()
CONVERT_DEFAULT = Pipeline(
    "convert.default",
    # every other pass knows the single ops alone
    early=(
        DeadCode(),
        SingleOps(),
        FoldConstants(),
        SliceGathers(),
        JoinScatters(),
        RemoveIdentities(),
    ),
    # what is written out with transposes of its own keeps those of the layout from cancelling;
    # only then it is known which flattening still has a transpose before it
    layout=(
        FuseConcat(),
        FuseChannelShuffle(),
        FuseDepthToSpace(),
        FuseGroupNorm(),
        ChannelsLast(),
        FoldFlatten(),
    ),
    fusion=(
        # a LayerNorm holds the RmsNorm of what it centered
        FuseLayerNorm(),
        FuseRmsNorm(),
        FuseL2Norm(),
        FuseHardSwish(),
        # a bias may stand before a batchnorm, and be what is left of one
        FuseBias(),
        FoldBatchnorm(),
        FuseBias(),
        # a scale that a layer took costs nothing there; what is left becomes beta. A scale of keys
        # hides their transpose.
        MergeMatmulScales(),
        FoldTransposedMatmul(),
        FoldSoftmaxScale(),
        FoldReversals(),
    ),
    # what no other pass can move any more; reshapes in a row then become one
    late=(
        NarrowIntegers(),
        CastLast(),
        MoveStored(),
        ReshapeTransposes(),
        JoinAxes(),
        RemoveIdentities(),
        FoldConstants(),
        DeadCode(),
    ),
    final=(RestoreNames(),),
)

__all__ = [
    "COLUMNS_LAST",
    "COLUMNS_MOVED",
    "CONVERT_DEFAULT",
    "INTERFACE",
    "MERGE_CONVOLUTIONS",
    "NARROWER",
    "NARROW_TYPES",
    "RECIPROCAL",
    "UNUSED_INPUTS",
    "VARIANT_OPS",
    "ZERO_BIASES",
    "CastLast",
    "ChannelsLast",
    "DeadCode",
    "DropNanTests",
    "FoldBatchnorm",
    "FoldConstants",
    "FoldFlatten",
    "FoldReversals",
    "FoldSoftmaxScale",
    "FoldTransposedMatmul",
    "FuseBias",
    "FuseChannelShuffle",
    "FuseConcat",
    "FuseDepthToSpace",
    "FuseGroupNorm",
    "FuseHardSwish",
    "FuseL2Norm",
    "FuseLayerNorm",
    "FuseRmsNorm",
    "Interface",
    "JoinAxes",
    "JoinScatters",
    "MergeConvolutions",
    "MergeMatmulScales",
    "MoveStored",
    "NarrowIntegers",
    "NarrowTypes",
    "Pipeline",
    "RemoveIdentities",
    "ReshapeTransposes",
    "RestoreNames",
    "SingleOps",
    "SliceGathers",
    "TensorForm",
    "ThirdPartyPass",
    "UnusedInputs",
    "VariantOps",
    "WriteOut",
    "ZeroBiases",
    "can_write_out",
    "integers_in",
    "multiply_instead",
    "reciprocals_of",
]
