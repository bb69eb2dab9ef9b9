"""Mutated context binaries: changed manifests, plans and models with correct checksums."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np

from dovetail.api.preparation import backend_of
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ContainerError, DovetailError
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import Backend, Context
from dovetail_opset.build import add, static
from fuzz.containers import Parts, change, sealed
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.seeds import Seed
from fuzz.trial import FaultError

_BYTES = 0.1  # of the files are damaged without new checksums
_MOST_BYTES = 16 << 20  # inputs of a graph that is run
_BACKENDS = ("cpu", "htp", "hetero:cpu")


def context_seeds() -> list[Seed]:
    """Return contexts of small graphs on several backends, and sections of them."""
    seeds = []
    for name in _BACKENDS:
        with Backend.create(name) as backend:
            context = backend.create_context()
            graphs = [_network("first", 1), _network("second", 2)]
            producer = Producer("fuzz", "1")
            context.compose(Model.of(*graphs, producer=producer, registry=installed_ops()))
            _add_state(context)
            for graph in context.graphs.values():
                graph.finalize()
            seeds.append(Seed(f"{name} with models", context.get_binary().tobytes()))
            graph = context.graphs["first"]
            graph.update_tensor(graph.retrieve_tensor("w"), np.ones((16, 16), np.float32))
            graph.finalize()
            seeds.append(Seed(f"{name} section", context.get_binary_section().tobytes()))
            bare = backend.create_context()
            bare.compose(Model.of(*graphs, producer=producer, registry=installed_ops()))
            for handle in bare.graphs.values():
                handle.finalize()
            binary = bare.get_binary(embed_model=False).tobytes()
            seeds.append(Seed(f"{name} without models", binary))
    return seeds


def _network(name: str, seed: int) -> Graph:
    graph = Graph(name)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 6, 6, 8), TensorKind.APP_WRITE))
    random = np.random.default_rng(seed)
    k = static(graph, "k", random.standard_normal((3, 3, 8, 16), np.float32))
    conv = add(graph, "Conv2d", [x, k], name="conv", stride=(1, 1), pad_amount=((1, 1), (1, 1)))
    y = add(graph, "Relu", [conv], name="relu")
    w = static(graph, "w", random.standard_normal((16, 16), np.float32))
    w.kind = TensorKind.UPDATEABLE_STATIC
    y = add(graph, "MatMul", [y, w], name="product")
    if seed > 1:  # a step that is made again
        y = add(graph, "ElementWiseSin", [y], name="sin")
    add(graph, "Relu", [y], name="y").kind = TensorKind.APP_READ
    return graph


def _add_state(context: Context) -> None:
    """Add two graphs that exchange a context tensor."""
    state = context.create_tensor("state", DType.FLOAT_32, (4, 8))
    writer, reader = context.create_graph("write"), context.create_graph("read")
    x = writer.create_tensor("x", DType.FLOAT_32, (4, 8), TensorKind.APP_WRITE)
    writer.add_node("n", "qti.aisw", "Relu", [x], [state])
    y = reader.create_tensor("y", DType.FLOAT_32, (4, 8), TensorKind.APP_READ)
    reader.add_node("n", "qti.aisw", "Relu", [state], [y])


def mutate_context(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a context binary or a section."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    if random.random() < _BYTES:
        return Mutated(seed.name, ("bytes",), damage(seed.data, random))
    parts = Parts.of(seed.data)
    graph = random.choice(parts.manifest["graphs"])
    what = random.choice(("manifest", "manifest", "plan", "plan", "model", "weights"))
    index = graph.get(what)
    if what == "weights":
        index = random.choice([*parts.manifest["names"].values()])
        parts.replace(index, damage(parts.blobs[index], random))
    elif index is None:
        what = "manifest"
    else:
        value = parts.json(index)
        for _ in range(random.choice((1, 1, 2))):
            change(value, random)
        parts.replace(index, json.dumps(value).encode())
    if what == "manifest":
        for _ in range(random.choice((1, 1, 2, 3))):
            change(parts.manifest, random)
    raw = json.dumps(parts.manifest).encode()
    return Mutated(seed.name, (what,), sealed(parts.kind, raw, parts.blobs))


class _Bases:
    """Contexts to which sections are applied, by backend; each is created once."""

    def __init__(self) -> None:
        self._seeds: list[Seed] | None = None

    def binary(self, backend: str) -> bytes:
        """Return the context of a backend."""
        if self._seeds is None:
            self._seeds = context_seeds()
        return next(s.data for s in self._seeds if s.name == f"{backend} with models")


_BASES = _Bases()


def load_context(path: Path) -> None:
    """Create a context, run its graphs, update a tensor, and write it again.

    Raises:
        DovetailError: The binary is rejected.
        FaultError: Something else is wrong.
    """
    data = path.read_bytes()
    try:
        name, _ = backend_of(data)
    except ContainerError as error:
        if error.code == "CONTAINER_KIND":
            _apply(data)
            return
        raise
    if name not in ("cpu", "htp", "hetero"):
        raise ContainerError(f"a backend '{name}'")
    # its options were mutated, too: those of the seeds show more
    given = {} if name != "hetero" else {"order": ["cpu"]}
    with Backend.create(name, given) as backend:
        backend.validate_binary(data)
        for config in ({}, {"memory_limit_hint": 0}):
            try:
                context = backend.create_context_from_binary(data, config=config)
            except BackendError as error:
                if error.code != "CONTEXT_ERROR_UNSUPPORTED_FEATURE":
                    raise
                raise ContainerError("steps need the model", code=error.code) from error
            _use(context)
            context.free()


def _apply(data: bytes) -> None:
    with Backend.create("cpu") as backend:
        context = backend.create_context_from_binary(_BASES.binary("cpu"))
        before = _outputs(context)
        try:
            context.apply_binary_section(data)
        except DovetailError as error:
            if any(map(np.any, np.subtract(before, _outputs(context)))):
                raise FaultError("a rejected section has changed the graphs") from error
            raise
        _use(context)


def _outputs(context: Context) -> list[Array]:
    feeds = {"x": np.ones((1, 6, 6, 8), np.float32)}
    return [context.graphs[name].execute(feeds)["y"] for name in ("first", "second")]


def _use(context: Context) -> None:
    """Call all that a context offers; an error of ours that names its reason is none."""
    for graph in context.graphs.values():
        ends = graph.interface.inputs
        if sum(end.nbytes for end in ends.values()) > _MOST_BYTES:
            continue
        if sum(math.prod(end.shape) for end in graph.interface.outputs.values()) > _MOST_BYTES:
            continue
        with suppress(DovetailError):
            graph.execute({n: np.zeros(end.shape, end.storage) for n, end in ends.items()})
    for graph in context.graphs.values():
        with suppress(DovetailError):
            tensor = graph.retrieve_tensor("w")
            graph.update_tensor(tensor, np.zeros(tensor.ir.shape, np.float32))
            graph.finalize()
    for call in (context.get_binary, context.get_binary_section):
        with suppress(DovetailError):
            call()
