"""ONNX's own backend interface over the frontend, the passes and a backend of Dovetail.

    import dovetail_onnx.backend as backend

    prepared = backend.prepare(onnx.load("model.onnx"))
    outputs = prepared.run([x])

`onnx.backend.test.BackendTest(dovetail_onnx.backend)` runs ONNX's test suite on it.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend, BackendRep

from dovetail.api import Session
from dovetail.errors import BackendError, DovetailError, FrontendError
from dovetail.ir import Array, Graph
from dovetail.ops.frontend import InputsNeededError
from dovetail_onnx._dtypes import as_bytes, from_stored, to_stored
from dovetail_onnx._frontend import OnnxFrontend
from dovetail_onnx.options import OnnxOptions

__all__ = [
    "DovetailBackend",
    "PreparedModel",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

BACKEND = "cpu"


class PreparedModel(BackendRep):
    """A model ready to run.

    It is converted when it is first run: for the shapes of the arrays that are given, and for the
    values of those inputs that decide shapes or attributes.

    Args:
        model: The model; external data cannot be found.
        backend: Name of the backend that runs it.
    """

    def __init__(self, model: ModelProto, backend: str = BACKEND) -> None:
        constants = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [i.name for i in model.graph.input if i.name not in constants]
        self._outputs = [o.name for o in model.graph.output]
        self._types = {o.name: o.type.tensor_type.elem_type for o in model.graph.output}
        # a frontend reads files, as the user's models are
        folder = tempfile.mkdtemp(prefix="dovetail-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = Path(folder) / "model.onnx"
        self._path.write_bytes(model.SerializeToString())
        self._backend = backend
        self._session: Session | None = None
        self._constant_inputs: tuple[str, ...] = ()

    @property
    def constant_inputs(self) -> tuple[str, ...]:
        """The inputs whose values the last run's conversion needed."""
        return self._constant_inputs

    def check(self) -> None:
        """Read the model without the values of inputs, if possible.

        Raises:
            DovetailError: It cannot be converted, and knowing inputs would not help.
        """
        try:
            OnnxFrontend().read(self._path)
        except InputsNeededError:
            pass
        except FrontendError as error:
            if error.code != "MODEL_SHAPE_UNKNOWN":
                raise

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs in the model's order and types.

        Args:
            inputs: Arrays in the model's types: in its inputs' order, or by name.
            kwargs: None are known.

        Raises:
            DovetailError: The model cannot be converted or run, or the inputs do not fit it.
        """
        feeds = self._by_name(inputs)
        if self._session is None:
            self._session = Session(self._path, backend=self._backend, specialize=self._inputs)
        with self._session.specialized(feeds) as graph:
            self._constant_inputs = self._session.constant_inputs
            given = {t.name: to_stored(feeds[t.name], t.dtype) for t in graph.inputs}
            found = graph.execute(given)
            by_name = {
                name: from_stored(found[t.name], t.dtype, self._types[name])
                for name, t in zip(dict.fromkeys(self._outputs), graph.outputs, strict=True)
            }
        return tuple(by_name[name] for name in self._outputs)

    def read(self, inputs: Any) -> Graph:
        """Return the graph before any pass; inputs known to determine it are constants.

        Args:
            inputs: As in `run`.

        Raises:
            DovetailError: The model cannot be converted, or the inputs do not fit it.
        """
        feeds = self._by_name(inputs)
        options = OnnxOptions(
            input_dims={n: a.shape for n, a in feeds.items() if n not in self._constant_inputs},
            input_values={n: feeds[n] for n in self._constant_inputs},
        )
        (graph,) = OnnxFrontend().read(self._path, options)
        return graph

    def close(self) -> None:
        """Free the prepared graphs; a later run prepares them again."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _by_name(self, inputs: Any) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self._inputs):
                raise BackendError(
                    f"expected {len(self._inputs)} inputs, got {len(inputs)}",
                    code="INPUT_INVALID",
                    hint=f"the inputs are {', '.join(self._inputs) or 'none'}",
                )
            inputs = dict(zip(self._inputs, inputs, strict=True))
        return {name: as_bytes(np.asarray(values)) for name, values in inputs.items()}


class DovetailBackend(Backend):
    """Dovetail as a backend of ONNX's: all models on the CPU backend."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether a model can be converted, maybe with the values of some inputs known."""
        if not cls.supports_device(device):
            return False
        try:
            PreparedModel(model).check()
        except DovetailError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Return a model ready to run.

        Raises:
            BackendError: There is no such device.
            DovetailError: The model cannot be converted, whatever its inputs are.
        """
        if not cls.supports_device(device):
            raise BackendError(f"device '{device}' not found", hint="the only device is CPU")
        prepared = PreparedModel(model)
        prepared.check()
        return prepared

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Return a model's outputs; see `prepare` and `PreparedModel.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of one node.

        Args:
            node: The node.
            inputs: Arrays for those of its inputs that it names, in order.
            device: As in `prepare`.
            outputs_info: Not needed.
            kwargs: `opset_version`, by default the newest that ONNX knows.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = dict.fromkeys(filter(None, node.input))
        graph = helper.make_graph(
            [node],
            node.op_type,
            [_info(name, np.asarray(a)) for name, a in zip(names, inputs, strict=True)],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        _declare_types(model)
        return cls.run_model(model, inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether there is such a device; only CPU is."""
        return device.split(":")[0] == "CPU"


def _info(name: str, values: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    return helper.make_tensor_value_info(name, kind, values.shape)


def _declare_types(model: ModelProto) -> None:
    """Set the element types of a model's outputs that follow from ONNX's rules."""
    inferred = onnx.shape_inference.infer_shapes(model)
    for output, known in zip(model.graph.output, inferred.graph.output, strict=True):
        if code := known.type.tensor_type.elem_type:
            output.type.tensor_type.elem_type = code


# names that ONNX's test suite requires of a backend's module
is_compatible = DovetailBackend.is_compatible
prepare = DovetailBackend.prepare
run_model = DovetailBackend.run_model
run_node = DovetailBackend.run_node
supports_device = DovetailBackend.supports_device
