"""The kit catches what it is for: each backend here breaks one promise, and one check says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from choosy_backend import ChoosyBackend
from foreign_backend import ForeignBackend, ForeignContext
from null_backend import NullBackend
from partial_backends import LeftBackend, PartialPrepared
from recording_backend import RecordingBackend
from reference_backend import PACKAGE, BareBackend, ReferenceBackend
from sections_backend import SectionsBackend, SectionsPrepared
from spaced_backend import SpacedBackend, SpacedPrepared

from dovetail.container import WeightStore
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, Tensor, copy_graph
from dovetail.ops import CheckedGraph, NodeView, check_ops
from dovetail.runtime import EventType, ProfileEvent, contract
from dovetail.runtime.base import ContextBase, PreparedBase
from dovetail.runtime.contract import (
    Capabilities,
    Fingerprint,
    Image,
    PrepareRequest,
    Restored,
    RunControl,
    Support,
    Watch,
)
from dovetail.runtime.interface import Interface
from dovetail.testing import CHECKS, Bench, Call, Check, OpCase, Status, run_case, run_check
from dovetail.testing.ops import HALVE

each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
ABLE = Capabilities(op_packages=True, cancel=True, watch=True, asynchronous=True)


class Through(PreparedBase):
    """A prepared graph that does what the one inside it does."""

    def __init__(self, inner: contract.Prepared, graph: CheckedGraph) -> None:
        self.inner = inner
        self.graph = graph

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        self.inner.run(inputs, outputs, control)

    def unbind(self) -> None:
        self.inner.unbind()

    def update(self, tensors: Sequence[Tensor]) -> None:
        self.inner.update(tensors)


class Broken(ReferenceBackend):
    """The reference backend, with a prepared graph that breaks something."""

    name = "broken"
    prepared: type[Through] = Through
    context: type[ContextBase] = ContextBase
    able = ABLE

    def capabilities(self) -> Capabilities:
        return self.able

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> ContextBase:
        return self.context(self, device, config, weights)

    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase) -> Any:
        return self.prepared(super().prepare(graph, request, context), graph)


def breaking(
    run: Any = None, able: Capabilities = ABLE, in_context: Any = None, **methods: Any
) -> type[Broken]:
    """Create a backend whose prepared graphs have another `run`, or other methods.

    Args:
        run: The method of prepared graphs.
        able: The capabilities.
        in_context: Methods of contexts by name.
        methods: Other methods of prepared graphs.
    """
    if run is not None:
        methods["run"] = run
    members = {
        "prepared": type("P", (Through,), methods),
        "context": type("C", (ContextBase,), in_context or {}),
        "able": able,
    }
    return type("Broken", (Broken,), members)


def off_by_one(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    self.inner.run(inputs, outputs, control)
    for array in outputs.values():
        array += 1


def half_written(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    fresh = {name: np.empty_like(array) for name, array in outputs.items()}
    self.inner.run(inputs, fresh, control)
    for name, array in outputs.items():
        array.reshape(-1)[:-1] = fresh[name].reshape(-1)[:-1]


def in_place(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    for array in inputs.values():
        array *= 1
    self.inner.run(inputs, outputs, control)


def remembering(self: Any, inputs: Any, outputs: Any, control: RunControl) -> None:
    self.kept = getattr(self, "kept", None) or {n: a.copy() for n, a in inputs.items()}
    self.inner.run(self.kept, outputs, control)


def wearing_out(self: Any, inputs: Any, outputs: Any, control: RunControl) -> None:
    self.inner.run(inputs, outputs, control)
    self.runs = getattr(self, "runs", 0) + 1
    for array in outputs.values():
        array *= self.runs


SHARED: dict[str, Array] = {}


def sharing(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    """Every second graph gets the first one's inputs."""
    kept = SHARED if self.graph.name == "other" else dict(inputs)
    if self.graph.name == "one":
        SHARED.update({n: a.copy() for n, a in inputs.items()})
    self.inner.run(kept, outputs, control)


def swallowing(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    try:
        self.inner.run(inputs, outputs, control)
    except BackendError:
        control.check()


def bare(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    try:
        self.inner.run(inputs, outputs, control)
    except BackendError as error:
        raise error.__cause__ or error from None


def nameless(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    try:
        self.inner.run(inputs, outputs, control)
    except BackendError as error:
        error.where = ""
        raise


def deaf(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    self.inner.run(inputs, outputs, RunControl(control.watch))


def blind(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    watch, control.watch = control.watch, None
    try:
        self.inner.run(inputs, outputs, control)
    finally:
        control.watch = watch


def main_thread_only(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise BackendError("not in this thread")
    self.inner.run(inputs, outputs, control)


def not_implemented(self: Through, *arguments: object) -> None:
    raise NotImplementedError


class RenamesNodes(Broken):
    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase) -> Any:
        made = super().prepare(graph, request, context)
        graph.nodes[0].node.sources = ("elsewhere",)
        return made


class RefusesOthers(Broken):
    """Takes packages and then refuses their ops."""

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        return Support(False, "package", "package", node.package, ("own",))


class RefusesOpaque(RecordingBackend):
    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        return Support(not node.is_opaque, "package", "package", node.package, ("own",))


def nothing(self: object, *arguments: object) -> None:
    """Claims to have done it."""


def empty_image(self: ContextBase, graphs: object) -> Image:
    return Image(Fingerprint(), {})


# -- contexts ------------------------------------------------------------------------------------


class OneForAll(Broken):
    """Contexts of a handle share graphs by name."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.kept: dict[str, Any] = {}

    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase) -> Any:
        made = super().prepare(graph, request, context)
        return self.kept.setdefault(graph.name, made)


class Shutter(Broken):
    """Closing a context ends all."""

    is_open = True

    class Closes(ContextBase):
        def close(self) -> None:
            Shutter.is_open = False

    context = Closes

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> ContextBase:
        Shutter.is_open = True
        return super().open_context(device, config, weights)

    class Fails(Through):
        def run(self, inputs: Any, outputs: Any, control: RunControl) -> None:
            if not Shutter.is_open:
                raise BackendError("closed")
            super().run(inputs, outputs, control)

    prepared = Fails


LEAKED: list[object] = []


def leaking(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    LEAKED.append(outputs)
    self.inner.run(inputs, outputs, control)


class LeavesThreads(Broken):
    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        threading.Thread(target=STOP.wait, args=(20,), daemon=True, name="left").start()


STOP = threading.Event()


def unclosable(self: object) -> None:
    raise OSError("busy")


# -- preparation ---------------------------------------------------------------------------------


class OnceStopped(Broken):
    """A stopped preparation spoils the context."""

    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: Any) -> Any:
        if request.control.limited:
            context.spoilt = True
        made = super().prepare(graph, request, context)
        if getattr(context, "spoilt", False):
            raise BackendError("spoilt")
        return made


class WrongEvents(Broken):
    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase) -> Any:
        if request.record is not None:
            request.record(ProfileEvent(EventType.NODE, "packing", -1.0))
        return super().prepare(graph, request, context)


class RoundsObserved(Broken):
    """Keeps more values, and computes others."""

    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase) -> Any:
        made = super().prepare(graph, request, context)
        return breaking(off_by_one).prepared(made.inner, graph) if graph.observed else made


class Hides(Watch):
    def __init__(self, inner: Watch) -> None:
        self.inner = inner

    def step_finished(self, nodes: Any, microseconds: float, outputs: Any) -> None:
        self.inner.step_finished(nodes, microseconds, {n: outputs[n] for n in outputs if n != "t1"})


def hiding(self: Through, inputs: Any, outputs: Any, control: RunControl) -> None:
    if control.watch is not None:
        control.watch = Hides(control.watch)
    self.inner.run(inputs, outputs, control)


# -- images and updates --------------------------------------------------------------------------


def foreign(**methods: Any) -> type[ForeignBackend]:
    """Create a foreign backend whose contexts have other methods."""
    context = type("C", (ForeignContext,), methods)
    opened = {"open_context": lambda self, *settings: context(self, *settings)}
    return type("BrokenForeign", (ForeignBackend,), opened)


def objects(self: ForeignContext, graphs: Any) -> Image:
    image = ForeignContext.image(self, graphs)
    return msgspec.structs.replace(image, graphs={name: object() for name in graphs})


def unstamped(self: ForeignContext, graphs: Any) -> Image:
    return msgspec.structs.replace(ForeignContext.image(self, graphs), fingerprint=Fingerprint())


def trusting(self: ForeignContext, image: Image, graph: Any, request: Any) -> Any:
    own = self.backend.fingerprint(self.device)
    return ForeignContext.restore(
        self, msgspec.structs.replace(image, fingerprint=own), graph, request
    )


def crashing(self: ForeignContext, image: Image, graph: Any, request: Any) -> Any:
    try:
        return ForeignContext.restore(self, image, graph, request)
    except ContainerError as error:
        raise KeyError("steps") from error


def needing(self: ForeignContext, image: Image, graph: Any, request: Any) -> Any:
    graph("case")
    return ForeignContext.restore(self, image, graph, request)


def without_outputs(self: ForeignContext, image: Image, graph: Any, request: Any) -> Any:
    found = ForeignContext.restore(self, image, graph, request)
    return {
        name: Restored(Interface(name, each.interface.inputs, {}), each.prepared)
        for name, each in found.items()
    }


def choosy(**methods: Any) -> type[LeftBackend]:
    """Create a backend with binaries and sections whose prepared graphs have other methods."""
    broken = type("P", (PartialPrepared,), methods)
    return type("BrokenLeft", (LeftBackend,), {"prepared": broken})


def updating(
    prepared: type[SectionsPrepared] = SectionsPrepared, **methods: Any
) -> type[SectionsBackend]:
    """Create a backend with updates and sections whose prepared graphs have other methods."""
    broken = type("P", (prepared,), methods)
    return type("BrokenSections", (SectionsBackend,), {"prepared": broken})


class DataAlone(SectionsPrepared):
    """Keeps the first encodings."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.first = {t.name: t.encoding for t in self.graph.tensors.values()}

    def update(self, tensors: Sequence[Tensor]) -> None:
        own = copy_graph(self.graph)
        for tensor in own.tensors.values():
            tensor.encoding = self.first[tensor.name]
        self.plan = self._planned(check_ops(own, self.backend.ops))


def once(self: Any, tensors: Sequence[Tensor]) -> None:
    if not self.updated:
        SectionsPrepared.update(self, tensors)


def whole_sections_alone(self: SectionsPrepared, names: Any) -> Image:
    every = [t.name for t in self.graph.tensors.values()]
    image = SectionsPrepared.section(self, every)
    # a section of no tensors takes back an update
    old = {name: np.zeros_like(array) for name, array in image.blobs.items()}
    return image if names else msgspec.structs.replace(image, blobs=old)


# -- spaces and overlap --------------------------------------------------------------------------


def spaced(**methods: Any) -> type[SpacedBackend]:
    """Create a spaced backend whose prepared graphs have other methods."""
    prepared = type("P", (SpacedPrepared,), methods)

    def prepare(self: SpacedBackend, *arguments: Any) -> SpacedPrepared:
        made = SpacedBackend.prepare(self, *arguments)
        return prepared(made.graph, made.device, made.constants)

    return type("BrokenSpaced", (SpacedBackend,), {"prepare": prepare})


def ending_twice(self: Any, inputs: Any, outputs: Any, control: Any, done: Any) -> None:
    def ended(error: BaseException | None) -> None:
        done(error)
        done(error)

    SpacedPrepared.submit(self, inputs, outputs, control, ended)


def raising(self: Any, inputs: Any, outputs: Any, control: Any, done: Any) -> None:
    errors: list[BaseException | None] = []
    PreparedBase.submit(self, inputs, outputs, control, errors.append)
    if errors[0] is not None:
        raise errors[0]
    done(None)


def ending_early(self: Any, inputs: Any, outputs: Any, control: Any, done: Any) -> None:
    done(None)
    time.sleep(0.01)
    SpacedPrepared.submit(self, inputs, outputs, control, lambda _: None)


def copied_memory(self: ContextBase, descriptor: Any) -> Any:
    return descriptor.array.copy()


CACHING = Capabilities(op_packages=True, caching=True)
UPDATES = Capabilities(op_packages=True, updates=True)
HANDLES = Capabilities(op_packages=True, memory_handles=True)
PROMISES: dict[str, tuple[type[contract.Backend], str]] = {
    "wrong answers": (breaking(off_by_one), "ops_of_others_give_their_answer"),
    "wrong chains": (breaking(off_by_one), "chains_give_their_answer"),
    "half an output": (breaking(half_written), "outputs_are_written_in_place_and_whole"),
    "written inputs": (breaking(in_place), "inputs_are_never_written"),
    "inputs of the first run": (breaking(remembering), "runs_do_not_see_each_other"),
    "inputs of another graph": (breaking(sharing), "graphs_do_not_see_each_other"),
    "another graph": (RenamesNodes, "preparing_leaves_the_graph_alone"),
    "one thread": (breaking(main_thread_only), "threads_share_a_graph"),
    "one thread for each": (breaking(main_thread_only), "threads_have_their_own_graphs"),
    "no queue": (breaking(main_thread_only), "asynchronous"),
    "a swallowed error": (breaking(swallowing), "an_op_that_fails_is_an_error"),
    "a swallowed error of a queue": (
        breaking(swallowing),
        "an_op_that_fails_in_the_queue_is_an_error",
    ),
    "a foreign error": (breaking(bare), "an_op_that_fails_is_an_error"),
    "an error of no node": (breaking(nameless), "an_op_that_fails_is_an_error"),
    "no stop": (breaking(deaf), "cancel"),
    "no watch": (breaking(blind), "watch"),
    "no other package": (RefusesOthers, "op_packages"),
    "graphs shared by contexts": (OneForAll, "contexts_have_their_own_constants"),
    "one context that ends all": (Shutter, "contexts_do_not_see_each_other"),
    "a graph that cannot be closed": (breaking(close=unclosable), "closing_raises_nothing"),
    "a context that cannot be closed": (
        breaking(in_context={"close": unclosable}),
        "closing_raises_nothing",
    ),
    "buffers that are kept": (breaking(leaking), "nothing_is_kept_of_a_closed_graph"),
    "a thread that is left": (LeavesThreads, "freeing_ends_all_work"),
    "a preparation that spoils others": (OnceStopped, "preparations_can_be_stopped"),
    "impossible times": (WrongEvents, "preparations_can_be_profiled"),
    "other results when observed": (RoundsObserved, "observed_tensors_are_received"),
    "a tensor that is not observed": (breaking(hiding), "observed_tensors_are_received"),
    "a binary without outputs": (foreign(restore=without_outputs), "binaries_restore_contexts"),
    "graphs to load without outputs": (
        foreign(restore=without_outputs),
        "binaries_load_what_is_enabled",
    ),
    "a section of a binary without effect": (
        choosy(apply=nothing),
        "sections_of_contexts_are_applied",
    ),
    "no image": (breaking(able=CACHING), "images_are_plain_data"),
    "an empty image": (
        breaking(able=CACHING, in_context={"image": empty_image}),
        "images_are_plain_data",
    ),
    "objects in an image": (foreign(image=objects), "images_are_plain_data"),
    "an image without fingerprint": (foreign(image=unstamped), "images_are_plain_data"),
    "any fingerprint": (foreign(restore=trusting), "damaged_images_are_rejected"),
    "a foreign error for damage": (foreign(restore=crashing), "damaged_images_are_rejected"),
    "a model that is needed": (foreign(restore=needing), "graphs_are_restored_without_their_model"),
    "an interface without outputs": (
        foreign(restore=without_outputs),
        "restored_graphs_return_the_same",
    ),
    "an update without effect": (breaking(able=UPDATES, update=nothing), "updated_data_are_used"),
    "an update without effect on graphs": (
        updating(update=nothing),
        "updates_are_used_after_finalize",
    ),
    "one update": (updating(update=once), "updated_data_are_used"),
    "an update of data alone": (updating(prepared=DataAlone), "updated_encodings_are_used"),
    "a section without effect": (updating(apply=nothing), "sections_hold_what_was_updated"),
    "a section of more tensors": (
        updating(section=whole_sections_alone),
        "sections_hold_what_was_updated",
    ),
    "a run that ends twice": (spaced(submit=ending_twice), "submitted_runs_end_once"),
    "a run that ends early": (spaced(submit=ending_early), "submitted_runs_end_once"),
    "overlapped runs that end early": (
        spaced(submit=ending_early),
        "overlapped_runs_end_before_their_context",
    ),
    "a stop that is raised": (spaced(submit=raising), "submitted_runs_can_be_stopped"),
    "an error that is raised": (
        spaced(submit=raising),
        "an_op_that_fails_in_a_submitted_run_is_an_error",
    ),
    "memory that is copied": (
        breaking(able=HANDLES, in_context={"register_memory": copied_memory}),
        "registered_memory_mixes_with_arrays",
    ),
    "memory that is read once": (
        breaking(able=HANDLES, in_context={"register_memory": copied_memory}),
        "memory_types_do_not_change_results",
    ),
    "memory that stays in use": (
        breaking(able=HANDLES, unbind=lambda _: None),
        "deregistered_memory_is_released",
    ),
    "opaque nodes that are refused": (RefusesOpaque, "opaque_ops"),
    "an image that is refused by accident": (
        breaking(in_context={"image": not_implemented}),
        "images_are_plain_data",
    ),
    "a section that is refused by accident": (
        breaking(section=not_implemented),
        "sections_hold_what_was_updated",
    ),
    "a restore that nobody claims": (
        breaking(in_context={"restore": nothing}),
        "images_are_plain_data",
    ),
}


SOUND = (ReferenceBackend, SpacedBackend, ForeignBackend)
# Promises of areas that judge backends, and that core keeps for them.
OF_CORE = {"contexts_are_freed_once", "registered_memory_belongs_to_its_context"}


@pytest.mark.parametrize("promise", PROMISES)
def test_a_broken_promise_is_caught(promise: str) -> None:
    backend, name = PROMISES[promise]
    (check,) = (c for c in CHECKS if c.name == name)
    for sound in SOUND:
        assert run_check(Bench(sound), check).status is not Status.FAILED
    STOP.clear()
    found = run_check(Bench(backend), check)
    STOP.set()
    assert found.status is Status.FAILED
    assert found.reason


def test_each_check_can_fail() -> None:
    """Other checks of the life cycle, capabilities and errors judge core, which has own tests."""
    missed = {c.name for c in CHECKS} - {name for _, name in PROMISES.values()}
    judging_core = {c.name for c in CHECKS if c.area in {"life cycle", "errors", "capabilities"}}
    assert missed - judging_core == OF_CORE


@each_check
def test_the_wrapper_itself_breaks_nothing(check: Check) -> None:
    assert run_check(Bench(breaking()), check).status is not Status.FAILED


# Backend -> areas and checks for which it lacks the capabilities.
SMALL = {
    ReferenceBackend: {
        "images",
        "binaries",
        "updates",
        "opaque_ops",
        "overlapped_runs_end_before_their_context",
    },
    ChoosyBackend: {
        "images",
        "binaries",
        "updates",
        "opaque_ops",
        "overlapped_runs_end_before_their_context",
    },
    NullBackend: {
        "opaque_ops",
        "overlapped_runs_end_before_their_context",
        "graphs_are_restored_without_their_model",
    },
    SpacedBackend: {
        "images",
        "binaries",
        "updates",
        "opaque_ops",
        "watch",
        "priority",
        "observed_tensors_are_received",
    },
    RecordingBackend: {
        "images",
        "binaries",
        "updates",
        "watch",
        "asynchronous",
        "priority",
        "memory_handles",
        "observed_tensors_are_received",
        "registered_memory_mixes_with_arrays",
        "registered_memory_belongs_to_its_context",
        "memory_types_do_not_change_results",
        "deregistered_memory_is_released",
        "overlapped_runs_end_before_their_context",
        "an_op_that_fails_in_the_queue_is_an_error",
    },
    ForeignBackend: {
        "contexts_have_their_own_constants",
        "updates",
        "opaque_ops",
        "watch",
        "asynchronous",
        "priority",
        "memory_handles",
        "observed_tensors_are_received",
        "sections_hold_what_was_updated",
        "sections_of_contexts_are_applied",
        "registered_memory_mixes_with_arrays",
        "registered_memory_belongs_to_its_context",
        "memory_types_do_not_change_results",
        "deregistered_memory_is_released",
        "overlapped_runs_end_before_their_context",
        "an_op_that_fails_is_an_error",
        "an_op_that_fails_in_the_queue_is_an_error",
        "an_op_that_fails_in_a_submitted_run_is_an_error",
    },
}


@each_check
@pytest.mark.parametrize("backend", SMALL)
def test_the_small_backends_keep_all_promises(
    backend: type[contract.Backend], check: Check
) -> None:
    found = run_check(Bench(backend), check)
    if SMALL[backend] & {check.name, check.area}:
        assert found.status is Status.UNSUPPORTED, found.reason
    elif check.area == "failures" and backend in (NullBackend, RecordingBackend):
        assert found.status is Status.FAILED  # they compute nothing
    else:
        assert found.status is Status.PASSED, found.reason


@pytest.mark.parametrize("area", ["updates", "images"])
def test_the_backend_with_sections_keeps_its_promises(area: str) -> None:
    found = {c.name: run_check(Bench(SectionsBackend), c) for c in CHECKS if c.area == area}
    wanted = {"sections_hold_what_was_updated"} if area == "images" else set(found)
    assert {name for name in found if found[name].status is Status.PASSED} == wanted


# Checks that a backend without capabilities cannot pass.
CLOSED = {
    *(c.name for c in CHECKS if c.area == "capabilities" and c.name != "properties_say_the_same"),
    "preparations_can_be_stopped",
    "observed_tensors_are_received",
    "registered_memory_mixes_with_arrays",
    "registered_memory_belongs_to_its_context",
    "memory_types_do_not_change_results",
    "deregistered_memory_is_released",
    "submitted_runs_can_be_stopped",
    "overlapped_runs_end_before_their_context",
}


@each_check
def test_what_a_bare_backend_lacks_is_refused_cleanly(check: Check) -> None:
    scale = OpCase("Scale", (np.ones((2, 3), np.float32),), lambda x: x * 2, package="test.ops")
    found = run_check(Bench(BareBackend, cases=[scale], packages=[PACKAGE]), check)
    areas = {"failures", "images", "binaries", "updates"}
    lacking = check.area in areas or check.name in CLOSED
    assert found.status is (Status.UNSUPPORTED if lacking else Status.PASSED), found.reason


def test_the_sample_is_the_case_with_most_weights() -> None:
    x = np.ones((2, 3), np.float32)
    bare, fed = (OpCase("Halve", (x,), x / 2, package="dovetail.testing", name=n) for n in "ab")
    kept = msgspec.structs.replace(fed, static=(0,))  # feeds nothing, and so is no sample
    assert Bench(ReferenceBackend, cases=[kept, bare]).sample.case is bare
    assert Bench(ReferenceBackend).sample.case is CASE


def test_a_backend_without_capabilities_needs_a_case() -> None:
    bench = Bench(breaking(able=Capabilities()))
    (check,) = (c for c in CHECKS if c.name == "runs_do_not_see_each_other")
    found = run_check(bench, check)
    assert found.status is Status.FAILED
    assert "--cases" in found.reason


CASE: OpCase = HALVE[0]


class PreparesNothing(Broken):
    def prepare(self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase) -> Any:
        raise BackendError("not after all", code="GRAPH_ERROR_FINALIZE_FAILED")


class RefusesInSilence(Broken):
    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        return Support(ok=False)


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (breaking(off_by_one), "out[0]: 12 of 12 elements differ"),
        (NullBackend, "elements differ"),
        (breaking(wearing_out), "in a second run, out[0]"),
        (breaking(in_place), "read-only"),
        (breaking(not_implemented), "raised NotImplementedError"),
        (PreparesNothing, "not after all"),
        (RefusesInSilence, "has no rule"),
    ],
)
def test_a_case_fails_for_the_right_reason(backend: type[contract.Backend], reason: str) -> None:
    found = run_case(Bench(backend), CASE)
    assert found.status is Status.FAILED
    assert reason in found.reason


def test_a_case_that_is_refused_in_full_is_unsupported() -> None:
    found = run_case(Bench(RefusesOthers), CASE)
    assert (found.status, found.reason) == (
        Status.UNSUPPORTED,
        "package: package is dovetail.testing; allowed: own",
    )
    assert run_case(Bench(ReferenceBackend), CASE).status is Status.PASSED


def test_later_calls_are_judged_too() -> None:
    x = np.ones((2, 3), np.float32)
    for expected, status in ((x, Status.PASSED), (x / 2, Status.FAILED)):
        later_calls = (Call((x * 2,), expected),)
        case = OpCase("Halve", (x,), x / 2, package="dovetail.testing", later_calls=later_calls)
        found = run_case(Bench(ReferenceBackend), case)
        assert found.status is status
        assert ("in call 2, out[0]" in found.reason) is (status is Status.FAILED)
