"""`dovetail op-package-generator`: what it writes, replaces, asks and refuses."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dovetail_tools.op_definitions import read_definitions

XML = """\
<OpDefCollection PackageName="Shop.Ops" Domain="org.shop" Version="0.3">
  <OpDefList>
    <OpDef>
      <Name>Shrink</Name>
      <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Constraint id="0" Type="Value">Not negative.</Constraint></Input>
      <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output>
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""
SCALE = "Scale(in x: float32 [n, c], out y [n, 2 * c], param by: float32 = 2)"
GENERATOR = ("op-package-generator",)


@pytest.fixture
def xml() -> str:
    Path("shop.xml").write_text(XML)
    return "shop.xml"


def tree(folder: str = ".") -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def test_a_dist_for_a_file(run: Any, xml: str) -> None:
    done = run(*GENERATOR, "--config_path", xml, "--output_path", "made")
    assert done.code == 0, done.err
    assert "op package Shop.Ops with Shrink" in done.out
    assert "Shrink  6     input 'x': constraint (Value): Not negative." in done.out
    root = Path("made/shop-ops")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == ("shop-ops", "0.3")
    assert "dovetail-core>=0.1,<0.2" in project["dependencies"]
    assert project["entry-points"] == {
        "dovetail.op_packages": {"Shop.Ops": "shop_ops.ops:PACKAGE"},
        "dovetail.kernels": {"cpu:Shop.Ops": "shop_ops.kernels:CPU_KERNELS"},
        "dovetail.importers": {"onnx:org.shop": "shop_ops.importers:IMPORTERS"},
    }
    assert "Not negative." in (root / "README.md").read_text()
    assert "Not negative." in (root / "src/shop_ops/ops.py").read_text()
    assert [p.name for p in Path("made").iterdir()] == ["shop-ops"]


def test_json_lists_what_was_written_and_what_is_not_expressed(run: Any, xml: str) -> None:
    done = run(*GENERATOR, "-p", xml, "--json")
    (package,) = done.data["packages"]
    assert (package["package"], package["dist"], package["ops"]) == (
        "Shop.Ops",
        "shop-ops",
        ["Shrink"],
    )
    assert package["unexpressed"] == [
        {"op": "Shrink", "line": 6, "text": "input 'x': constraint (Value): Not negative."}
    ]
    files = {p.relative_to("shop-ops").as_posix() for p in Path("shop-ops").rglob("*.*")}
    assert set(package["files"]) <= files


def test_several_files_each_a_dist_or_none(run: Any, xml: str) -> None:
    Path("more.xml").write_text(XML.replace("Shop.Ops", "more"))
    assert run(*GENERATOR, "-p", xml, "-p", "more.xml", "-o", "made").code == 0
    assert {p.name for p in Path("made").iterdir()} == {"more", "shop-ops"}
    done = run(*GENERATOR, "-p", xml, "-p", xml, "-o", "twice")
    assert done.code == 2
    assert "two op packages would be written to twice/shop-ops" in done.err
    Path("bad.xml").write_text(XML.replace("<Name>x</Name>", ""))
    Path("worse.xml").write_text(XML.replace("FLOAT_32", "FLOAT_3"))
    done = run(*GENERATOR, "-p", xml, "-p", "bad.xml", "-p", "worse.xml", "-o", "none")
    assert done.code == 2
    assert "bad.xml:5" in done.err
    assert "worse.xml:5" in done.err
    assert not Path("none").exists()


# -- what is there already -----------------------------------------------------------------------


def test_what_is_there_is_replaced_only_by_force(run: Any, xml: str) -> None:
    assert run(*GENERATOR, "-p", xml).code == 0
    before = tree()
    done = run(*GENERATOR, "-p", xml)
    assert done.code == 3
    assert "shop-ops: the folder exists (--force-generation (-f) replaces it)" in done.err
    assert tree() == before
    Path(xml).write_text(XML.replace("Shrink", "Grow"))
    Path("shop-ops/tests/__pycache__").mkdir()
    Path("shop-ops/tests/__pycache__/cases.pyc").write_bytes(b"what a tool left")
    assert run(*GENERATOR, "-p", xml, "-f").code == 0
    assert 'op("Grow")' in Path("shop-ops/src/shop_ops/ops.py").read_text()
    assert {p.name for p in Path().iterdir()} == {"shop.xml", "shop-ops"}


@pytest.mark.parametrize("where", ["src/shop_ops/ops.py", "notes.txt", ".dovetail-op-package.json"])
def test_somebodys_work_is_moved_aside(run: Any, xml: str, where: str) -> None:
    for number in (1, 2):
        assert run(*GENERATOR, "-p", xml, "-f").code == 0
        path = Path("shop-ops", where)
        path.write_text(f"{path.read_text() if path.exists() else ''}# work {number}\n")
    done = run(*GENERATOR, "-p", xml, "-f")
    assert done.code == 0
    assert "has changes; it was renamed to shop-ops.old-2" in done.err
    for number in (1, 2):
        kept = Path(f"shop-ops.old-{number}", where).read_text()
        assert kept.endswith(f"# work {number}\n")
    assert "# work" not in Path("shop-ops/src/shop_ops/ops.py").read_text()


def test_foreign_folders_are_never_replaced(run: Any, xml: str) -> None:
    Path("shop-ops").mkdir()
    assert run(*GENERATOR, "-p", xml).code == 0, "an empty one is in nobody's way"
    for name in ("a", "b"):
        Path(name, "shop-ops").mkdir(parents=True)
    Path("a/shop-ops/mine.txt").write_text("mine")
    Path("b/shop-ops").rmdir()
    Path("b/shop-ops").symlink_to(Path("shop-ops").absolute())
    before = tree()
    for folder, why in (("a", "files of other origin"), ("b", "is not a folder")):
        done = run(*GENERATOR, "-p", xml, "-f", "-o", folder)
        assert done.code == 3
        assert why in done.err
    assert tree() == before


def test_after_a_failure_everything_is_as_it_was(
    run: Any, xml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("more.xml").write_text(XML.replace("Shop.Ops", "more"))
    files = ("-p", xml, "-p", "more.xml")
    assert run(*GENERATOR, *files).code == 0
    Path("shop-ops/mine.txt").write_text("mine")
    before = tree()
    whole = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if self.parent.name == "new" and self.name == "shop-ops":
            raise OSError(28, "No space left on device")
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    for options in ((*files, "-f"), (*files, "-o", "new/folder")):
        done = run(*GENERATOR, *options)
        assert done.code == 3
        assert "No space left" in done.err
    assert tree() == before
    assert not Path("new").exists()


def test_an_output_path_that_is_a_file_is_refused(run: Any, xml: str) -> None:
    done = run(*GENERATOR, "-p", xml, "-o", xml)
    assert done.code == 3
    assert "shop.xml" in done.err
    assert Path(xml).read_text() == XML


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Shop.Ops", "../escape", "invalid package name '../escape'"),
        ("Shop.Ops", "a b", "invalid package name 'a b'"),
        ("Shop.Ops", "x" * 41, "invalid package name"),
        ("org.shop", 'a"b', "invalid domain 'a\"b'"),
        ('"0.3"', '"latest"', "invalid version 'latest' of a dist"),
        ("Shrink", "S" * 41, "longer than 40 characters"),
        ("<Name>x<", "<Name>x\u202e<", "invisible characters"),
        ("</OpDef>", f"{{}}{'</OpDef>'}", "would hide a name that generated code needs"),
    ],
)
def test_names_that_no_dist_can_have(run: Any, old: str, new: str, said: str) -> None:
    param = (
        "<Parameter><Name>DType</Name><Datatype>QNN_DATATYPE_INT_32</Datatype>"
        "<Shape><Rank>SCALAR</Rank></Shape></Parameter>"
    )
    quoted = new.replace("{}", param).replace('a"b', "a&quot;b")
    Path("odd.xml").write_text(XML.replace(old, quoted), "utf-8")
    done = run(*GENERATOR, "-p", "odd.xml")
    assert done.code == 2
    assert said in done.err
    assert [p.name for p in Path().iterdir()] == ["odd.xml"]


@pytest.mark.parametrize(
    ("package", "module"),
    [
        ("json", "json_ops"),
        ("numpy", "numpy_ops"),
        ("dovetail_x", "dovetail_x_ops"),
        ("Class", "ops_class"),
        ("A-b.C", "a_b_c"),
    ],
)
def test_a_module_hides_no_other(run: Any, package: str, module: str) -> None:
    done = run(*GENERATOR, "--package-name", package, "--op", "A(out y)")
    assert done.code == 0, done.err
    (folder,) = (p for p in Path().iterdir() if p.is_dir())
    assert (folder / "src" / module / "ops.py").is_file()


@pytest.mark.parametrize("name", ["libQnnCpu.so", "cpu"])
def test_backends_are_those_that_are_installed(run: Any, xml: str, name: str) -> None:
    done = run(*GENERATOR, "-p", xml, "--backend", name)
    assert done.code == 0, done.err
    assert 'KernelRegistry("cpu")' in Path("shop-ops/src/shop_ops/kernels.py").read_text()
    done = run(*GENERATOR, "-p", xml, "--backend", "cpuu", "-o", "other")
    assert done.code == 2
    assert "unknown backend 'cpuu'" in done.err
    assert "did you mean 'cpu'?" in done.err


# -- without XML ---------------------------------------------------------------------------------


def test_spelled_ops_are_the_same_as_their_xml(run: Any) -> None:
    whole = (
        "Mix(in x: float32|ufixed_point_8 [n, c], in t?: int32 [], in more*: QNN_DATATYPE_BOOL_8,"
        "out y [n, 2 * c], out z?[2D], param alpha: float32 = 1.5, param mode: {A, B} = B,"
        "param taps: int64 [a, b] = [[1, 2], [3, 4]], param k: uint32, param s?: float16)"
    )
    options = ("--package-name", "my.ops", "--domain", "org.my", "--package-version", "2.0")
    ops = ("--op", SCALE, "--op", whole)
    assert run(*GENERATOR, *options, *ops, "--write-xml", "my.xml", "-o", "a").code == 0
    _, mix = read_definitions(Path("my.xml")).ops
    assert [t.name for t in (*mix.inputs, *mix.outputs)] == ["x", "t", "more", "y", "z"]
    assert [(t.is_mandatory, t.is_repeated) for t in mix.inputs] == [
        (True, False),
        (False, False),
        (True, True),
    ]
    assert [d.name for d in mix.inputs[0].dtypes] == ["FLOAT_32", "UFIXED_POINT_8"]
    assert [None if t.shape is None else t.shape.rank for t in (*mix.inputs, *mix.outputs)] == [
        *(2, 0, None),
        *(2, 2),
    ]
    assert [(p.name, p.default, p.is_mandatory) for p in mix.params] == [
        ("alpha", "1.5", False),
        ("mode", "B", False),
        ("taps", "[[1, 2], [3, 4]]", False),
        ("k", "", True),
        ("s", "", False),
    ]
    assert mix.params[1].choices == ("A", "B")
    assert run(*GENERATOR, "-p", "my.xml", "-o", "b").code == 0
    made = [
        {k[2:]: v for k, v in tree(root).items() if k.endswith((".py", ".toml"))} for root in "ab"
    ]
    assert made[0].keys() == made[1].keys()
    ours, theirs = (m["my-ops/src/my_ops/ops.py"].decode() for m in made)
    sources = {f'"my.xml, {name}"': f'"the definition of {name}"' for name in ("Scale", "Mix")}
    for said, spelled in sources.items():
        theirs = theirs.replace(said, spelled)
    assert ours == theirs


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("Scale", "invalid op 'Scale' (expected"),
        ("2x(in a, out b)", "--op 2x: invalid name '2x'"),
        ("S(in x)", "--op S: missing <Output> of op 'S'"),
        ("S(in x, out y: floaty)", "--op S, character 9: unknown data type 'floaty'"),
        ("S(in x, outt y)", "--op S, character 9: invalid part 'outt y' of an op"),
        ("S(in x,, out y)", "--op S, character 8: invalid part '' of an op"),
        ("S(in x [n; c], out y)", "--op S, character 3: invalid shape '[n; c]'"),
        ("S(in x = 3, out y)", "character 3: 'x' is not a param; only params have a default"),
        ("S(in x: {A, B}, out y)", "'x' is not a param; only params have choices"),
        ("S(out y, param a*)", "character 10: 'a' is a param and cannot be repeated"),
        (
            "S(out y, param a = 1.x)",
            "character 10: invalid default of 'a': '1.x' is neither a number",
        ),
        ("S(out y, param a, param a)", "duplicate parameter of op 'S' 'a'"),
        ("S(in a*, in b, out y)", "repeated input 'a' must be the last one"),
        ("S(out y, param source)", "reserved parameter name 'source'"),
        ("S(out y)\x00", "invalid op"),
    ],
)
def test_what_is_wrong_with_a_spelled_op(run: Any, op: str, said: str) -> None:
    done = run(*GENERATOR, "--package-name", "my", "--op", op, "--write-xml", "my.xml")
    assert done.code == 2
    assert said in done.err
    assert not list(Path().iterdir())


def test_everything_wrong_is_said_at_once(run: Any) -> None:
    done = run(*GENERATOR, "--package-name", "my", "--op", "A(in)", "--op", "B(out y: no, on z)")
    assert done.code == 2
    assert [line[:6] for line in done.err.splitlines() if line.startswith("  - ")] == ["  - --"] * 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--package-name", "my"), "--op is missing"),
        (("--op", SCALE), "--package-name is missing"),
        (("-p", "shop.xml", "--op", SCALE, "--domain", "a"), "--domain, --op and --config-path"),
        ((), "the op package is not specified"),
        (("-p", "none.xml"), "none.xml"),
    ],
)
def test_options_that_do_not_go_together(
    run: Any, xml: str, options: tuple[str, ...], said: str
) -> None:
    done = run(*GENERATOR, *options)
    assert done.code in (2, 3)
    assert said in done.err
    assert [p.name for p in Path().iterdir()] == [xml]


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    answers = [
        *("bad name", "", ""),  # refused, and asked again
        *("my.ops", "org.my", "0.2"),
        *("Scale", "x: float32 [n, c]", "", "y: oops", "y [n, 2 * c]", "", "by = 2", ""),
        *("y", "Other", "", "z", "", "", "n"),
    ]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dovetail.cli", *GENERATOR, "--json"]
    command[1:3] = ["-c", "import sys; from dovetail.cli import main; sys.exit(main())"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        out, err = process.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    assert process.returncode == 0, err.decode()
    assert json.loads(out)["packages"][0]["ops"] == ["Scale", "Other"]
    assert "invalid package name 'bad name'" in err.decode()
    assert "unknown data type 'oops'" in err.decode()
    code = (tmp_path / "my-ops/src/my_ops/ops.py").read_text()
    assert "by = float32(default=2.0)" in code
    assert "(n, 2 * c)" in code


def test_the_name_of_another_installed_package_is_refused(run: Any, xml: str) -> None:
    Path("taken.xml").write_text(XML.replace("Shop.Ops", "qti.aisw"))
    done = run(*GENERATOR, "-p", "taken.xml")
    assert done.code == 2
    assert "op package 'qti.aisw' is installed already (dist dovetail-opset" in done.err
    assert not Path("qti-aisw").exists()
