"""The graph's inputs: types from the file, every dimension bound to a number."""

from __future__ import annotations

from collections.abc import Container, Mapping

from onnx import TensorShapeProto, ValueInfoProto

from dovetail.errors import Problem, UnsupportedOpError
from dovetail.ir import DType, Spec
from dovetail_onnx._dtypes import dtype_of, element_type_name
from dovetail_onnx.options import OnnxOptions
from dovetail_opset.importing.constant import MAX_RANK
from dovetail_opset.importing.inputs import Dim, bind_shapes


def bind_inputs(
    inputs: Mapping[str, ValueInfoProto],
    options: OnnxOptions,
    file: str = "FILE",
    *,
    optional: Container[str] = (),
) -> dict[str, Spec]:
    """Return type and static shape of every input.

    Args:
        inputs: As the file states them.
        options: Those that fit the model, see `check_options`.
        file: The model as the user names it, for the hint.
        optional: Inputs to leave out if their type or shape cannot be determined.

    Raises:
        ConfigError: Options contradict each other.
        FrontendError: Dimensions stay without a value (MODEL_SHAPE_UNKNOWN).
        UnsupportedOpError: An input is not a tensor, or has a type that cannot be converted.
    """
    inputs = _of_known_types(inputs, optional)
    dims = {name: dims_of(info) for name, info in inputs.items()}
    shapes = bind_shapes(dims, options, options.symbols, file, optional=optional)
    return {name: Spec(_dtype(inputs[name]), shape) for name, shape in shapes.items()}


def _dtype(info: ValueInfoProto) -> DType:
    found = dtype_of(info.type.tensor_type.elem_type)
    if found is None:
        raise AssertionError(f"the type of input '{info.name}' was not checked")
    return found


def _of_known_types(
    inputs: Mapping[str, ValueInfoProto], optional: Container[str]
) -> dict[str, ValueInfoProto]:
    """Return the inputs without the optional ones of a type that cannot be converted.

    Raises:
        UnsupportedOpError: Others are of such a type.
    """
    reasons = {name: why for name, info in inputs.items() if (why := _unsupported_type(info))}
    problems = [Problem(why, f"input '{n}'") for n, why in reasons.items() if n not in optional]
    if problems:
        raise UnsupportedOpError("the model has inputs that cannot be converted", problems=problems)
    return {name: info for name, info in inputs.items() if name not in reasons}


def _unsupported_type(info: ValueInfoProto) -> str:
    """Return why an input cannot be converted; empty if it can be."""
    kind = info.type.WhichOneof("value")
    code = info.type.tensor_type.elem_type
    if kind != "tensor_type":
        what = "nothing" if kind is None else kind.removesuffix("_type")
        return f"declared as {what}; only tensors can be inputs"
    if dtype_of(code) is None:
        return f"unsupported element type {element_type_name(code)}"
    if (rank := len(info.type.tensor_type.shape.dim)) > MAX_RANK:
        return f"unsupported rank {rank}; the maximum is {MAX_RANK}"
    return ""


def dims_of(info: ValueInfoProto) -> tuple[Dim, ...] | None:
    """Return a tensor's shape as the file declares it; None if its rank is unknown."""
    tensor = info.type.tensor_type
    return tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    # exporters write ? or -1 for what they do not know; two of these need not be equal
    if dim.dim_param and dim.dim_param != "?":
        return dim.dim_param
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
