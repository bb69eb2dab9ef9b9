"""The shell: help from metadata, options in either spelling, exit codes, errors on stderr."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest

from dovetail import __version__
from dovetail.cli import main
from dovetail.cli._report import report_error
from dovetail.cli._sdk_options import MEANINGLESS, REASONS, SdkTool, sdk_tools, verdicts
from dovetail.cli.output import Output, current_output, table
from dovetail.errors import ConfigError, Problem

COMMANDS = "dovetail.commands"
HELP = "dovetail.command_help"
PROGRAM = "import sys; from dovetail.cli import main; sys.exit(main())"

# A command without positional arguments that prints what reached it.
ECHO_OPTIONS = """
from typing import Annotated
import typer
from dovetail.cli.output import current_output

app = typer.Typer(add_completion=False, rich_markup_mode=None)

@app.command()
def echo(
    per_channel: Annotated[bool, typer.Option("--per-channel")] = False,
    wide: Annotated[bool, typer.Option("--wide/--narrow")] = False,
    algorithms: Annotated[list[str] | None, typer.Option(metavar="NAME [NAME ...]")] = None,
    once: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    text: str = "",
    kept: Annotated[list[str] | None, typer.Option(metavar="[NAME ...]")] = None,
) -> None:
    given = [per_channel, wide, algorithms, once, text, *([] if kept is None else [kept])]
    current_output().data({"given": given}, repr(given))
"""

# A command that prints what reached it.
ECHO = """
import logging
from typing import Annotated
import typer
from dovetail.cli.output import current_output

app = typer.Typer(add_completion=False, rich_markup_mode=None)

@app.command()
def echo(
    words: Annotated[list[str] | None, typer.Argument()] = None,
    input_list: str = "",
    use_native: bool = False,
    under: Annotated[str, typer.Option("--under_score")] = "",
    json_path: str = "",
    code: int = 0,
) -> int:
    for level in (10, 15, 20, 30, 40):
        logging.getLogger("echo").log(level, "level %d", level)
    given = [words or [], input_list, use_native, under, json_path]
    current_output().data({"given": given}, repr(given))
    return code
"""


def run(*args: str, site: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return forked.run(["dovetail", *args], Path.cwd(), path=[site.folder], **environment)


@pytest.fixture
def echo(site: Any) -> Any:
    site.module("echo_command", ECHO)
    site.dist("echo-dist", {COMMANDS: {"echo-it": "echo_command:app"}, HELP: {"echo-it": "Say it"}})
    return site


@pytest.fixture
def echo_options(site: Any) -> Any:
    site.module("echo_options_command", ECHO_OPTIONS)
    entries = {COMMANDS: {"echo-o": "echo_options_command:app"}, HELP: {"echo-o": "Say it"}}
    site.dist("echo-options-dist", entries)
    return site


def error_of(text: str) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(text.splitlines()[-1])["error"]
    return error


# -- help ------------------------------------------------------------------------------------------


def test_help_lists_every_command_with_its_line(echo: Any) -> None:
    echo.dist("mute-dist", {COMMANDS: {"mute": "nowhere:app"}})
    echo.dist("stray-dist", {HELP: {"no-such-command": "A line without a command"}})
    done = run("--help", site=echo)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    rows = {line[0]: line[1:] for line in lines}
    assert rows["echo-it"] == ["Say it"]
    assert rows["mute"] == []
    assert rows["plugins"] == ["List all plugins with their dist, version and status"]
    assert {"doctor", "explain", "inspect"} <= rows.keys()
    assert "no-such-command" not in done.stdout


def test_help_imports_neither_plugins_nor_anything_heavy(echo: Any) -> None:
    program = (
        "import sys; from dovetail.cli import main; main(['--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(echo.folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "echo-it" in done.stdout
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "dovetail" in loaded
    heavy = {"typer", "click", "rich", "numpy", "msgspec", "onnx", "pluggy", "stevedore"}
    assert not loaded & {*heavy, "packaging", "logging", "echo_command"}
    assert not [name for name in loaded if name.startswith("dovetail_")]


def test_no_command_is_a_usage_error_that_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "commands:" in err


def test_help_of_a_command_is_plain_text(echo: Any) -> None:
    for option in ("--help", "-h"):
        done = run("echo-it", option, site=echo)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: dovetail echo-it [OPTIONS]")
        assert "--input-list" in done.stdout
        assert done.stdout.isascii()


def test_only_a_process_of_a_command_ends_without_a_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen = gc.get_freeze_count()
    assert main(["--version"]) == 0
    assert gc.get_freeze_count() == frozen
    monkeypatch.setattr(sys, "argv", ["dovetail", "--version"])
    try:
        assert main() == 0
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("args", [["--version"], ["plugins", "--version"]])
def test_version(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 0
    assert capsys.readouterr().out == f"dovetail {__version__}\n"
    assert main([*args, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dovetail-core": __version__}


def test_module_is_the_command(site: Any) -> None:
    done = forked.run(["python", "-m", "dovetail", "--version"], Path.cwd())
    assert (done.returncode, done.stdout) == (0, f"dovetail {__version__}\n")
    done = forked.run(["python", "-m", "dovetail", "plugin"], Path.cwd())
    assert done.returncode == 2
    assert done.stderr.startswith("error[USAGE]: command 'plugin' not found")


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (["--per-channel"], [True, False, None, None, ""]),
        (["--per_channel", "true"], [True, False, None, None, ""]),
        (["--per_channel", "False", "--text", "a"], [False, False, None, None, "a"]),
        (["--per_channel=TRUE"], [True, False, None, None, ""]),
        (["--per-channel", "--per-channel=false"], [False, False, None, None, ""]),
        (["--text", "true", "--per-channel"], [True, False, None, None, "true"]),
        (["--text", "--per-channel"], [False, False, None, None, "--per-channel"]),
        (["--algorithms", "a", "b", "--text", "c"], [False, False, ["a", "b"], None, "c"]),
        (["--algorithms=a", "b", "--algorithms", "c"], [False, False, ["a", "b", "c"], None, ""]),
        (["--kept"], [False, False, None, None, "", [""]]),
        (["--kept", "--text", "c"], [False, False, None, None, "c", [""]]),
        (["--kept", "a", "b", "--text", "c"], [False, False, None, None, "c", ["a", "b"]]),
        (["--kept=a", "b", "--kept", "c"], [False, False, None, None, "", ["a", "b", "c"]]),
    ],
)
def test_the_sdks_forms_of_flags_and_lists(
    echo_options: Any, args: list[str], given: list[Any]
) -> None:
    done = run("--json", "echo-o", *args, site=echo_options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["given"] == given


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--per-channel", "maybe"], "maybe"),
        (["--per-channel=maybe"], "expected true, false or no value"),
        (["--wide", "true"], "true"),  # it has a way of its own to say no
        (["--once", "a", "b"], "b"),
        (["--algorithms"], "algorithms"),
    ],
)
def test_forms_that_no_option_has(echo_options: Any, args: list[str], said: str) -> None:
    done = run("--json", "echo-o", *args, site=echo_options)
    assert done.returncode == 2
    assert said in error_of(done.stderr)["message"]


def test_an_argument_after_a_flag_is_an_argument(echo: Any) -> None:
    done = run("--json", "echo-it", "--use_native", "true", site=echo)
    assert json.loads(done.stdout)["given"] == [["true"], "", True, "", ""]


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (["--input-list", "a_b"], [[], "a_b", False, "", ""]),
        (["--input_list", "a_b"], [[], "a_b", False, "", ""]),
        (["--input_list=--a_b=c_d"], [[], "--a_b=c_d", False, "", ""]),
        (["--use_native", "a_b"], [["a_b"], "", True, "", ""]),
        (["--no_use_native"], [[], "", False, "", ""]),
        # A command may declare the other spelling.
        (["--under-score", "x"], [[], "", False, "x", ""]),
        (["--under_score", "x"], [[], "", False, "x", ""]),
        # The value of an option is left alone, even if it looks like an option.
        (["--input_list", "--a_b"], [[], "--a_b", False, "", ""]),
        (["--json_path", "--json"], [[], "", False, "", "--json"]),
        # And so is all that follows a lone `--`.
        (["--", "--use_native", "--json"], [["--use_native", "--json"], "", False, "", ""]),
    ],
)
def test_option_names_in_either_spelling(
    echo: Any, args: list[str], given: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["echo_it", *args]) == 0
    assert capsys.readouterr().out == f"{given!r}\n"


@pytest.mark.parametrize("args", [["--json", "echo-it", "x"], ["echo-it", "x", "--json"]])
def test_json_before_or_after_the_command(
    echo: Any, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 0
    assert json.loads(capsys.readouterr().out)["given"][0] == ["x"]


def test_option_that_a_command_declares_is_its_own(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ECHO.replace("json_path", "json").replace(
        "code: int", "log_level: str = '', code: int"
    )
    site.module("own_command", source)
    site.dist("own-dist", {COMMANDS: {"own": "own_command:app"}})
    assert main(["own", "--json", "mine", "--log-level=loud"]) == 0
    assert capsys.readouterr().out == "[[], '', False, '', 'mine']\n"


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        (None, ["WARNING echo: level 30", "ERROR echo: level 40"]),
        ("error", ["ERROR echo: level 40"]),
        ("INFO", ["INFO echo: level 20", "WARNING echo: level 30", "ERROR echo: level 40"]),
        ("verbose", ["VERBOSE echo: level 15", "INFO echo: level 20"]),
        ("debug", ["DEBUG echo: level 10", "VERBOSE echo: level 15"]),
    ],
)
def test_log_level(echo: Any, level: str | None, seen: list[str]) -> None:
    for args in (["--log-level", str(level), "echo-it"], ["echo-it", f"--log_level={level}"]):
        done = run(*(["echo-it"] if level is None else args), site=echo)
        assert done.returncode == 0
        assert done.stdout == "[[], '', False, '', '']\n"
        lines = [line for line in done.stderr.splitlines() if " echo: " in line]
        assert lines[: len(seen)] == seen


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["plugin"], "command 'plugin' not found", "did you mean 'plugins'?"),
        (["--jsn", "plugins"], "unknown global option '--jsn'", "did you mean '--json'?"),
        (["--json=yes", "plugins"], "--json takes no value, got 'yes'", ""),
        (["--log-level"], "missing value of --log-level", ""),
        (["--log-level", "inof", "plugins"], "unsupported value 'inof' of --log-level", "'info'"),
        (["plugins", "--grop", "x"], "dovetail plugins: No such option: --grop", "usage: dovetail"),
        (["inspect"], "Missing argument", "`dovetail inspect --help`"),
        (["plugins", "--group", "backend"], "plugin group 'backend' not found", "'backends'"),
    ],
)
def test_usage_errors(
    args: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *_, last = err.splitlines()
    assert first.startswith("error[USAGE]: ")
    assert message in first
    assert last.startswith("hint: ")
    assert hint in last


def test_all_unknown_options_are_reported_with_invalid_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = ["--foo", "1", "--sort", "fast", "--bar=2", "m.dvt", "--foo", "-z"]
    assert main(["inspect", *args]) == 2
    err = capsys.readouterr().err
    for fault in ("No such option: --foo", "No such option: --bar", "No such option: -z", "'fast'"):
        assert err.count(fault) == 1
    assert "unexpected" not in err


# -- what commands do ------------------------------------------------------------------------------


def command(site: Any, body: str, dist: str = "dovetail-act", options: str = "") -> None:
    """Install the command `act`, whose body and parameters these are."""
    source = (
        "import os, sys, typer\nimport dovetail.errors as errors\n"
        "app = typer.Typer(add_completion=False, rich_markup_mode=None)\n"
        f"@app.command()\ndef act({options}):\n    {body}\n"
    )
    site.module("act_command", source)
    site.dist(dist, {COMMANDS: {"act": "act_command:app"}})


def test_all_faults_of_options_are_listed(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = "path: str, width: int = typer.Option(8, min=4), depth: int = 2"
    command(site, "print(path, width, depth)", options=options)
    assert main(["act", "--width", "3", "--depth", "deep", "model", "extra"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *items, hint = err.splitlines()
    assert first == "error[USAGE]: dovetail act: invalid options"
    for item, text in zip(items, ("'--width'", "'--depth'", "(extra)"), strict=True):
        assert item.startswith("  - ")
        assert text in item
    assert hint.startswith("hint: usage: dovetail act ")
    assert main(["act", "--width", "4", "model"]) == 0
    assert capsys.readouterr().out == "model 4 2\n"


def test_all_faults_of_a_subcommand_are_listed(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "path: str, width: int = typer.Option(8, min=4)):\n    print(path)\n"
    command(site, f"print(path)\n@app.command()\ndef other({more}", options="path: str")
    assert main(["act", "other", "--width", "3"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *items, _ = err.splitlines()
    assert first == "error[USAGE]: dovetail act other: invalid options"
    assert [item.split("'")[1] for item in items] == ["--width", "path"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pass", 0),
        ("return 1", 1),
        ("return True", 0),  # a result, not a code
        ("return errors.ExitCode.BACKEND", 7),
        ("raise typer.Exit(5)", 5),
        ("raise typer.Abort", 130),
        ("raise KeyboardInterrupt", 130),
        ("raise typer.BadParameter('no')", 2),
        ("raise errors.DovetailError('x', code='CHECK_FAILED')", 1),
        ("raise errors.ConfigError('x')", 2),
        ("raise errors.GraphError('x')", 3),
        ("raise errors.UnsupportedOpError('x')", 4),
        ("raise errors.ContainerError('x', code='CONTAINER_VERSION')", 5),
        ("raise errors.PluginError('x')", 6),
        ("raise errors.BackendError('x')", 7),
        ("raise ValueError('x')", 70),
        ("assert False", 70),
    ],
)
def test_exit_codes(site: Any, body: str, code: int) -> None:
    command(site, body)
    assert main(["act"]) == code


FAULT = (
    "raise errors.GraphError('is bad', where='graph g', hint='mend it', "
    "problems=[errors.Problem('one', 'node a', 'do'), errors.Problem('two')])"
)


def test_error_for_people(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(site, FAULT)
    assert main(["act"]) == 3
    assert capsys.readouterr() == (
        "",
        "error[GRAPH_INVALID]: graph g: is bad\n  - node a: one (do)\n  - two\nhint: mend it\n",
    )


@pytest.mark.parametrize("args", [["--json", "act"], ["act", "--json"]])
def test_error_as_json(site: Any, args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command(site, FAULT)
    assert main(args) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert error_of(err) == {
        "code": "GRAPH_INVALID",
        "number": None,
        "message": "is bad",
        "where": "graph g",
        "problems": [
            {"message": "one", "where": "node a", "hint": "do"},
            {"message": "two", "where": "", "hint": ""},
        ],
        "hint": "mend it",
        "exit_code": 3,
    }


def test_error_without_a_hint_gives_the_catalogues(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command(site, "raise errors.BackendError('x', code='GRAPH_ERROR_INVALID_HANDLE')")
    main(["act", "--json"])
    error = error_of(capsys.readouterr().err)
    assert error["number"] == errors_number("GRAPH_ERROR_INVALID_HANDLE")
    assert error["hint"]


def errors_number(name: str) -> int | None:
    from dovetail.errors import CATALOGUE

    return CATALOGUE[name].number


def test_bug_is_said_to_be_one(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(site, "return {}['missing']")
    assert main(["act"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("internal error: KeyError: 'missing'\n")
    assert "a bug in dovetail-act" in err
    assert "--log-level debug" in err
    assert "Traceback" not in err
    assert main(["--log-level", "debug", "act"]) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "act_command.py" in err
    assert main(["--json", "act"]) == 70
    error = error_of(capsys.readouterr().err)
    assert (error["code"], error["exit_code"]) == ("BUG", 70)


def test_failure_of_a_third_party_names_its_plugin(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    # raised in core, by a call from the plugin
    command(site, "from dovetail.ir import Graph; Graph('g').nodes.no_such", "act-dist")
    assert main(["--json", "act"]) == 6
    error = error_of(capsys.readouterr().err)
    assert error["code"] == "PLUGIN_FAILED"
    assert error["where"] == "dovetail.commands 'act' (dist act-dist 1.0)"
    assert error["message"].startswith("the plugin's code failed: AttributeError: ")
    assert "act-dist" in error["hint"]
    assert main(["--log-level", "debug", "act"]) == 6
    assert "act_command.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('torn')", "RuntimeError: torn"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("app = 3", "expected a typer app, got an object of type int"),
    ],
)
def test_broken_command_breaks_nothing_else(echo: Any, source: str, reason: str) -> None:
    echo.module("torn_command", source)
    echo.dist("torn-dist", {COMMANDS: {"torn": "torn_command:app"}, HELP: {"torn": "Tear it"}})
    done = run("torn", site=echo)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("error[PLUGIN_BROKEN]: dovetail.commands 'torn' (dist torn-dist")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert error_of(run("torn", "--json", site=echo).stderr)["code"] == "PLUGIN_BROKEN"
    assert "Tear it" in run("--help", site=echo).stdout
    assert run("echo-it", site=echo).returncode == 0


def test_command_that_is_left_out_says_so(echo: Any) -> None:
    done = run("echo-it", site=echo, DOVETAIL_PLUGINS="")
    assert done.returncode == 6
    assert "disabled by DOVETAIL_PLUGINS" in done.stderr
    assert "echo-it" not in run("--help", site=echo, DOVETAIL_PLUGINS="").stdout
    assert run("echo-it", site=echo, DOVETAIL_PLUGINS="echo-it").returncode == 0
    done = run("--help", site=echo, DOVETAIL_PLUGINS="echo-dost")
    assert done.returncode == 2
    assert "did you mean 'echo-dist'?" in done.stderr


def test_reader_that_went_away(site: Any) -> None:
    command(site, "print('x' * 1_000_000)")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "act"],
        env={**os.environ, "PYTHONPATH": str(site.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert complaints == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a full device")
def test_full_disk_is_no_bug(site: Any) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "plugins"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("error[FILE_UNWRITABLE]: standard output: cannot be written")
    assert len(done.stderr.splitlines()) == 2


def test_subcommands_take_both_spellings(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        "import typer\napp = typer.Typer(add_completion=False, rich_markup_mode=None)\n"
        "@app.command()\ndef first(long_name: str = ''):\n    print('first', long_name)\n"
        "@app.command()\ndef second(long_name: bool = False):\n    print('second', long_name)\n"
    )
    site.module("group_command", source)
    site.dist("group-dist", {COMMANDS: {"group": "group_command:app"}})
    assert main(["group", "first", "--long_name", "x_y"]) == 0
    assert main(["group", "second", "--long-name"]) == 0
    assert capsys.readouterr().out == "first x_y\nsecond True\n"
    assert main(["group", "frist"]) == 2
    assert "frist" in capsys.readouterr().err


# -- output ----------------------------------------------------------------------------------------


def test_json_has_no_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).data({"a": [float("inf"), float("nan"), 1.5], "b": ("x",)}, "unused")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    shown = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert shown == {"a": ["inf", "nan", 1.5], "b": ["x"]}


def test_output_outside_of_a_command_is_text() -> None:
    assert current_output() == Output(json=False)


def test_name_that_the_terminal_cannot_show_is_escaped(site: Any) -> None:
    command(
        site, "from dovetail.cli.output import current_output as o; o().data(0, 'caf\\xe9 \\udcff')"
    )
    # an interpreter decides on the encoding when it starts
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "act"],
        env={**os.environ, "PYTHONPATH": str(site.folder), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "caf\\xe9 \\udcff\n")


@pytest.mark.parametrize(
    "body",
    [
        "from dovetail.cli.output import current_output as o; o().message({name})",
        "import logging; logging.getLogger('act').warning('of %s', {name})",
        "p = errors.Problem('bad', {name}, {name})\n"
        "    raise errors.GraphError({name}, where={name}, hint={name}, problems=[p])",
        "raise KeyError({name})",
    ],
)
@pytest.mark.parametrize("level", ["warn", "debug"])
def test_names_in_messages_do_not_control_the_terminal(
    site: Any, body: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command(site, body.format(name=r"'\x1b[2J\r\x9b31m'"))
    main(["--log-level", level, "act"])
    err = capsys.readouterr().err
    assert r"\x1b[2J" in err
    assert not set("\x1b\r\x9b") & set(err)


def test_table_is_aligned_on_a_terminal() -> None:
    names = ["ab", "入力", "😀", "e\u0301\u200d", "a\tb"]
    rows = [(name, 1) for name in names]
    assert table(("NAME", "N"), rows).split("\n") == [
        "NAME  N",
        "ab    1",
        "入力  1",
        "😀    1",
        "e\u0301\u200d     1",
        "a\\tb  1",
    ]
    assert table(("NAME",), [["入"], ["ab c"]], right=["NAME"]).split("\n")[1:] == ["  入", "ab c"]


def test_table_is_aligned() -> None:
    rows = [("a", 1), ("long", "two\nlines")]
    assert table(("X", "YY"), rows) == "X     YY\na     1\nlong  two lines"


def test_reasons_are_those_of_a_closed_list_and_of_options_of_tools() -> None:
    tools = sdk_tools()
    options = {option for tool in tools for option in tool.options}
    assert MEANINGLESS.keys() <= options
    assert set(MEANINGLESS.values()) <= set(REASONS)
    assert all(re.fullmatch(r"--[A-Za-z][\w-]*|-[a-z]", option) for option in options)
    assert all(tool.options for tool in tools if tool.command == "model-lib-generator")
    assert len({tool.name for tool in tools}) == len(tools)


def test_verdicts_on_options() -> None:
    tool = SdkTool("tool", "act", None, ("--out_dir", "--debug", "--dump_relay", "--more"))
    found = [v.text for v in verdicts(tool, {"--out-dir", "--log-level"})]
    assert found[:2] == ["offered as --out-dir", "offered as --log-level"]
    assert found[2].startswith("meaningless here: writes a form of models")
    assert found[3] == "missing"
    options = ("--signature_name", "--use_native_output_files", "--tf_x")
    other = SdkTool("tool", "convert", "tflite", options)
    texts = [v.text for v in verdicts(other, (), ("tensorflow",))]
    assert texts[0] == "missing: needs the frontend 'tflite'"
    assert texts[1] == "missing: selects the type of files of outputs, and the command writes none"
    assert texts[2] == "missing"  # its frontend is installed
    # an option that a command has is offered, whatever the table of reasons says
    assert verdicts(tool, {"--dump-relay"})[2].offered == "--dump-relay"


def test_objects_with_the_same_problem_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [
        Problem("lacks x", "node 'a'"),
        Problem("has y", "node 'b'"),
        Problem("lacks x", "node 'c'"),
        Problem("lacks x", "node 'd'", "add x"),
        Problem("no place"),
    ]
    error = ConfigError("bad", hint="mend it", problems=problems)
    assert report_error(error, json=False, details=False) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  - node 'a', node 'c': lacks x",
        "  - node 'b': has y",
        "  - node 'd': lacks x (add x)",
        "  - no place",
        "hint: mend it",
    ]
    report_error(error, json=True, details=False)
    found = json.loads(capsys.readouterr().err)["error"]["problems"]
    assert [problem["where"] for problem in found] == [p.where for p in problems]
