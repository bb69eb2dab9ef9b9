"""ONNX's own backend interface over the frontend, the passes and a backend of Dovetail.

    import dovetail_onnx.backend as backend

    prepared = backend.prepare(onnx.load("model.onnx"))
    outputs = prepared.run([x])

`onnx.backend.test.BackendTest(dovetail_onnx.backend)` runs ONNX's test suite on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend, BackendRep

from dovetail.errors import BackendError, DovetailError
from dovetail.ir import Array
from dovetail_onnx._dtypes import from_stored, to_stored
from dovetail_onnx._refusals import InputsNeededError
from dovetail_onnx._specialize import Specializer

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

    It is converted when it is first run: inputs that decide shapes or attributes become constants
    of the values that are given, once for each set of these.

    Args:
        model: The model.
        backend: Name of the backend that runs it.
    """

    def __init__(self, model: ModelProto, backend: str = BACKEND) -> None:
        constants = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [i.name for i in model.graph.input if i.name not in constants]
        self._outputs = [o.name for o in model.graph.output]
        self._specializer = Specializer(model, backend)

    def check(self) -> None:
        """Converts the model with no input known, if that can be done.

        Raises:
            DovetailError: It cannot be converted, and knowing inputs would not help.
        """
        with contextlib.suppress(InputsNeededError):
            self._specializer.session({})

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Gives the outputs in the model's order and types.

        Args:
            inputs: Arrays in the model's types: in its inputs' order, or by name.
            kwargs: None are known.

        Raises:
            DovetailError: The model cannot be converted or run, or the inputs do not fit it.
        """
        feeds = self._by_name(inputs)
        session = self._specializer.session(feeds)
        (graph,) = session.graphs.values()
        tensors = {t.name: t for t in graph.inputs}
        given = {n: to_stored(a, tensors[n].dtype) for n, a in feeds.items() if n in tensors}
        found = session.run(given, native=True)
        by_name = {
            name: from_stored(found[t.name], t.dtype)
            for name, t in zip(dict.fromkeys(self._outputs), graph.outputs, strict=True)
        }
        return tuple(by_name[name] for name in self._outputs)

    @property
    def decisive(self) -> tuple[str, ...]:
        """The inputs whose values were needed for the conversion, as far as is known by now."""
        return self._specializer.decisive

    def specialized(self, inputs: Any) -> ModelProto:
        """Gives the model with the inputs that decide shapes as constants, as far as is known.

        Args:
            inputs: As in `run`.
        """
        feeds = self._by_name(inputs)
        return self._specializer.proto({name: feeds[name] for name in self.decisive})

    def close(self) -> None:
        """Frees what the runs have prepared; a later run prepares it again."""
        self._specializer.close()

    def _by_name(self, inputs: Any) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self._inputs):
                raise BackendError(
                    f"{len(inputs)} inputs are given; the model has {len(self._inputs)}",
                    code="INPUT_INVALID",
                    hint=f"its inputs are {', '.join(self._inputs) or 'none'}",
                )
            inputs = dict(zip(self._inputs, inputs, strict=True))
        return {name: np.asarray(values) for name, values in inputs.items()}


class DovetailBackend(Backend):
    """Dovetail as a backend of ONNX's: all models on the CPU backend."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether a model can be converted, maybe with the values of some inputs known."""
        if not cls.supports_device(device):
            return False
        try:
            PreparedModel(model).check()
        except DovetailError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Gives a model ready to run.

        Raises:
            BackendError: There is no such device.
            DovetailError: The model cannot be converted, whatever its inputs are.
        """
        if not cls.supports_device(device):
            raise BackendError(f"there is no device '{device}'", hint="the only one is CPU")
        prepared = PreparedModel(model)
        prepared.check()
        return prepared

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Gives a model's outputs; see `prepare` and `PreparedModel.run`."""
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
        """Gives the outputs of one node.

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
        return cls.run_model(model, inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a device; only CPU is."""
        return device.split(":")[0] == "CPU"


def _info(name: str, values: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    return helper.make_tensor_value_info(name, kind, values.shape)


# what ONNX's test suite asks of a backend's module
is_compatible = DovetailBackend.is_compatible
prepare = DovetailBackend.prepare
run_model = DovetailBackend.run_model
run_node = DovetailBackend.run_node
supports_device = DovetailBackend.supports_device
