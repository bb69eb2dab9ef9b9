"""Input lists: their conventions, and every fault told at once, with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.ir import DType, Tensor


def test_named_and_bare_paths(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    x0, x1 = raw("a.raw", np.arange(-3.0, 3.0)), raw("b.raw", np.arange(6.0))
    listing("", "x:=a.raw", "", "  b.raw  ")
    done = net_run(run)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(result("y.raw"), -np.maximum(x0, 0))
    np.testing.assert_array_equal(result("y.raw", index=1), -np.maximum(x1, 0))
    assert not Path("output/Result_2").exists()


def test_paths_are_of_the_working_folder_then_of_the_list(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    here, there = raw("here.raw", np.full(6, 1.0)), raw("lists/there.raw", np.full(6, 2.0))
    raw("lists/here.raw", np.full(6, 3.0))
    listing("here.raw", "there.raw", path="lists/list.txt")
    assert run("net-run", "--model", two_steps, "--input_list", "lists/list.txt").code == 0
    np.testing.assert_array_equal(result("y.raw"), -here)
    np.testing.assert_array_equal(result("y.raw", index=1), -there)


def test_all_faults_are_told_with_their_lines(
    new_net: Any, run: Any, raw: Any, listing: Any, entries: Any
) -> None:
    net = new_net()
    left, right = net.input("left", 1, 4), net.input("right", 1, 4)
    net.save(net.node("ElementWiseAdd", left, right, name="sum"))
    raw("ok.raw", np.zeros(4))
    raw("short.raw", np.zeros(3))
    raw("wide.raw", np.zeros(4, "<f8").view("<f4"))
    listing(
        "left:=ok.raw right:=ok.raw",
        "lift:=ok.raw right:=ok.raw",
        "left:=ok.raw",
        "left:=ok.raw left:=ok.raw right:=ok.raw",
        "left:=none.raw right:=.",
        "left:=short.raw right:=wide.raw",
        "ok.raw right:=ok.raw",
        "left:= right:=ok.raw",
        "#sum_node",
    )
    before = entries()
    done = net_run(run)
    assert done.code == 3
    assert done.error["code"] == "INPUT_INVALID"
    told = [(p["where"], p["message"], p["hint"]) for p in done.error["problems"]]
    texts = [f"{where}: {message} ({hint})" for where, message, hint in told]
    wanted = [
        ("list.txt:9", "must precede the inputs"),
        ("list.txt:2", "input 'lift' not found in the graph (did you mean 'left'?)"),
        ("list.txt:3", "missing input 'right'"),
        ("list.txt:4", "duplicate input 'left'"),
        ("list.txt:5", "none.raw does not exist"),
        ("list.txt:5", "'right': . is not a file"),
        ("list.txt:6", "expected 16 bytes (float32 of shape (1, 4)), got 12"),
        ("list.txt:6", "size fits float64 values"),
        (
            "list.txt:7",
            "path 'ok.raw' has no input name (expected the form: left:=",
        ),
        ("list.txt:8", "missing path of input 'left'"),
    ]
    assert len(texts) == len(wanted)
    for text, (where, part) in zip(texts, wanted, strict=True):
        assert text.startswith(where)
        assert part in text
    assert entries() == before


def test_a_comment_is_taken_for_names_of_nodes(
    two_steps: str, run: Any, raw: Any, listing: Any
) -> None:
    raw("a.raw", np.zeros(6))
    listing("# samples", "x:=a.raw")
    done = net_run(run)
    assert done.code == 3
    (problem,) = done.error["problems"]
    assert "a # line selects nodes, but node 'samples' not found" in problem["message"]


@pytest.mark.parametrize(
    ("line", "left", "right"),
    [
        ('left:="a b.raw" right:=c.raw', "a b.raw", "c.raw"),
        ('right:="c.raw"  left:="a  b.raw"', "a  b.raw", "c.raw"),
        ('left:="a right:=b.raw" right:=c.raw', "a right:=b.raw", "c.raw"),
        # a quote that does not begin and end a word is part of the name
        ('left:=a"b.raw right:=c".raw', 'a"b.raw', 'c".raw'),
        ('left:="a.raw right:=c.raw', '"a.raw', "c.raw"),
        ('left:="a"b.raw right:=it\'s.raw', '"a"b.raw', "it's.raw"),
        ("left:='a.raw' right:=c.raw", "'a.raw'", "c.raw"),
    ],
)
def test_paths_in_quotes(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any, line: str, left: str, right: str
) -> None:
    net = new_net()
    ends = net.input("left", 1, 2), net.input("right", 1, 2)
    net.save(net.node("ElementWiseSubtract", *ends, name="y"))
    raw(left, np.array([5.0, 7.0]))
    raw(right, np.array([1.0, 2.0]))
    listing(line)
    done = net_run(run)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(result("y.raw"), [4, 5])


def test_bare_path_in_quotes(two_steps: str, run: Any, raw: Any, listing: Any, result: Any) -> None:
    x = raw("my file.raw", np.arange(6.0))
    listing('"my file.raw"')
    assert net_run(run).code == 0
    np.testing.assert_array_equal(result("y.raw"), -x)
    listing('"my file.raw" ""')
    (problem,) = net_run(run).error["problems"]  # one for both paths
    assert problem["message"] == "path 'my file.raw' has no input name; and 1 other like it"
    listing("my file.raw")
    (problem,) = net_run(run).error["problems"]
    assert problem["hint"] == "expected the form: x:=PATH; a path with spaces in double quotes"


@pytest.mark.parametrize("line", ['"my file.raw', 'x:="my file.raw', 'x:="', '"'])
def test_unclosed_quote(two_steps: str, run: Any, raw: Any, listing: Any, line: str) -> None:
    raw("my file.raw", np.arange(6.0))
    listing('"my file.raw"', line)
    done = net_run(run)
    assert (done.code, done.error["code"]) == (3, "INPUT_INVALID")
    (problem,) = done.error["problems"]
    assert problem["message"].startswith("unclosed quote in '\"")
    assert problem["where"] == "list.txt:2"
    assert "end the path with a quote" in problem["hint"]


def test_many_faults_are_counted(two_steps: str, run: Any, listing: Any) -> None:
    listing(*[f"n{i}:=none.raw" for i in range(73)])
    problems = net_run(run).error["problems"]
    assert len(problems) == 51
    assert problems[-1]["message"] == "and 23 more"


def test_faults_of_one_kind_are_one_with_the_first_line(
    two_steps: str, run: Any, raw: Any, listing: Any
) -> None:
    for i in range(4):
        raw(f"{i}.raw", np.zeros(5 if i < 3 else 4))
    missing = [f"none{i}.raw" for i in range(30)]
    listing("3.raw", *missing, "0.raw", "1.raw", "2.raw")
    problems = [(p["where"], p["message"]) for p in net_run(run).error["problems"]]
    assert [where for where, _ in problems] == ["list.txt:1", "list.txt:2", "list.txt:32"]
    assert problems[1][1] == "input 'x': none0.raw does not exist; and 29 others like it"
    assert problems[2][1].endswith("got 20 in 0.raw; and 2 others like it")


@pytest.mark.parametrize(
    ("content", "code", "part"),
    [
        (None, "FILE_UNREADABLE", "No such file"),
        (b"\xff\xfe\x00", "INPUT_INVALID", "not UTF-8 text"),
        (b"\0\0\0\0", "INPUT_INVALID", "not UTF-8 text"),
        (b"\n\n", "INPUT_INVALID", "no line has inputs"),
        (b"x:=" + b"a" * 5000, "INPUT_INVALID", "name too long"),
    ],
)
def test_lists_that_are_none(
    two_steps: str, run: Any, entries: Any, content: bytes | None, code: str, part: str
) -> None:
    if content is not None:
        Path("list.txt").write_bytes(content)
    before = entries()
    done = net_run(run)
    assert (done.code, done.error["code"]) == (3, code)
    assert part.lower() in done.err.lower()
    assert entries() == before


def test_a_list_without_an_end_is_none(two_steps: str, run: Any) -> None:
    Path("list.txt").symlink_to("/dev/zero")
    assert "not UTF-8 text" in net_run(run).err


def test_a_file_that_shrinks_is_told(
    new_net: Any, run: Any, raw: Any, listing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dovetail_tools._net_run import jobs

    net = new_net()
    net.save(net.node("Relu", net.input("x", 1, 4), name="y"))
    raw("a.raw", np.zeros(4))
    listing("a.raw")
    checked = jobs.make_feed

    def then_shrink(*args: Any) -> Any:
        found = checked(*args)
        raw("a.raw", np.zeros(2))
        return found

    monkeypatch.setattr(jobs, "make_feed", then_shrink)
    done = net_run(run)
    assert done.code == 3
    assert "expected 16 bytes, got 8" in done.error["message"]
    assert not Path("output").exists()


# -- lines that choose outputs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "files"),
    [
        (["#mid_node"], {"mid.raw"}),
        (["%mid"], {"mid.raw"}),
        (["%y mid"], {"y.raw", "mid.raw"}),
        (["#y_node", "%mid"], {"y.raw", "mid.raw"}),
        (["# y_node"], {"y.raw"}),
        (["#mid y"], {"mid.raw", "y.raw"}),
    ],
)
def test_first_lines_choose_what_is_written(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any, first: list[str], files: set[str]
) -> None:
    x = raw("a.raw", np.arange(-3.0, 3.0))
    listing(*first, "a.raw")
    assert net_run(run).code == 0
    assert {p.name for p in Path("output/Result_0").iterdir()} == files
    if "mid.raw" in files:
        np.testing.assert_array_equal(result("mid.raw"), np.maximum(x, 0))


def test_chosen_outputs_must_be_there(two_steps: str, run: Any, raw: Any, listing: Any) -> None:
    raw("a.raw", np.zeros(6))
    listing("#mid_nod", "%x", "a.raw")
    done = net_run(run)
    assert done.code == 3
    (node, tensor) = done.error["problems"]
    assert node["where"] == "list.txt:1"
    assert node["hint"] == "did you mean 'mid_node'?"
    assert tensor["where"] == "list.txt:2"
    assert "computed tensor 'x' not found" in tensor["message"]
    assert "--debug writes all" in net_run(run, "--debug").err


def test_native_size_gives_the_hint(
    new_net: Any, run: Any, raw: Any, listing: Any, entries: Any
) -> None:
    net = new_net()
    net.save(net.node("ElementWiseNeg", net.input("i", 1, 2, dtype=DType.INT_64), name="y"))
    raw("native.raw", np.arange(2))
    raw("float.raw", np.arange(2.0))
    listing("native.raw")
    (problem,) = net_run(run).error["problems"]
    assert "--native-input-tensor-names i" in problem["hint"]
    listing("float.raw")
    (problem,) = net_run(run, "--use-native-input-files").error["problems"]
    assert "INT_64 of shape (1, 2)" in problem["message"]
    assert "without the native options" in problem["hint"]
    assert not Path("output").exists()


def test_names_with_spaces(new_net: Any, run: Any, raw: Any, listing: Any, result: Any) -> None:
    net = new_net()
    left, right = net.input("a b", 1, 2), net.input("b", 1, 2)
    net.save(net.node("ElementWiseSubtract", left, right, name="y"))
    raw("x.raw", [5.0, 7.0])
    raw("y.raw", [1.0, 2.0])
    listing("a b:=x.raw b:=y.raw", "b:=y.raw a_b:=x.raw")
    done = net_run(run)
    assert done.code == 0, done.err
    for i in range(2):
        assert result("y.raw", index=i).tolist() == [4, 5]
    listing("x.raw y.raw x.raw")
    problems = net_run(run).error["problems"]
    assert problems[0]["hint"].startswith("expected the form: a b:=PATH b:=PATH; ")


def test_bare_paths_are_in_the_order_of_the_inputs(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    net = new_net()
    left, right = net.input("z", 1, 2), net.input("a", 1, 2)
    net.save(net.node("ElementWiseSubtract", left, right, name="y"))
    raw("x.raw", [5.0, 7.0])
    raw("a y.raw", [1.0, 2.0])
    listing('x.raw "a y.raw"', '"a y.raw" x.raw')
    done = net_run(run)
    assert done.code == 0, done.err
    assert result("y.raw").tolist() == [4, 5]
    assert result("y.raw", index=1).tolist() == [-4, -5]


def test_names_as_the_converters_write_them(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    """C++ and JSON of the converters have identifiers: `_23` for 23, `a_b` for a.b."""
    net = new_net()
    left, right = net.input("23", 1, 2), net.input("a.b", 1, 2, dtype=DType.INT_32)
    middle = net.node("Cast", right, name="c-d", out=Tensor("c-d", DType.FLOAT_32, (1, 2)))
    net.save(net.node("ElementWiseSubtract", left, middle, name="y.1"))
    raw("x.raw", [5.0, 7.0])
    np.array([1, 2], "<i4").tofile("y.raw")
    listing("#c_d_node", "%y_1", "_23:=x.raw a_b:=y.raw")
    native = "--native-input-tensor-names"
    for args in ([native, "a_b"], [native, "net:a_b"]):
        done = net_run(run, *args)
        assert done.code == 0, done.err
        assert result("y.1.raw").tolist() == [4, 5]
        assert result("c-d.raw").tolist() == [1, 2]
    listing("_23:=x.raw a_b:=y.raw")
    done = net_run(run, native, "a_b", "--set-output-tensors", "net:c_d")
    assert done.code == 0, done.err
    assert result("c-d.raw").tolist() == [1, 2]


def test_names_of_the_users_model(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    """A file of the converters, whose names are identifiers, also knows those of the model."""
    net = new_net()
    given = net.input("_23", 1, 2)
    middle = net.node("Relu", given, name="a_b")
    given.source, middle.source = "23", "a b:0"
    net.save(net.node("ElementWiseNeg", middle, name="y"))
    raw("x.raw", [5.0, 7.0])
    listing("%a_b", "23:=x.raw")
    done = net_run(run, "--set-output-tensors", "net:a b:0", "--native-input-tensor-names", "23")
    assert done.code == 0, done.err
    assert result("a_b.raw").tolist() == [5, 7]


def test_a_spelling_of_two_names_names_neither(
    new_net: Any, run: Any, raw: Any, listing: Any
) -> None:
    net = new_net()
    left, right = net.input("a.b", 1, 2), net.input("a/b", 1, 2)
    net.save(net.node("ElementWiseSubtract", left, right, name="y"))
    raw("x.raw", [5.0, 7.0])
    listing("a_b:=x.raw a.b:=x.raw")
    (problem,) = net_run(run).error["problems"]
    assert problem["message"] == "input 'a_b' not found in the graph"


def test_hints_name_inputs_as_a_list_can(new_net: Any, run: Any, raw: Any, listing: Any) -> None:
    net = new_net()
    left, right = net.input("#a", 1, 2), net.input("b\n", 1, 2)
    net.save(net.node("ElementWiseSubtract", left, right, name="y"))
    raw("x.raw", [5.0, 7.0])
    listing("x.raw x.raw x.raw")
    hint = net_run(run).error["problems"][0]["hint"]
    form = hint.partition(": ")[2].partition(";")[0]
    assert form == "_a:=PATH b_:=PATH"
    listing(form.replace("PATH", "x.raw"))
    assert net_run(run).code == 0
