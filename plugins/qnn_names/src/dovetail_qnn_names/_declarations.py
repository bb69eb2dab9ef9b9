"""Declarations of tools: their options, files and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Tokens = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of QNN's tool that our command spells otherwise or does not have.

    Where the command declares one of its names, the option is passed on as it is, unless `always`
    is set.

    Attributes:
        names: Its spellings, with dashes.
        to: What replaces it.
        takes_value: Whether it always has a value, which follows what replaces it; one of `values`
            if nothing does.
        values: What replaces it together with a value, by value. If it need not have a value, the
            next argument is one only if it is here.
        why: Why it has no effect; a message says so.
        always: Whether it is replaced although the command declares it.
    """

    names: Tokens
    to: Tokens = ()
    takes_value: bool = False
    values: Mapping[str, Tokens] = field(default_factory=dict)
    why: str = ""
    always: bool = False


@dataclass(frozen=True, slots=True)
class Implied:
    """Options that are added because of another one.

    Attributes:
        by: The option that implies them.
        unless: Options with which it does not.
        tokens: What is added.
        needs: Another option that must be given too, and its values for which it counts; "" is
            for no value.
    """

    by: str
    unless: Tokens
    tokens: Tokens
    needs: tuple[str, Tokens] | None = None


@dataclass(frozen=True, slots=True)
class OutputFile:
    """The file that a tool writes.

    Attributes:
        option: Option with its path.
        short: Short form of it.
        source: Options with the path of the model.
        suffix: Suffix of the file, which is added where it is missing.
        ending: What replaces the model's suffix in the name by default.
        format: Name of the exporter.
        names_graph: Whether the graph is named after the file, with the characters of C's names.
    """

    option: str
    short: str
    source: Tokens
    suffix: str
    ending: str
    format: str
    names_graph: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of QNN, as one of our commands.

    Attributes:
        command: The command.
        options: Options that differ.
        defaults: Options that are added where they are not given and the command has them.
        implied: Options that are added because of others.
        frontend: The frontend that reads its models; empty if the suffix decides.
        frontends: Names of frontends by suffix of the model, where the suffix decides.
        output: The file that it writes, if it converts a model.
        superseded: Options that another one, if given, replaces.
    """

    command: str
    options: tuple[Option, ...] = ()
    defaults: tuple[Tokens, ...] = ()
    implied: tuple[Implied, ...] = ()
    frontend: str = ""
    frontends: Mapping[str, str] = field(default_factory=dict)
    output: OutputFile | None = None
    superseded: Mapping[str, str] = field(default_factory=dict)
