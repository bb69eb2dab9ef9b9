"""The installed op packages as one registry."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.errors import PluginError, UnsupportedOpError
from dovetail.ops import OpPackage
from dovetail.plugins import refresh
from dovetail.plugins.ops import installed_ops

GROUP = "dovetail.op_packages"
PACKAGE = """
from dovetail.ops import In, Op, OpPackage

package = OpPackage("{name}")

@package.op("Same")
class Same(Op):
    inputs = (In("in[0]"),)

    def infer(self, x, out):
        return x

    def reference(self, x):
        return x
"""


def test_installed_package_is_found_by_its_name(site: Any) -> None:
    site.module("ops_plugin", PACKAGE.format(name="my.ops"))
    site.dist("ops-dist", {GROUP: {"my.ops": "ops_plugin:package"}})
    ops = installed_ops()
    assert ops.find("my.ops", "Same").full_name == "my.ops::Same"
    mine = OpPackage("mine")
    ops.add(mine)
    assert ops.package("mine") is mine
    with pytest.raises(UnsupportedOpError):  # what was added by hand is nobody else's
        installed_ops().package("mine")
    refresh()
    assert installed_ops() is not ops


def test_missing_package_is_an_unsupported_op(site: Any) -> None:
    site.dist("ops-dist", {GROUP: {"my.ops": "nowhere:package"}})
    with pytest.raises(UnsupportedOpError, match=r"op package 'your\.ops' not found"):
        installed_ops().package("your.ops")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("package = 3", "expected an OpPackage, got an object of type int"),
        (PACKAGE.format(name="other"), "'name' is 'other', but the entry point"),
        ("raise ImportError('no libfoo')", "no libfoo"),
    ],
)
def test_broken_package_is_refused_and_not_stumbled_over(
    site: Any, source: str, reason: str
) -> None:
    site.module("bad_ops_plugin", source)
    site.module("good_ops_plugin", PACKAGE.format(name="good.ops"))
    site.dist("bad-ops", {GROUP: {"bad.ops": "bad_ops_plugin:package"}})
    site.dist("good-ops", {GROUP: {"good.ops": "good_ops_plugin:package"}})
    with pytest.raises(PluginError, match=reason) as caught:
        installed_ops().package("bad.ops")
    assert caught.value.code == "PLUGIN_BROKEN"
    all_names = {package.name for package in installed_ops()}
    assert "good.ops" in all_names
    assert all_names.isdisjoint({"bad.ops", "other"})
