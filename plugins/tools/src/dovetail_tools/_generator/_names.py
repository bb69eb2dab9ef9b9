"""The names in a generated dist: folder, module, classes, variables; and rejected names."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dovetail.errors import Problem
from dovetail.ir import DType
from dovetail.plugins import list_plugins
from dovetail_tools._generator._imports import TAKEN
from dovetail_tools._generator._text import literal
from dovetail_tools.op_definitions import Definitions, OpDefinition, Parameter, Tensor

LONGEST = 40  # longer names do not fit a formatter's lines
_LONGEST_CHOICES = 33
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*")
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,5}(?:(?:a|b|rc)\d{1,9})?(?:\.(?:post|dev)\d{1,9})?")
# Modules that a generated dist imports, in addition to the standard library.
_THEIRS = frozenset({"cases", "dovetail", "numpy", "onnx", "pytest", "test", "tests"})


@dataclass(frozen=True, slots=True)
class Names:
    """Names derived from that of an op package.

    Attributes:
        package: Name of the op package, as in nodes.
        module: Name of the Python package.
        dist: Name of the dist and of its folder.
        classes: Names of the ops' classes, by op.
    """

    package: str
    module: str
    dist: str
    classes: dict[str, str]

    @classmethod
    def of(cls, definitions: Definitions) -> Names:
        """Return the names for valid definitions."""
        words = re.sub(r"[^a-z0-9]+", "_", definitions.package.lower()).strip("_") or "package"
        if words in sys.stdlib_module_names | _THEIRS or words.startswith("dovetail_"):
            words = f"{words}_ops"  # it would hide the module
        elif keyword.iskeyword(words) or words[0].isdigit():
            words = f"ops_{words}"
        taken = set(TAKEN)
        classes = {op.name: fresh(class_name(op.name), taken, "Op") for op in definitions.ops}
        return cls(definitions.package, words, words.replace("_", "-"), classes)

    def choices(self, op: OpDefinition, param: Parameter) -> str:
        """Return the name of the class of an enumeration."""
        name = f"{self.classes[op.name]}{class_name(param.name)}"
        if len(name) <= _LONGEST_CHOICES and name not in {*self.classes.values(), *TAKEN}:
            return name
        # which is not the name of an op's class
        number = f"{list(self.classes).index(op.name)}_{op.params.index(param)}"
        return f"{self.classes[op.name][: _LONGEST_CHOICES - 8]}_{number}"


def class_name(name: str) -> str:
    """Return a name in capitalized words: `hard_swish` becomes `HardSwish`."""
    words = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    return words if words and not words[0].isdigit() else f"Op{words}"


def variable(name: str, taken: set[str]) -> str:
    """Return a variable name for a tensor, and reserve it: `in[0]` becomes `in_0`."""
    words = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return fresh(words if words and not words[0].isdigit() else f"x{words}", taken, "")


def fresh(name: str, taken: set[str], suffix: str) -> str:
    """Return a name, with a suffix if it is in use, and reserve it."""
    while name in taken or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        name += suffix or "_"
    taken.add(name)
    return name


def _claim_faults(definitions: Definitions) -> Iterator[Problem]:
    """Yield a problem if another installed dist has an op package of this name: a conflict."""
    for plugin in list_plugins("dovetail.op_packages"):
        if plugin.name == definitions.package and plugin.dist != Names.of(definitions).dist:
            yield Problem(
                f"op package '{plugin.name}' is installed already (dist {plugin.dist} "
                f"{plugin.version})",
                definitions.file,
                "choose another PackageName",
            )


def name_faults(definitions: Definitions) -> list[Problem]:
    """Return the names in definitions that a dist cannot have; empty if there are none."""
    package, domain, version = definitions.package, definitions.domain, definitions.version
    found = package_faults(package, domain, version, definitions.file)
    found += _claim_faults(definitions)
    for op in definitions.ops:
        where = f"{definitions.file}:{op.line}" if definitions.file else f"op '{op.name}'"
        found += [Problem(text, where) for text in _op_faults(op)]
    return found


def package_faults(package: str, domain: str, version: str, where: str = "") -> list[Problem]:
    """Return the faults of a package's names; empty if there are none.

    Args:
        package: Name of the package.
        domain: Domain of its operators; may be empty.
        version: Version of the package.
        where: Location of the names.
    """
    found = []
    form = f"up to {LONGEST} letters, digits and _, in parts joined by . or -"
    for what, text in (("package name", package), ("domain", domain)):
        if (text or what != "domain") and (not _DOTTED.fullmatch(text) or len(text) > LONGEST):
            found.append(Problem(f"invalid {what} {text!r}", where, form))
    if not _VERSION.fullmatch(version):
        text = f"invalid version {version!r} of a dist"
        found.append(Problem(text, where, "expected the form 1.2.3"))
    return found


def _op_faults(op: OpDefinition) -> Iterator[str]:
    parts: Iterable[Tensor | Parameter] = (*op.inputs, *op.outputs, *op.params)
    names = [op.name, *(p.name for p in parts), *(c for p in op.params for c in p.choices)]
    for name in names:
        if len(name) > LONGEST:
            yield f"the name '{name[:20]}...' is longer than {LONGEST} characters"
        elif not name.isprintable():
            yield f"the name {name!r} has invisible characters"
    for param in op.params:
        if param.all_dtypes[0] is DType.STRING and len(literal(param.default)) > LONGEST:
            yield f"the default of '{param.name}' is longer than {LONGEST} characters"
        if param.name in TAKEN:
            yield f"the parameter '{param.name}' would hide a name that generated code needs"
