"""Decoding of XML elements to op definitions, with a report of every fault and its line."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ir import DType
from dovetail.ops import Op, ShapeText
from dovetail_tools.op_definitions._agreement import disagreements
from dovetail_tools.op_definitions._grammar import ATTRIBUTES, CHILDREN, SUPPLEMENT_PORT
from dovetail_tools.op_definitions._model import (
    Constraint,
    Definitions,
    Layout,
    OpDefinition,
    Parameter,
    ShapeRule,
    Tensor,
)
from dovetail_tools.op_definitions._supplements import Supplement, SupplementPort
from dovetail_tools.op_definitions._xml import Element, read_xml

_PREFIX = "QNN_DATATYPE_"
_BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
_CONSTRAINT_KINDS = ("Number", "Shape", "Value", "Datatype", "Description")
_BACKENDS = ("CPU", "GPU", "HTP", "DSP", "HTA", "LPAI", "AIC")
# Members of every op's class, which a param of the same name would hide.
_RESERVED = {
    *("infer", "reference", *vars(Op)),
    *("ins", "self"),  # parameters of its constructor
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_definitions(path: Path) -> Definitions:
    """Return the op definitions of an XML file.

    Raises:
        ConfigError: The file cannot be read or is invalid; lists all faults with their lines.
    """
    root = read_xml(path)
    decoder = _Decoder(str(path))
    found = decoder.definitions(root)
    if decoder.problems or found is None:
        raise ConfigError(
            "invalid op definitions",
            where=str(path),
            problems=sorted(decoder.problems, key=lambda p: int(p.where.rpartition(":")[2])),
        )
    return found


class _Decoder:
    def __init__(self, file: str) -> None:
        self._file = file
        self.problems: list[Problem] = []

    # -- the file --------------------------------------------------------------------------------

    def definitions(self, root: Element) -> Definitions | None:
        if root.tag != "OpDefCollection":
            self._fault(root.line, f"root element is <{root.tag}>; expected <OpDefCollection>")
            return None
        self._check(root, CHILDREN["OpDefCollection"])
        package = root.attributes.get("PackageName", "")
        if not package:
            self._fault(root.line, "missing attribute PackageName of <OpDefCollection>")
        defined = [e for each in self._all(root, "OpDefList") for e in self._all(each, "OpDef")]
        for each in self._all(root, "OpDefList"):
            self._check(each, CHILDREN["OpDefList"])
        supplements = [
            s for each in self._all(root, "SupplementalOpDefList") for s in self._supplements(each)
        ]
        if not defined:
            self._fault(root.line, "no op is defined: missing <OpDef>")
        ops = [op for e in defined if (op := self._op(e, supplements)) is not None]
        self._unique("op", [(op.name, op.line) for op in ops])
        for line, text in disagreements(ops, supplements, unread={self._name(e) for e in defined}):
            self._fault(line, text)
        return Definitions(
            package,
            root.attributes.get("Domain", ""),
            root.attributes.get("Version", "1.0.0"),
            tuple(ops),
            self._file,
        )

    def _op(self, element: Element, supplements: Sequence[Supplement]) -> OpDefinition | None:
        self._check(element, CHILDREN["OpDef"])
        name = self._identifier(element, "<OpDef>")
        if name is None:
            return None
        mine = [s for s in supplements if s.op == name]
        inputs = [self._tensor(e, mine, "in") for e in self._all(element, "Input")]
        outputs = [self._tensor(e, mine, "out") for e in self._all(element, "Output")]
        params = [
            p for e in self._all(element, "Parameter") if (p := self._param(e, mine)) is not None
        ]
        if not outputs:
            self._fault(element.line, f"missing <Output> of op '{name}'")
        for what, parts in (("input", inputs), ("output", outputs)):
            self._unique(f"{what} of op '{name}'", [(t.name, t.line) for t in parts])
            for tensor in parts[:-1]:
                if tensor.is_repeated:
                    self._fault(
                        tensor.line, f"repeated {what} '{tensor.name}' must be the last one"
                    )
        self._unique(f"parameter of op '{name}'", [(p.name, p.line) for p in params])
        description, code = self._described(element)
        return OpDefinition(
            name,
            description,
            code,
            tuple(
                (r.attributes.get("Source", r.text), r.attributes.get("Url", ""))
                for r in self._all(element, "Reference")
            ),
            tuple(inputs),
            tuple(outputs),
            tuple(params),
            tuple(self._backend(b.text, b.line) for b in self._all(element, "SupportedBackend")),
            self._flag(element, "UseDefaultTranslation", default=False),
            element.line,
        )

    # -- parts of an op --------------------------------------------------------------------------

    def _tensor(self, element: Element, supplements: Sequence[Supplement], side: str) -> Tensor:
        self._check(element, CHILDREN[element.tag])
        name = self._name(element)
        if not name:
            self._fault(element.line, f"missing <Name> in <{element.tag}>")
        dtypes, specific = self._dtypes(element)
        if not dtypes and not specific:
            self._fault(element.line, f"missing <Datatype> in <{element.tag}> '{name}'")
        default = self._text(element, "Default")
        return Tensor(
            name,
            self._described(element)[0],
            self._flag(element, "Mandatory", default=True),
            self._flag(element, "Repeated", default=False),
            self._flag(element, "IsStaticTensor", default=False),
            () if specific else dtypes,
            _by_backend(supplements, side, name),
            self._shape(element),
            default,
            (*self._constraints(element), *_constraints_by_backend(supplements, side, name)),
            element.line,
        )

    def _param(self, element: Element, supplements: Sequence[Supplement]) -> Parameter | None:
        self._check(element, CHILDREN["Parameter"])
        name = self._identifier(element, "<Parameter>")
        if name is None:
            return None
        if name in _RESERVED or keyword.iskeyword(name) or name.startswith("__"):
            self._fault(element.line, f"reserved parameter name '{name}'")
            return None
        dtypes, specific = self._dtypes(element)
        choices = self._choices(element)
        if not dtypes and not specific and not choices:
            self._fault(element.line, f"missing <Datatype> in <Parameter> '{name}'")
        return Parameter(
            name,
            self._described(element)[0],
            self._flag(element, "Mandatory", default=True),
            () if specific else dtypes,
            _by_backend(supplements, "param", name),
            tuple(s.backend for s in supplements if s.only_default(name)),
            self._shape(element),
            self._text(element, "Default"),
            choices,
            (*self._constraints(element), *_constraints_by_backend(supplements, "param", name)),
            element.line,
        )

    def _choices(self, element: Element) -> tuple[str, ...]:
        found: list[str] = []
        for enumeration in self._all(element, "Enumeration"):
            self._check(enumeration, CHILDREN["Enumeration"])
            for choice in self._all(enumeration, "Enum"):
                if not _IDENTIFIER.fullmatch(choice.text):
                    self._fault(choice.line, f"invalid name '{choice.text}' in <Enum>")
                elif choice.text == "mro" or choice.text.startswith("_"):
                    text = f"reserved name '{choice.text}' in <Enum>"
                    self._fault(choice.line, text)
                elif choice.text in found:
                    self._fault(choice.line, f"duplicate <Enum> '{choice.text}'")
                else:
                    found.append(choice.text)
            if not found:
                self._fault(enumeration.line, "missing <Enum> in <Enumeration>")
        return tuple(found)

    def _shape(self, element: Element) -> ShapeRule | None:
        shape = self._one(element, "Shape")
        if shape is None:
            return None
        self._check(shape, CHILDREN["Shape"])
        rank = self._rank(shape)
        text, layout = self._text(shape, "Text"), self._layout(shape)
        dims = ShapeText.parse(text)
        if rank is not None and dims is not None and len(dims.terms) != rank:
            self._fault(shape.line, f"expected {rank} dimensions, got {len(dims.terms)} in {text}")
        if rank is not None and rank != 4 and layout in (Layout.NHWC, Layout.NHCW):
            self._fault(shape.line, f"layout {layout.value} requires 4 dimensions, got {rank}")
        if rank is None and dims is not None:
            rank = len(dims.terms)  # a list of dimensions is more precise than ND
        return ShapeRule(rank, layout, text, dims, shape.line)

    def _rank(self, shape: Element) -> int | None:
        element = self._one(shape, "Rank")
        text = "" if element is None else element.text.upper()
        if element is None:
            self._fault(shape.line, "missing <Rank> in <Shape>")
        elif text == "SCALAR":
            return 0
        elif match := re.fullmatch(r"(\d{1,2})D?", text):
            return int(match[1])
        elif text != "ND":
            self._fault(
                element.line, f"invalid rank '{element.text}'; expected SCALAR, 1D, 2D, ... or ND"
            )
        return None

    def _layout(self, shape: Element) -> Layout:
        element = self._one(shape, "Layout")
        if element is None:
            return Layout.UNDEFINED
        try:
            return Layout(element.text)
        except ValueError:
            names = ", ".join(each.value for each in Layout)
            self._fault(
                element.line, f"unsupported layout '{element.text}'; expected one of {names}"
            )
            return Layout.UNDEFINED

    def _dtypes(self, element: Element) -> tuple[tuple[DType, ...], bool]:
        """Return the types, and whether they depend on the backend."""
        found: list[DType] = []
        specific = False
        for each in self._all(element, "Datatype"):
            if each.text == _BACKEND_SPECIFIC:
                specific = True
                continue
            name = each.text.removeprefix(_PREFIX)
            if name in DType.__members__ and name != "UNDEFINED":
                found.append(DType[name])
            else:
                hint = suggest_name(name, DType.__members__)
                self._fault(each.line, f"unknown data type '{each.text}'; {hint}")
                specific = True  # the type is unknown: report no further faults
        return tuple(dict.fromkeys(found)), specific

    def _constraints(self, element: Element) -> tuple[Constraint, ...]:
        found = []
        for each in self._all(element, "Constraint"):
            self._check(each, {})
            kind = each.attributes.get("Type", "Description")
            if kind not in _CONSTRAINT_KINDS:
                hint = suggest_name(kind, _CONSTRAINT_KINDS)
                self._fault(each.line, f"unknown type of constraint '{kind}'; {hint}")
            found.append(Constraint(kind, each.text, each.line))
        return tuple(found)

    # -- supplements -----------------------------------------------------------------------------

    def _supplements(self, element: Element) -> list[Supplement]:
        self._check(element, CHILDREN["SupplementalOpDefList"])
        backend = self._backend(element.attributes.get("Backend", ""), element.line)
        supported: list[tuple[str, int]] = []
        for each in self._all(element, "SupportedOps"):
            self._check(each, CHILDREN["SupportedOps"])
            supported += [(name.text, name.line) for name in self._all(each, "OpName")]
        found = [Supplement(backend, name, line, {}) for name, line in supported]
        for each in self._all(element, "SupplementalOpDef"):
            self._check(each, CHILDREN["SupplementalOpDef"])
            name = self._name(each)
            if not name:
                self._fault(each.line, "missing <Name> in <SupplementalOpDef>")
                continue
            ports = {}
            for tag, side in (("Input", "in"), ("Output", "out"), ("Parameter", "param")):
                for port in self._all(each, tag):
                    self._check(port, SUPPLEMENT_PORT)
                    ports[side, self._name(port)] = SupplementPort(
                        self._dtypes(port)[0],
                        self._shape(port),
                        self._flag(port, "OnlyDefaultSupported", default=False),
                        self._constraints(port),
                        port.line,
                    )
            found.append(Supplement(backend, name, each.line, ports))
        return found

    def _backend(self, text: str, line: int) -> str:
        if text not in _BACKENDS:
            what = f"unknown backend '{text}'" if text else "missing name of a backend"
            self._fault(line, f"{what}; expected one of {', '.join(_BACKENDS)}")
        return text

    # -- elements --------------------------------------------------------------------------------

    def _fault(self, line: int, text: str) -> None:
        self.problems.append(Problem(text, f"{self._file}:{line}"))

    def _check(self, element: Element, children: Mapping[str, bool]) -> None:
        """Report unknown and repeated children and attributes of an element."""
        seen: set[str] = set()
        for child in element.children:
            if child.tag not in children:
                hint = suggest_name(child.tag, children) if children else "no elements are allowed"
                self._fault(child.line, f"unknown element <{child.tag}> in <{element.tag}>; {hint}")
            elif child.tag in seen and not children[child.tag]:
                self._fault(child.line, f"duplicate <{child.tag}> in <{element.tag}>")
            seen.add(child.tag)
        known = ATTRIBUTES.get(element.tag, set())
        for name in element.attributes.keys() - known:
            hint = suggest_name(name, known) if known else "no attributes are allowed"
            self._fault(element.line, f"unknown attribute '{name}' of <{element.tag}>; {hint}")

    def _all(self, element: Element, tag: str) -> list[Element]:
        return [child for child in element.children if child.tag == tag]

    def _one(self, element: Element, tag: str) -> Element | None:
        return next(iter(self._all(element, tag)), None)

    def _text(self, element: Element, tag: str) -> str:
        found = self._one(element, tag)
        return "" if found is None else found.text

    def _name(self, element: Element) -> str:
        return self._text(element, "Name")

    def _identifier(self, element: Element, what: str) -> str | None:
        name = self._one(element, "Name")
        if name is None or not name.text:
            self._fault(element.line, f"missing <Name> in {what}")
            return None
        if not _IDENTIFIER.fullmatch(name.text):
            text = f"invalid name '{name.text}'; expected an identifier of letters, digits and _"
            self._fault(name.line, text)
            return None
        return name.text

    def _described(self, element: Element) -> tuple[str, str]:
        """Return the text and the code of a description."""
        found = self._one(element, "Description")
        if found is None:
            return "", ""
        self._check(found, CHILDREN["Description"])
        return self._text(found, "Content") or found.text, self._text(found, "Code")

    def _flag(self, element: Element, tag: str, *, default: bool) -> bool:
        found = self._one(element, tag)
        if found is None:
            return default
        if found.text.lower() not in ("true", "false", "1", "0"):
            self._fault(found.line, f"expected true or false in <{tag}>, got '{found.text}'")
        return found.text.lower() in ("true", "1")

    def _unique(self, what: str, named: Iterable[tuple[str, int]]) -> None:
        seen: dict[str, int] = {}
        for name, line in named:
            if name and name in seen:
                self._fault(line, f"duplicate {what} '{name}' (see line {seen[name]})")
            seen.setdefault(name, line)


def _by_backend(
    supplements: Sequence[Supplement], side: str, name: str
) -> dict[str, tuple[DType, ...]]:
    return {
        s.backend: port.dtypes
        for s in supplements
        if (port := s.ports.get((side, name))) is not None and port.dtypes
    }


def _constraints_by_backend(
    supplements: Sequence[Supplement], side: str, name: str
) -> Iterator[Constraint]:
    for supplement in supplements:
        port = supplement.ports.get((side, name))
        for constraint in () if port is None else port.constraints:
            yield replace(constraint, text=f"{constraint.text} ({supplement.backend})")
