"""The named pipeline, and how third parties' passes join it."""

from dataclasses import dataclass

import pytest

from dovetail.errors import PluginError
from dovetail.ir import Graph, Pass
from dovetail_opset.passes import CONVERT_DEFAULT, Pipeline


@dataclass(frozen=True)
class Extra:
    """A third party's pass that does nothing."""

    name: str
    phase: str = "fusion"
    after: str | None = None

    def run(self, graph: Graph) -> bool:
        return False


def names(pipeline: Pipeline, phase: str) -> list[str]:
    return [p.name for p in getattr(pipeline, phase)]


def test_default_is_a_pass_and_has_an_order() -> None:
    assert isinstance(CONVERT_DEFAULT, Pass)
    assert [p.name for p in CONVERT_DEFAULT.passes] == [
        "dead-code",
        "single-ops",
        "fold-constants",
        "slice-gathers",
        "join-scatters",
        "remove-identities",
        "fuse-concat",
        "fuse-channel-shuffle",
        "fuse-depth-to-space",
        "fuse-group-norm",
        "channels-last",
        "fold-flatten",
        "fuse-layer-norm",
        "fuse-rms-norm",
        "fuse-l2-norm",
        "fuse-hard-swish",
        "fuse-bias",
        "fold-batchnorm",
        "fuse-bias",
        "merge-matmul-scales",
        "fold-transposed-matmul",
        "fold-softmax-scale",
        "fold-reversals",
        "narrow-integers",
        "cast-last",
        "move-stored",
        "reshape-transposes",
        "join-axes",
        "remove-identities",
        "fold-constants",
        "dead-code",
        "restore-names",
    ]


def test_extras_join_in_an_order_of_their_own() -> None:
    extras = [
        Extra("b"),
        Extra("a"),
        Extra("d", after="fold-batchnorm"),
        Extra("c", after="fold-batchnorm"),
        Extra("e", after="c"),
        Extra("f", phase="late", after="channels-last"),
        Extra("g", phase="early"),
    ]
    found = CONVERT_DEFAULT.expanded(extras)
    fusion = [
        "fuse-layer-norm",
        "fuse-rms-norm",
        "fuse-l2-norm",
        "fuse-hard-swish",
        "fuse-bias",
        "fold-batchnorm",
        "c",
        "e",
        "d",
        "fuse-bias",
        "merge-matmul-scales",
        "fold-transposed-matmul",
        "fold-softmax-scale",
        "fold-reversals",
        "a",
        "b",
    ]
    assert names(found, "fusion") == fusion
    assert names(found, "late")[0] == "f"
    assert names(found, "early")[-1] == "g"
    assert CONVERT_DEFAULT.expanded(extras[::-1]) == found
    assert CONVERT_DEFAULT.expanded([]) == CONVERT_DEFAULT


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ([Extra("a", after="fold-batch-norm")], "did you mean 'fold-batchnorm'?"),
        ([Extra("a", phase="early", after="fuse-bias")], "runs later than early"),
        ([Extra("a", after="b"), Extra("b", after="a")], "a and b must each run after"),
        ([Extra("fuse-bias")], "duplicate pass name 'fuse-bias'"),
        ([Extra("a"), Extra("a", phase="late")], "duplicate pass name 'a'"),
    ],
)
def test_refusals(extras: list[Extra], said: str) -> None:
    with pytest.raises(PluginError) as caught:
        CONVERT_DEFAULT.expanded(extras)
    assert said in str(caught.value)


def test_passes_that_cannot_join_are_left_out_on_request() -> None:
    left: list[str] = []
    good = [Extra("a"), Extra("c", phase="late")]
    bad = [
        Extra("b", after="nonsense"),
        Extra("e", after="b"),  # waits for one that is left out
        Extra("f", after="g"),
        Extra("g", after="f"),
        Extra("fuse-bias"),
    ]
    found = CONVERT_DEFAULT.expanded(good + bad, lambda each, fault: left.append(each.name))
    assert found == CONVERT_DEFAULT.expanded(good)
    assert sorted(left) == sorted(each.name for each in bad)
