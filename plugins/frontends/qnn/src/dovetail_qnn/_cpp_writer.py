"""Writing of `X.cpp`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from dovetail.csource.literals import text
from dovetail.csource.scalars import scalar_member
from dovetail.errors import Problem
from dovetail.files import identifier
from dovetail.ir import Graph, Node, Scalar, Tensor
from dovetail_qnn._cpp_source import EXTRAS
from dovetail_qnn._cpp_tensors import TensorText
from dovetail_qnn._description import without_trailing
from dovetail_qnn._extras import Extras
from dovetail_qnn._header import Header
from dovetail_qnn._names import FileNames

_INCLUDES = """\
#include "QnnOpDef.h"
#include "QnnModel.hpp"

#define DO_GRAPH_NODE_VALIDATIONS 1

using namespace qnn_wrapper_api;
"""
_COMPOSE = """\
QNN_API
ModelError_t @PREFIX@_composeGraphs(Qnn_BackendHandle_t backendHandle,
                                    QNN_INTERFACE_VER_TYPE interface,
                                    Qnn_ContextHandle_t contextHandle,
                                    const GraphConfigInfo_t** graphsConfigInfo,
                                    const uint32_t numGraphsConfigInfo,
                                    GraphInfoPtr_t** graphsInfo,
                                    uint32_t* numGraphsInfo,
                                    bool debug,
                                    QnnLog_Callback_t logCallback,
                                    QnnLog_Level_t maxLogLevel) {
  ModelError_t err = MODEL_NO_ERROR;
  QnnModel @MODEL@;
  const QnnGraph_Config_t** graphConfigs = nullptr;
  VALIDATE(getQnnGraphConfigFromInfo(@NAME@, graphsConfigInfo, numGraphsConfigInfo, graphConfigs), err);
  VALIDATE(@MODEL@.initialize(backendHandle, interface, contextHandle, @NAME@, debug, DO_GRAPH_NODE_VALIDATIONS, graphConfigs), err);
"""  # noqa: E501 - lines of C++
_END = """\
  QnnModel* models[] = {&@MODEL@};
  uint32_t numModels = 1;
  VALIDATE(getGraphInfoFromModels(*models, numModels, graphsInfo), err);
  *numGraphsInfo = numModels;
  return err;
}

QNN_API
ModelError_t @PREFIX@_freeGraphsInfo(GraphInfoPtr_t** graphs, uint32_t numGraphsInfo) {
  return qnn_wrapper_api::freeGraphsInfo(graphs, numGraphsInfo);
}

}
"""
_OMITTED = "omitted_input"
PREFIX = "QnnModel"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a version of the SDK.

    Attributes:
        version: The first version.
        tensor_version: Version of the struct of tensors.
        has_functions: Whether each tensor and node has a function of its own.
    """

    version: str
    tensor_version: int
    has_functions: bool


FORM_2_18 = Form("2.18", 1, has_functions=False)
FORM_2_27 = Form("2.27", 2, has_functions=True)


class CppWriter:
    """Writes a graph.

    Args:
        graph: The graph.
        names: Names in the file.
        name: Name of the graph in the file.
        form: The form.
        prefix: Prefix of the names of the functions.

    Attributes:
        problems: All that cannot be expressed.
        order: Names of the graph's tensors in the order in which a reader finds them.
    """

    def __init__(self, graph: Graph, names: FileNames, name: str, form: Form, prefix: str) -> None:
        self._graph = graph
        self._names = names
        self._name = name
        self._form = form
        self._prefix = prefix
        self._model = f"{identifier(name)}_graph"
        self._tensors = TensorText(form.tensor_version)
        self._written = [t for t in graph.tensors.values() if graph.producer(t) is None]
        outputs = [t for node in graph.nodes for t in node.outputs]
        self.order = [names.tensors[t] for t in (*self._written, *outputs)]
        taken = set(names.tensors.values()) | set(names.params.values())
        self._omitted = _OMITTED
        while self._omitted in taken:
            self._omitted += "_"

    @property
    def problems(self) -> list[Problem]:
        """All that cannot be expressed."""
        return self._tensors.problems

    def text(self, extras: Extras | None, header: Header) -> str:
        """Return the text of the file."""
        model = "model" if self._form.has_functions else self._model
        adding: Mapping[str, list[str]] = {
            f"addTensor_{self._names.tensors[t]}": list(self._add_tensor(t, model))
            for t in self._written
        }
        if any(t is None for node in self._graph.nodes for t in without_trailing(node.inputs)):
            lines = list(self._tensors.omitted(self._omitted, model))
            adding = {**adding, f"addTensor_{self._omitted}": lines}
        adding = {
            **adding,
            **{
                f"addNode_{self._names.nodes[node]}": list(self._add_node(node, model))
                for node in self._graph.nodes
            },
        }
        return "\n".join(self._lines(adding, extras, header))

    def _lines(
        self, adding: Mapping[str, list[str]], extras: Extras | None, header: Header
    ) -> Iterator[str]:
        yield from _head(header)
        if extras is not None:
            json = msgspec.json.encode({self._name: extras}).decode()
            yield f"{EXTRAS.decode()}{json}"
        yield _INCLUDES
        if self._form.has_functions:
            yield f'const char* QNN_SDK_VERSION = "qaisw-v{self._form.version}.0";\n'
        yield 'extern "C" {\n'
        if self._form.has_functions:
            for function, lines in adding.items():
                yield f"static ModelError_t {function}(QnnModel& model) {{"
                yield "  ModelError_t err = MODEL_NO_ERROR;"
                yield from (f"  {line}" for line in lines)
                yield "  return err;\n}\n"
        yield self._filled(_COMPOSE)
        for function, lines in adding.items():
            if self._form.has_functions:
                yield f"  VALIDATE({function}({self._model}), err);"
            else:
                yield from (f"  {line}" for line in lines)
        yield self._filled(_END)

    def _filled(self, template: str) -> str:
        filled = template.replace("@MODEL@", self._model).replace("@NAME@", text(self._name))
        return filled.replace("@PREFIX@", self._prefix)

    def _add_tensor(self, tensor: Tensor, model: str) -> Iterator[str]:
        name = self._names.tensors[tensor]
        struct = yield from self._tensors.struct(tensor, name, has_binary=tensor.kind.is_static)
        yield f"VALIDATE({model}.addTensor({text(name)}, {struct}), err);"

    def _add_node(self, node: Node, model: str) -> Iterator[str]:
        name = self._names.nodes[node]
        params = []
        for key, param in node.params.items():
            if isinstance(param, Scalar):
                scalar = (
                    f"(Qnn_Scalar_t){{QNN_DATATYPE_{param.dtype.name}, {{{scalar_member(param)}}}}}"
                )
                kind, value = "SCALAR", f".scalarParam= {scalar}"
            else:
                struct = yield from self._tensors.struct(param, self._names.params[node, key])
                kind, value = "TENSOR", f".tensorParam= {struct}"
            params.append(f"{{.paramType=QNN_PARAMTYPE_{kind}, .name={text(key)}, {{{value}}}}}")
        inputs = [
            text(self._omitted if t is None else self._names.tensors[t])
            for t in without_trailing(node.inputs)
        ]
        outputs = []
        for tensor in node.outputs:
            outputs.append((yield from self._tensors.struct(tensor, self._names.tensors[tensor])))
        arrays = []
        for kind, stem, items in (
            ("Qnn_Param_t", "params", params),
            ("const char*", "inputs", inputs),
            ("Qnn_Tensor_t", "outputs", outputs),
        ):
            yield from _array(kind, f"{stem}_{name}", items)
            arrays.append(f"{stem}_{name}" if items else "nullptr")
            arrays.append(str(len(items)))
        head = ", ".join((text(name), text(node.package), text(node.op_type)))
        given = ", ".join(("QNN_OPCONFIG_VERSION_1", head, *arrays))
        yield f"VALIDATE({model}.addNode({given}), err);"


def _head(header: Header) -> Iterator[str]:
    """Yield the comment at the head; no line of the user's text ends it or is read as extras."""
    if header.copyright:
        yield "// Copyright:"
        yield from (f"//   {line}" for line in header.copyright.splitlines())
    if header.version:
        yield f"// Model version: {header.version}"
    yield f"// Command line used: {header.command}"


def _array(kind: str, name: str, items: list[str]) -> Iterator[str]:
    """Yield the declaration of an array, which must not be empty in C++."""
    if items:
        yield f"{kind} {name}[] = {{"
        yield from (f"  {item}," for item in items)
        yield "};"
