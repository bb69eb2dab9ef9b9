"""The kit catches what it is for: each backend here breaks one promise, and one check says so."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from null_backend import NullBackend
from reference_backend import PACKAGE, BareBackend, ReferenceBackend

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, Tensor
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime import contract
from dovetail.runtime.base import ContextBase, PreparedBase
from dovetail.runtime.contract import (
    Capabilities,
    Fingerprint,
    Image,
    PrepareRequest,
    RunControl,
    Support,
)
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


def nothing(self: object, *arguments: object) -> None:
    """Claims to have done it."""


def empty_image(self: ContextBase, graphs: object) -> Image:
    return Image(Fingerprint(), {})


CACHING = Capabilities(op_packages=True, caching=True)
UPDATES = Capabilities(op_packages=True, updates=True)
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
    "no image": (breaking(able=CACHING), "caching"),
    "an empty image": (breaking(able=CACHING, in_context={"image": empty_image}), "caching"),
    "no update": (breaking(able=UPDATES), "updates"),
    "an update without effect": (breaking(able=UPDATES, update=nothing), "updates"),
    "an image that is refused by accident": (
        breaking(in_context={"image": not_implemented}),
        "caching",
    ),
    "an update that is refused by accident": (breaking(update=not_implemented), "updates"),
    "a restore that nobody claims": (breaking(in_context={"restore": nothing}), "caching"),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_a_broken_promise_is_caught(promise: str) -> None:
    backend, name = PROMISES[promise]
    (check,) = (c for c in CHECKS if c.name == name)
    assert run_check(Bench(ReferenceBackend), check).status is not Status.FAILED
    found = run_check(Bench(backend), check)
    assert found.status is Status.FAILED
    assert found.reason


@each_check
def test_the_wrapper_itself_breaks_nothing(check: Check) -> None:
    assert run_check(Bench(breaking()), check).status is not Status.FAILED


@each_check
def test_the_reference_backend_keeps_all_promises(check: Check) -> None:
    found = run_check(Bench(ReferenceBackend), check)
    closed = {"caching", "updates"}
    assert found.status is (Status.UNSUPPORTED if check.name in closed else Status.PASSED)


@each_check
def test_the_null_backend_keeps_all_promises_but_answers(check: Check) -> None:
    failed = run_check(Bench(NullBackend), check).status is Status.FAILED
    assert failed is (check.area == "failures")


@each_check
def test_what_a_bare_backend_lacks_is_refused_cleanly(check: Check) -> None:
    scale = OpCase("Scale", (np.ones((2, 3), np.float32),), lambda x: x * 2, package="test.ops")
    found = run_check(Bench(BareBackend, cases=[scale], packages=[PACKAGE]), check)
    lacking = check.area == "failures" or (
        check.area == "capabilities" and check.name != "properties_say_the_same"
    )
    assert found.status is (Status.UNSUPPORTED if lacking else Status.PASSED), found.reason


def test_the_sample_is_the_case_with_most_weights() -> None:
    x = np.ones((2, 3), np.float32)
    bare, fed = (OpCase("Halve", (x,), x / 2, package="dovetail.testing", name=n) for n in "ab")
    kept = dataclasses.replace(fed, static=(0,))  # feeds nothing, and so is no sample
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
