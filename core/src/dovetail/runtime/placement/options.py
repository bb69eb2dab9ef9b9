"""Options and configs of `hetero`, and of other backends with members."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

import msgspec

from dovetail.errors import Problem, suggest_name
from dovetail.plugins import names
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig, changed_settings
from dovetail.runtime.contract import Options
from dovetail.runtime.installed import without_files
from dovetail.runtime.names import COMPOSITE, HETERO, split_arch, split_order, without_arch

# Settings of members by their names; typed by the members' own configs.
MemberSettings = dict[str, dict[str, Any]]


class HeteroOptions(Options, frozen=True):
    """Options of the backend `hetero`: which backends run a graph, and what must hold.

    All but `members` are the keys of `[placement]` in a config file.

    Attributes:
        order: Names of the backends; the first one that supports a node runs it.
        min_fraction: Minimum fraction that the first backend must run, of the nodes and of the
            multiply-accumulates.
        forbid: Backends that must not run any node, although they are in the order: what would
            run there is an error that lists the nodes.
        pin: Backend of a node, by the node's name or its name in the user's model; for all graphs.
        members: Options of the backends in `order`.
    """

    order: tuple[str, ...] | None = None
    min_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    forbid: tuple[str, ...] = ()
    pin: dict[str, str] = msgspec.field(default_factory=dict)
    members: MemberSettings = msgspec.field(default_factory=dict)

    @classmethod
    def without_files(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded options without files that members write; see `Options`."""
        members = options.get("members")
        if not isinstance(members, Mapping):
            return dict(options)
        return {**options, "members": {n: without_files(n, own) for n, own in members.items()}}

    def ordered(self, order: tuple[str, ...]) -> Self:
        """Return these options with an order of names such as `htp` or `htp:v75`."""
        members = dict(self.members)
        for name, arch in map(split_arch, order):
            if arch is not None:
                members[name] = {**members.get(name, {}), "arch": arch}
        plain = tuple(map(without_arch, order))
        return msgspec.structs.replace(self, order=plain, members=members)


@functools.cache
def table_type(options: type[HeteroOptions]) -> type[msgspec.Struct]:
    """Return the type of the table that has these options in a config file: without `members`."""
    fields = [f for f in msgspec.structs.fields(options) if f.name != "members"]
    named = [(f.name, f.type, msgspec.field(**_default(f))) for f in fields]
    return msgspec.defstruct(f"{options.__name__}Table", named, frozen=True)


def _default(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        return {"default_factory": field.default_factory}
    return {"default": field.default}


def options_from(
    backend: str,
    table: msgspec.Struct,
    sections: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the options of a backend with members as plain data.

    Args:
        backend: Its name, such as `hetero` or `hetero:a,b`.
        table: Its table of a config file.
        sections: The options of backends in it, by name; without an order all are for members.
    """
    order = order_of(backend, table)
    return {
        **changed_settings(table),
        "order": None if order is None else list(order),
        "members": {n: own for n, own in sections.items() if order is None or n in order},
    }


def order_of(backend: str, table: Any) -> tuple[str, ...] | None:
    """Return the order of `hetero:a,b:v75`, without architectures, else that of its table."""
    _, order = split_order(backend)
    given: tuple[str, ...] | None = table.order
    return given if order is None else tuple(map(without_arch, order))


class HeteroDeviceConfig(DeviceConfig, frozen=True):
    """Settings of a device for each member.

    Attributes:
        members: Settings of their devices.
    """

    members: MemberSettings = msgspec.field(default_factory=dict)

    def common(self) -> dict[str, Any]:
        """Return the settings that are for all members."""
        return {}


class HeteroContextConfig(ContextConfig, frozen=True):
    """Settings of a context.

    Attributes:
        members: Settings of the members' contexts beyond these.
    """

    members: MemberSettings = msgspec.field(default_factory=dict)

    def common(self) -> dict[str, Any]:
        """Return the settings that are for all members."""
        return {name: getattr(self, name) for name in ContextConfig.__struct_fields__}


class HeteroGraphConfig(GraphConfig, frozen=True):
    """Settings of a graph.

    Attributes:
        pin: As in the options, for this graph only.
        members: Settings of the graph's parts on the members, beyond these.
    """

    pin: dict[str, str] = msgspec.field(default_factory=dict)
    members: MemberSettings = msgspec.field(default_factory=dict)

    def common(self) -> dict[str, Any]:
        """Return the settings that are for all members."""
        return {name: getattr(self, name) for name in GraphConfig.__struct_fields__}


def find_missing(options: HeteroOptions) -> list[Problem]:
    """Return a problem for each backend of the order that is not installed."""
    known = set(names("dovetail.backends")) - {*COMPOSITE}
    return [
        Problem(f"backend '{name}' is not installed", "order", suggest_name(name, known))
        for name in dict.fromkeys(options.order or ())
        if name not in known and not _is_composite(name)
    ]


def find_faults(options: HeteroOptions) -> list[Problem]:
    """Return all faults of options but missing backends."""
    order = options.order
    if order is None:
        return []
    hint = f"for example {HETERO}:a,b"
    found = [] if order else [Problem("no backend in the order", "order", hint)]
    for name, count in Counter(order).items():
        if count > 1:
            found.append(Problem(f"duplicate backend '{name}'", "order"))
        if _is_composite(name):
            hint = "list all backends in one order"
            text = f"'{name.partition(':')[0]}' cannot be a member of another backend"
            found.append(Problem(text, "order", hint))
    chosen = [("forbid", name) for name in options.forbid]
    chosen += [(f"pin.{node}", name) for node, name in options.pin.items()]
    chosen += [("members", name) for name in options.members]
    return [*found, *_unknown(chosen, order)]


def unknown_members(settings: Mapping[str, object], order: tuple[str, ...]) -> list[Problem]:
    """Return a problem for each member that is not in the order."""
    return list(_unknown([("members", name) for name in settings], order))


def unknown_pins(pin: Mapping[str, str], order: tuple[str, ...]) -> list[Problem]:
    """Return a problem for each pin to a backend that is not in the order."""
    return list(_unknown([(f"pin.{node}", name) for node, name in pin.items()], order))


def _unknown(chosen: list[tuple[str, str]], order: tuple[str, ...]) -> Iterator[Problem]:
    for where, name in chosen:
        if name not in order:
            text = f"backend '{name}' is not in the order"
            yield Problem(text, where, suggest_name(name, order))


def _is_composite(name: str) -> bool:
    return name.partition(":")[0] in COMPOSITE
