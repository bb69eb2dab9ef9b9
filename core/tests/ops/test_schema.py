"""Registration: both forms of an op's methods, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.errors import OpError, PluginError, UnsupportedOpError
from dovetail.ir import DType, Spec
from dovetail.ops import In, Op, OpPackage, OpRegistry, OpSchema, Out, uint32

F32 = DType.FLOAT_32
X, Y = Spec(F32, (2,)), Spec(F32, (3,))
ONE, TWO = np.ones(2), np.full(3, 2.0)


def registered(ports: tuple[int, int], **methods: object) -> OpSchema:
    """Register an op of (inputs, outputs), the last of each optional if there are two."""
    package = OpPackage("p")
    ins = tuple(In(f"in[{i}]", optional=i > 0) for i in range(ports[0]))
    outs = tuple(Out(f"out[{i}]", optional=i > 0) for i in range(ports[1]))
    package.op("It")(type("It", (Op,), {"inputs": ins, "outputs": outs, **methods}))
    return package.schemas["It"]


def run(schema: OpSchema, ins: list, outs: list) -> tuple[tuple, list]:
    op = schema.op()
    specs = [X, Y][: len(ins)]
    return schema.infer(op, specs, outs), [r.tolist() for r in schema.reference(op, ins, outs)]


def test_one_parameter_for_each_input_and_output() -> None:
    schema = registered(
        (2, 1),
        infer=lambda self, x, y, out: out or x,
        reference=lambda self, x, y: x if y is None else y,
    )
    assert run(schema, [ONE, TWO], [Y]) == ((Y,), [[2, 2, 2]])
    assert schema.infer(schema.op(), [X, Y], [None]) == (X,)
    # what is left out at the end is None, and so is what nothing declares
    assert schema.infer(schema.op(), [X], []) == (X,)
    assert run(schema, [ONE], [X]) == ((X,), [[1, 1]])


def test_infer_is_not_asked_without_an_input_that_must_be_there() -> None:
    schema = registered((2, 1), infer=lambda self, x, y, out: x, reference=lambda self, x, y: x)
    for ins in ([None], [None, Y], []):
        with pytest.raises(OpError, match=r"missing required input in\[0\]"):
            schema.infer(schema.op(), ins, [])


def test_reference_may_ask_for_the_outputs_specs() -> None:
    schema = registered(
        (1, 1), infer=lambda self, x, o: o, reference=lambda self, x, o: np.zeros(o.shape)
    )
    assert run(schema, [ONE], [Y]) == ((Y,), [[0, 0, 0]])


def test_sequences() -> None:
    schema = registered(
        (2, 2),
        infer=lambda self, ins, outs: [s or X for s in outs],
        reference=lambda self, ins, outs: [ins[0], 5.0 if ins[1] is None else ins[1]],
    )
    assert run(schema, [ONE, TWO], [X, Y]) == ((X, Y), [[1, 1], [2, 2, 2]])
    assert run(schema, [ONE], [X, Y])[1] == [[1, 1], 5]


@pytest.mark.parametrize("sequences", [False, True])
def test_an_output_left_out_at_the_end_is_none_and_gives_no_result(sequences: bool) -> None:
    seen = []
    if sequences:

        def reference(self: Op, ins: object, outs: list) -> tuple:
            seen.extend(outs)
            return ONE, TWO
    else:

        def reference(self: Op, x: object, one: object, two: object) -> tuple:  # type: ignore[misc]
            seen.extend([one, two])
            return ONE, TWO

    schema = registered((1, 2), infer=lambda self, x, a, b: (X, Y), reference=reference)
    results = schema.reference(schema.op(), [ONE], [X])
    assert [r.tolist() for r in results] == [[1, 1]]
    assert seen == [X, None]


def test_results_of_numpy_are_results_not_warnings() -> None:
    schema = registered((1, 1), infer=lambda self, x, o: x, reference=lambda self, x: 1 / x)
    op, zero = schema.op(), np.array([0.0, -0.0])
    assert schema.reference(op, [zero], [X])[0].tolist() == [np.inf, -np.inf]


def good(self: Op, x: object, out: object) -> object:
    return x


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"infer": good}, "the op does not define `reference`"),
        ({"reference": good}, "the op does not define `infer`"),
        ({"infer": lambda self, x: x, "reference": good}, r"`infer` takes \['x'\]; expected"),
        (
            {"infer": good, "reference": lambda self, x, y, z: x},
            r"`reference` takes \['x', 'y', 'z'\]; expected \(self, ins, outs\) or one "
            r"parameter for each of 1 input and 1 output",
        ),
        ({"infer": good, "reference": lambda self: None}, r"`reference` takes \[\]"),
        (
            {"infer": good, "reference": good, "inputs": (In("in[0..m]", variadic=True),)},
            r"`infer` takes \['x', 'out'\]; expected \(self, ins, outs\)$",
        ),
        (
            {
                "infer": good,
                "reference": good,
                "inputs": (In("in[0..m]", variadic=True), In("in[1]")),
            },
            "only the last input or output may be variadic",
        ),
        (
            {
                "infer": good,
                "reference": good,
                "outputs": (Out("out[0..m]", variadic=True), Out("out[1]")),
            },
            "only the last input or output may be variadic",
        ),
        (
            {"infer": good, "reference": good, "keeps": uint32(0), "source": uint32(0)},
            "params may not be named 'keeps', 'source'",
        ),
        (
            {"infer": good, "reference": good, "work": lambda self, x: 0},
            r"`work` takes \['x'\]; expected \(self, ins, outs\)",
        ),
    ],
)
def test_a_class_that_does_not_fit_is_refused(methods: dict[str, object], message: str) -> None:
    package = OpPackage("p")
    cls = type("Bad", (Op,), {"inputs": (In("in[0]"),), **methods})
    with pytest.raises(PluginError, match=message) as caught:
        package.op("It")(cls)
    assert caught.value.where.startswith("op p::It (")
    assert "Bad" in caught.value.where
    assert dict(package.schemas) == {}


@pytest.mark.parametrize("count", [-1, 1.5, "many", None])
def test_a_work_that_is_no_count_is_an_error_of_the_plugin(count: object) -> None:
    schema = registered((1, 1), infer=good, reference=good, work=lambda self, ins, outs: count)
    with pytest.raises(PluginError, match="`work` of the op failed") as caught:
        schema.work(schema.op(), [X], [X])
    assert (caught.value.code, caught.value.where) == ("PLUGIN_FAILED", "op p::It")


def test_what_is_no_op_is_refused() -> None:
    with pytest.raises(PluginError, match="not a subclass"):
        OpPackage("p").op("It")(int)  # type: ignore[type-var]


def test_a_name_is_given_once() -> None:
    package = OpPackage("p")
    cls = type("Fine", (Op,), {"inputs": (In("in[0]"),), "infer": good, "reference": good})
    assert package.op("It")(cls) is cls
    with pytest.raises(PluginError, match="duplicate op 'It' in op package 'p'") as caught:
        package.op("It")(cls)
    assert caught.value.code == "PLUGIN_CONFLICT"
    assert package.schemas["It"].full_name == "p::It"


@pytest.mark.parametrize(
    ("name", "ins", "outs", "faults"),
    [
        ("Scale", 1, 1, []),
        ("Scale", 2, 1, []),
        ("Scale", 0, 1, ["has 0 inputs; test.ops::Scale takes 1 to 2"]),
        (
            "Scale",
            3,
            2,
            [
                "has 3 inputs; test.ops::Scale takes 1 to 2",
                "has 2 outputs; test.ops::Scale takes 1",
            ],
        ),
        ("Join", 1, 1, []),
        ("Join", 90, 1, []),
        ("Join", 0, 1, ["has 0 inputs; test.ops::Join takes 1 to any number"]),
        ("Bits", 1, 2, []),
        ("Bits", 1, 0, ["has 0 outputs; test.ops::Bits takes 1 to 2"]),
    ],
)
def test_numbers_of_inputs_and_outputs(
    registry: OpRegistry, name: str, ins: int, outs: int, faults: list[str]
) -> None:
    assert registry.find("test.ops", name).arity_faults(ins, outs) == faults


def test_the_registry_suggests(registry: OpRegistry) -> None:
    with pytest.raises(UnsupportedOpError, match=r"op package 'test\.op' not found") as caught:
        registry.find("test.op", "Scale")
    assert caught.value.code == "BACKEND_ERROR_OP_PACKAGE_NOT_FOUND"
    assert caught.value.hint == "did you mean 'test.ops'?"
    with pytest.raises(UnsupportedOpError, match=r"op 'Scales' not found") as caught:
        registry.find("test.ops", "Scales")
    assert (caught.value.code, caught.value.hint) == ("OP_UNSUPPORTED", "did you mean 'Scale'?")


def test_an_added_package_is_found_listed_and_suggested() -> None:
    registry, mine = OpRegistry.of(OpPackage("installed")), OpPackage("my.ops")
    registry.add(mine)
    registry.add(mine)  # the same again changes nothing
    assert registry.package("my.ops") is mine
    assert [p.name for p in registry] == ["installed", "my.ops"]
    with pytest.raises(UnsupportedOpError) as caught:
        registry.package("my.op")
    assert caught.value.hint == "did you mean 'my.ops'?"


@pytest.mark.parametrize("loaded", [False, True])
def test_two_packages_of_one_name_are_refused(loaded: bool) -> None:
    installed = OpPackage("p")
    registry = OpRegistry.of(installed)
    if loaded:
        registry.package("p")
    with pytest.raises(PluginError, match="duplicate op package 'p'") as caught:
        registry.add(OpPackage("p"))
    assert caught.value.code == "PLUGIN_CONFLICT"
    assert "installed" in caught.value.hint
    assert registry.package("p") is installed


def test_a_package_is_loaded_when_first_asked_for_and_once() -> None:
    loads = []

    def load(name: str) -> OpPackage | None:
        loads.append(name)
        return OpPackage(name) if name == "p" else None

    registry = OpRegistry(load, lambda: ["p"])
    assert loads == []
    assert registry.package("p") is registry.package("p")
    assert loads == ["p"]
