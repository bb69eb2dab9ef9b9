"""Contracts of entry-point groups: what they demand is what core uses, and shapes that differ."""

from __future__ import annotations

import importlib
import inspect
import logging
from typing import Any

import pytest
from typer import Typer

from dovetail.api.architecture import ArchitectureRule
from dovetail.api.inspection import Inspector
from dovetail.api.recording import Recorder
from dovetail.calibration import RangeEstimator
from dovetail.errors import PluginError
from dovetail.ir import Pass
from dovetail.ops.exporter import Exporter
from dovetail.ops.frontend import Frontend
from dovetail.plugins import COMMAND_HELP, GROUPS, list_plugins, load, load_all, load_usable, probe
from dovetail.quantization import QuantizationAlgorithm, Quantizer
from dovetail.runtime import contract
from dovetail.verification import Verifier

PROTOCOLS = {
    "dovetail.architecture_rules": ArchitectureRule,
    "dovetail.backends": contract.Backend,
    "dovetail.frontends": Frontend,
    "dovetail.exporters": Exporter,
    "dovetail.passes": Pass,
    "dovetail.range_estimators": RangeEstimator,
    "dovetail.inspectors": Inspector,
    "dovetail.quantizers": Quantizer,
    "dovetail.recorders": Recorder,
    "dovetail.quantization_algorithms": QuantizationAlgorithm,
    "dovetail.verifiers": Verifier,
}


def members_of(protocol: type) -> set[str]:
    """Return a protocol's members as a contract spells them, without a constructor."""
    found = set(inspect.get_annotations(protocol))
    for name, value in vars(protocol).items():
        if isinstance(value, property):
            found.add(name)
        elif inspect.isfunction(value) and not name.startswith("_"):
            _self, *parameters = inspect.signature(value).parameters
            found.add(f"{name}({', '.join(parameters)})")
    return found


@pytest.mark.parametrize("group", PROTOCOLS)
def test_contract_has_the_members_of_the_protocol(group: str) -> None:
    declared = {m for m in GROUPS[group].members if not m.startswith("__init__")}
    assert declared == members_of(PROTOCOLS[group])


@pytest.mark.parametrize("group", [g for g in GROUPS if GROUPS[g].type])
def test_contract_names_a_type_that_exists(group: str) -> None:
    module, _, name = GROUPS[group].type.rpartition(".")
    assert isinstance(getattr(importlib.import_module(module), name), type)


def test_every_installed_plugin_meets_its_contract() -> None:
    found = [p for p in list_plugins() if p.group != COMMAND_HELP]
    assert found
    assert [(p.name, p.reason) for p in (probe(q.group, q.name) for q in found) if p.reason] == []


ESTIMATOR = "class thing:\n    def observe(self, batch): ...\n    def range(self): ...\n"
VERIFIER = "class thing:\n    def finish(self): ...\n    def update({}): ...\n"
BACKEND = """
class thing:
    name = "{name}"
    configs = object
    def __init__(self, ops, options{init}): ...
    def capabilities(self): ...
    def platform(self): ...
    def validate(self, {validate}): ...
    def open_context(self, device, config, weights): ...
    def fingerprint(self, device): ...
    {close}
"""
GOOD_BACKEND = {
    "name": "odd",
    "init": "",
    "validate": "node, device, config",
    "close": "def close(self): ...",
}
KERNELS = """
from dovetail.runtime.plan import KernelRegistry
thing = KernelRegistry("{backend}")
thing.register("{package}", "Thing")(print)
"""
PASS = """
class Thing:
    name = "odd"
    phase, after = "late", None
    def run(self, {parameters}): ...
thing = Thing()
"""
FRONTEND = """
from dovetail.ops.frontend import FrontendOptions

class Needy(FrontendOptions, frozen=True, kw_only=True):
    size: int

class thing:
    name, suffixes, options_type = "odd", (), {options}
    def recognises(self, path): ...
    def read(self, path, options, ops): ...
    def dry_run(self, path, options, ops): ...
"""
HOOKS = """
from dovetail.plugins.hookspecs import hookimpl
class Thing:
    @hookimpl
    def dovetail_{hook}(self, event): ...
thing = Thing()
"""
ODD = [
    ("op_packages", "odd", "thing = 3", "expected an OpPackage, got an object of type int"),
    (
        "op_packages",
        "odd",
        "from dovetail.ops import OpPackage\nthing = OpPackage('even')",
        "'name' is 'even', but the entry point is named 'odd'",
    ),
    ("backends", "odd", "def thing(ops): ...", "expected a Backend class, got an object of type"),
    (
        "backends",
        "odd",
        BACKEND.format(**GOOD_BACKEND | {"name": "even"}),
        "'name' is 'even', but the entry point is named 'odd'",
    ),
    (
        "backends",
        "odd",
        BACKEND.format(**GOOD_BACKEND | {"close": "", "validate": "node"}),
        "'validate' takes (self, node); expected 'validate(node, device, config)'; "
        "missing 'close()'",
    ),
    (
        "backends",
        "odd",
        BACKEND.format(**GOOD_BACKEND | {"init": ", path"}),
        "'__init__' takes (ops, options, path); expected '__init__(ops, options)'",
    ),
    ("kernels", "cpu:odd", "thing = {}", "expected a KernelRegistry, got an object of type dict"),
    (
        "kernels",
        "cpu:odd",
        KERNELS.format(backend="gpu", package="odd"),
        "'backend' is 'gpu', but the entry point is named 'cpu:odd'",
    ),
    (
        "kernels",
        "cpu:odd",
        KERNELS.format(backend="cpu", package="even"),
        "kernels for other packages: even",
    ),
    (
        "kernels",
        "odd",
        KERNELS.format(backend="cpu", package="odd"),
        "the entry point's name 'odd' must have 2 parts around ':'",
    ),
    (
        "frontends",
        "odd",
        "class thing: ...",
        "missing 'name', 'suffixes', 'options_type', 'recognises(path)'",
    ),
    (
        "frontends",
        "odd",
        FRONTEND.format(options="dict"),
        "'options_type' must be FrontendOptions or a class derived from it, got <class 'dict'>",
    ),
    (
        "frontends",
        "odd",
        FRONTEND.format(options="Needy"),
        "every field of 'options_type' must have a default: Missing required argument 'size'",
    ),
    ("importers", "onnx:odd", "thing = 3", "missing 'domain'"),
    ("exporters", "odd", "class thing: ...", "missing 'name', 'suffix', 'options_type', "),
    ("models", "odd", "thing = 3", "expected the path of a model, got an object of type int"),
    ("models", "odd", "import pathlib\nthing = pathlib.Path('none.dvt')", "is not a file"),
    ("passes", "odd", "def thing(graph): ...", "missing 'name', 'run(graph)'"),
    ("passes", "odd", PASS.format(parameters=""), "'run' takes (); expected 'run(graph)'"),
    (
        "passes",
        "odd",
        PASS.format(parameters="graph").replace("thing = Thing()", "thing = Thing"),
        "expected a graph pass, got the class Thing",
    ),
    (
        "passes",
        "odd",
        PASS.format(parameters="graph").replace("phase, after", "phase, _"),
        "missing 'after'",
    ),
    ("range_estimators", "odd", "class thing:\n    range = print", "missing 'observe(batch)'"),
    (
        "range_estimators",
        "odd",
        ESTIMATOR + "    def __init__(self, percent): ...",
        "'__init__' takes (percent); expected '__init__()'",
    ),
    (
        "range_estimators",
        "odd",
        ESTIMATOR + "    observe = 3",
        "'observe' cannot be called; expected 'observe(batch)'",
    ),
    ("quantizers", "odd", "class thing: ...", "missing 'quantize(model, calibration, options"),
    (
        "quantization_algorithms",
        "odd",
        "class thing:\n    name = 'odd'\n    def rewrite(self, work): ...",
        "missing 'observe(graph, ops)', 'choose(work)', 'refine(work)'",
    ),
    ("verifiers", "odd", "def thing(golden): ...", "expected a Verifier class, got an object"),
    ("verifiers", "odd", "class thing:\n    finish = print", "missing 'update'"),
    (
        "verifiers",
        "odd",
        VERIFIER.format("self, golden, target, third"),
        "(take two arrays for each tensor: update(self, golden, target))",
    ),
    (
        "verifiers",
        "odd",
        VERIFIER.format("self, golden, target") + "    def __init__(self, limit=1): ...",
        "parameters of a verifier are keywords with defaults",
    ),
    ("hooks", "odd", "thing = 3", "no hook is implemented"),
    ("hooks", "odd", HOOKS.format(hook="api_cal"), "did you mean 'dovetail_api_call'?"),
    ("commands", "odd", "def thing(): ...", "expected a typer app, got an object of type function"),
]


@pytest.mark.parametrize(("group", "name", "source", "reason"), ODD)
def test_plugin_of_another_shape_is_broken(
    site: Any, caplog: Any, group: str, name: str, source: str, reason: str
) -> None:
    group = f"dovetail.{group}"
    site.module("odd_plugin", source)
    site.dist("odd-dist", {group: {name: "odd_plugin:thing"}})
    with pytest.raises(PluginError) as caught:
        load(group, name)
    assert caught.value.code == "PLUGIN_BROKEN"
    assert reason in caught.value.message
    assert caught.value.where == f"{group} '{name}' (dist odd-dist 1.0)"
    assert (probe(group, name).status, reason in probe(group, name).reason) == ("broken", True)
    with caplog.at_level(logging.WARNING):
        assert load_usable(group, name) is None
        assert name not in load_all(group)
    assert len([r for r in caplog.records if "odd-dist" in r.getMessage()]) == 1


@pytest.mark.parametrize(
    ("group", "name", "source"),
    [
        ("backends", "odd", BACKEND.format(**GOOD_BACKEND)),
        # static and class methods take no `self`; `*` parameters take anything
        (
            "backends",
            "odd",
            BACKEND.format(
                **GOOD_BACKEND
                | {
                    "prepare": "*given, **more",
                    "restore": "@staticmethod\n    def restore(image, weights): ...",
                }
            ),
        ),
        (
            "kernels",
            "cpu:no.such.package",
            KERNELS.format(backend="cpu", package="no.such.package"),
        ),
        ("passes", "odd", PASS.format(parameters="graph, level=1")),
        ("frontends", "odd", FRONTEND.format(options="FrontendOptions")),
        ("range_estimators", "odd", ESTIMATOR),
        ("verifiers", "odd", VERIFIER.format("self, golden, target")),
        ("verifiers", "odd", VERIFIER.format("self, boxes, found_boxes, classes, found_classes")),
        ("hooks", "odd", HOOKS.format(hook="progress")),
    ],
)
def test_plugin_of_the_right_shape_loads(site: Any, group: str, name: str, source: str) -> None:
    site.module("right_plugin", source)
    site.dist("right-dist", {f"dovetail.{group}": {name: "right_plugin:thing"}})
    assert load(f"dovetail.{group}", name) is not None


def test_typer_is_the_contract_of_commands() -> None:
    assert GROUPS["dovetail.commands"].faults(Typer(), "any") == []
