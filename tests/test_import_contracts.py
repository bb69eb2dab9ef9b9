"""The import contracts: they cover every package, and each forbidden import makes them fail."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from workspace import ROOT, find_dists, read_toml

LINTER = read_toml(ROOT / "pyproject.toml")["tool"]["importlinter"]
PACKAGES = [package for dist in find_dists() for package in dist.packages]


def names_in(lines: Iterable[str]) -> set[str]:
    """Take the module names out of a contract's layers: `a | b` is two of them."""
    return {name.strip(" ()") for line in lines for name in line.replace(":", "|").split("|")}


CORE_LAYERS = names_in(
    line
    for contract in LINTER["contracts"]
    if contract.get("containers") == ["dovetail"]
    for line in contract["layers"]
)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_in_a_contract(package: str) -> None:
    layered = [c for c in LINTER["contracts"] if c["type"] == "layers" and "containers" not in c]
    assert package in LINTER["root_packages"]
    assert any(package in names_in(contract["layers"]) for contract in layered)


def test_contracts_name_no_package_that_is_gone() -> None:
    assert sorted(LINTER["root_packages"]) == sorted(PACKAGES)


def lint(workspace: Path, imports: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run our contracts on a model of the workspace: all its packages, only these imports."""
    modules = {f"{package}.__init__": "" for package in PACKAGES}
    modules |= {f"dovetail.{layer}": "" for layer in CORE_LAYERS}
    modules |= {f"{package}.part": "" for package in PACKAGES if package != "dovetail"}
    for module, text in (modules | imports).items():
        path = workspace.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    config = workspace / "pyproject.toml"
    config.write_bytes((ROOT / "pyproject.toml").read_bytes())
    # The linter looks in the working directory first, so it sees the model, not the workspace.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    return subprocess.run(
        [*command, "--config", str(config)],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_lawful_imports_keep_the_contracts(tmp_path: Path) -> None:
    lawful = {
        "dovetail.cli": "import dovetail.api",
        "dovetail.testing": "import dovetail.runtime, dovetail.ops, dovetail.plugins",
        "dovetail.ir": "import dovetail.typed, dovetail.files, dovetail.errors",
        "dovetail.typed": "import dovetail.errors",
        "dovetail_opset.part": "import dovetail.ops",
        "dovetail_numpy.part": "import dovetail_opset, dovetail.runtime",
        "dovetail_onednn.part": "import dovetail_numpy, dovetail.runtime",
        "dovetail_cpu.part": "import dovetail_numpy, dovetail_onednn, dovetail.runtime",
        "dovetail_htp.part": "import dovetail_numpy, dovetail_onednn, dovetail.runtime",
        "dovetail_onnx.part": "import dovetail_opset, dovetail.ir",
        "dovetail_qnn.part": "import dovetail_opset, dovetail.ops",
        "dovetail_qnn_names.part": "import dovetail.cli, dovetail.plugins",
        "dovetail_quantizers.part": "import dovetail_opset, dovetail.quantization, dovetail.cli",
        "dovetail_saver.part": "import dovetail.runtime, dovetail.cli",
        "dovetail_tools.part": "import dovetail.api",
        "dovetail_verifiers.part": "import dovetail.verification",
    }
    done = lint(tmp_path, lawful)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("dovetail.ir", "dovetail.ops"),
        ("dovetail.plugins", "dovetail.container"),
        ("dovetail.runtime", "dovetail.api"),
        ("dovetail.runtime", "dovetail.testing"),
        ("dovetail.cli", "dovetail.testing"),
        ("dovetail.errors", "dovetail.files"),
        ("dovetail.runtime", "dovetail_cpu"),
        ("dovetail.api", "dovetail_opset"),
        ("dovetail_opset.part", "dovetail_onednn"),
        ("dovetail_numpy.part", "dovetail_onednn"),
        ("dovetail_onnx.part", "dovetail_numpy"),
        ("dovetail_onnx.part", "dovetail_onednn"),
        ("dovetail_qnn.part", "dovetail_numpy"),
        ("dovetail_qnn.part", "dovetail_onnx"),
        ("dovetail_qnn_names.part", "dovetail_qnn"),
        ("dovetail_qnn_names.part", "dovetail_tools"),
        ("dovetail_tools.part", "dovetail_cpu"),
        ("dovetail_tools.part", "dovetail_quantizers"),
        ("dovetail_quantizers.part", "dovetail_onnx"),
        ("dovetail_quantizers.part", "dovetail_verifiers"),
        ("dovetail_verifiers.part", "dovetail_quantizers"),
        ("dovetail_verifiers.part", "dovetail_numpy"),
        ("dovetail_quantizers.part", "dovetail_onednn"),
        ("dovetail.quantization", "dovetail.runtime"),
        ("dovetail_cpu.part", "dovetail_onnx"),
        ("dovetail_cpu.part", "dovetail_htp"),
        ("dovetail_saver.part", "dovetail_onednn"),
        ("dovetail_saver.part", "dovetail_cpu"),
        ("dovetail_htp.part", "dovetail_cpu"),
    ],
)
def test_unlawful_import_breaks_a_contract(tmp_path: Path, module: str, imported: str) -> None:
    done = lint(tmp_path, {module: f"import {imported}"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_core_module_outside_the_layers_breaks_a_contract(tmp_path: Path) -> None:
    done = lint(tmp_path, {"dovetail.stray": ""})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "stray" in done.stdout + done.stderr
