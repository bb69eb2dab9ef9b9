"""Plans as data: steps by their recipes, values by number, constants as blobs."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import msgspec

from dovetail.container import FormKey, Packed
from dovetail.container.entries import GraphEntry, TensorEntry, dump_graph, dump_tensor
from dovetail.ir import Array, Blob, DType, Graph, Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.interface import Endpoint, Interface
from dovetail.runtime.plan.arena import Arena
from dovetail.runtime.plan.builder import Group, Plan, on_host
from dovetail.runtime.plan.recipes import Bind, Data, PlanRecorder, Recipe
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.values import Layout, Step, Storage, Value

PLAN_FORMAT = 16  # part of the fingerprint of backends with plans
MADE_AGAIN = ""  # the builder of a step without a recipe

# Returns the number of an engine's layout.
RecordLayout = Callable[[Any, PlanRecorder], int]


class FormData(Data, frozen=True):
    """The key of a form in a `WeightStore`."""

    contents: tuple[str, ...]
    form: str
    space: str


class ValueData(Data, frozen=True):
    """A value; `layout` is an item, `alias` a value, `form` and `slot` indices of the plan's."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    storage: str
    layout: int | None = None
    alias: int | None = None
    offset: int = 0
    blob: str | None = None
    form: int | None = None
    slot: int | None = None


class StoredForm(Data, frozen=True):
    """A form with its bytes."""

    key: FormData
    dtype: DType
    shape: tuple[int, ...]
    blob: str


class SlotData(Data, frozen=True):
    """A slot: names of its tensors, its form, and the bytes at the time of recording."""

    inputs: tuple[str, ...]
    form: str
    dtype: DType
    shape: tuple[int, ...]
    blob: str


class StepData(Data, frozen=True):
    """A step; `nodes` are the user's, `group` and `choice` say how it was made."""

    nodes: tuple[str, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: tuple[int, ...]
    builder: str
    data: Any
    group: tuple[str, ...] = ()
    choice: int = 0
    work: int = 0


class EndpointData(Data, frozen=True):
    """An input or output: its value and its tensor."""

    value: int
    tensor: TensorEntry


class PlanData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan.

    Attributes:
        items: What several recipes share: builder and data; each refers to earlier ones only.
        values: Each refers to earlier ones only.
        steps: In order of execution.
        inputs, outputs: In order.
        offsets: Value and offset of each value that owns bytes in the arena.
        forms: Forms of constants that the steps use.
        slots: Forms of updateable tensors.
        arrays: Blobs of the entries, by their index in these.
        model: Digest of the graph's structure, checked where the model is used.
        settings: The backend's own data.
        updateable: The updateable tensors as they were when the plan was made, without data.
        excerpt: The nodes of the steps without recipes, see `excerpt_of`; None if all have one.
    """

    items: tuple[tuple[str, Any], ...]
    values: tuple[ValueData, ...]
    steps: tuple[StepData, ...]
    inputs: tuple[EndpointData, ...]
    outputs: tuple[EndpointData, ...]
    offsets: tuple[tuple[int, int], ...]
    forms: tuple[StoredForm, ...]
    slots: tuple[SlotData, ...]
    arrays: tuple[str, ...]
    model: str
    settings: dict[str, Any]
    updateable: tuple[TensorEntry, ...]
    excerpt: GraphEntry | None

    @property
    def made_again(self) -> frozenset[str]:
        """Names of the nodes of the steps without recipes."""
        found = (step.group for step in self.steps if step.builder == MADE_AGAIN)
        return frozenset(name for group in found for name in group)


class Blobs:
    """The blobs of an image, by the SHA-256 of their bytes."""

    def __init__(self) -> None:
        self.found: dict[str, Array] = {}
        self._known: dict[int, tuple[str, Array]] = {}

    def add(self, array: Array) -> str:
        """Return the key of an array's bytes; add them if they are new."""
        known = self._known.get(id(array))
        if known is None:
            blob = Blob(array)
            known = self._known[id(array)] = (blob.hash, array)
            self.found.setdefault(blob.hash, blob.bytes)
        return known[0]


class BlobKeys:
    """A `BlobSink` whose blobs are those of an image.

    Args:
        blobs: Receives the blobs.

    Attributes:
        keys: Index by key, in order.
    """

    def __init__(self, blobs: Blobs) -> None:
        self.keys: dict[str, int] = {}
        self._blobs = blobs

    def add(self, blob: Blob) -> int:
        """Return the index of a blob; see `BlobSink`."""
        self._blobs.found.setdefault(blob.hash, blob.bytes)
        return self.keys.setdefault(blob.hash, len(self.keys))


class PlanWriter:
    """Records a plan: a `PlanRecorder`.

    Args:
        record_layout: Records the engine's layouts.
        blobs: Receives the constants.
    """

    def __init__(self, record_layout: RecordLayout | None, blobs: Blobs) -> None:
        self._record_layout = record_layout
        self._blobs = blobs
        self._numbers: dict[Value, int] = {}
        self._values: list[ValueData] = []
        self._item_numbers: dict[tuple[str, Hashable], int] = {}
        self._items: list[tuple[str, Any]] = []
        self._forms: dict[FormKey, int] = {}
        self._slots: dict[Slot, int] = {}

    def record(
        self,
        plan: Plan,
        arena: Arena,
        interface: Interface,
        model: str,
        settings: Mapping[str, Any],
        updateable: Iterable[Tensor] = (),
        excerpt: Graph | None = None,
    ) -> PlanData:
        """Return a plan as data.

        Args:
            plan: The plan.
            arena: Its arena.
            interface: Inputs and outputs of its graph.
            model: The graph's `digest_of`.
            settings: The backend's own data, of JSON types.
            updateable: Updateable tensors of the graph, without data.
            excerpt: The nodes of its steps without recipes; None if there are none.
        """
        forms = {packed.key: packed for packed in plan.forms}
        self._forms = {key: i for i, key in enumerate(forms)}
        self._slots = {slot: i for i, slot in enumerate(plan.slots)}
        table = BlobKeys(self._blobs)
        inputs = self._endpoints(interface.inputs, plan.inputs, table)
        outputs = self._endpoints(interface.outputs, plan.outputs, table)
        steps = tuple(
            self._step(step, group) for step, group in zip(plan.steps, plan.groups, strict=True)
        )
        known = tuple(dump_tensor(tensor, table, "plan") for tensor in updateable)
        stored_excerpt = None if excerpt is None else dump_graph(excerpt, table, is_part=True)
        offsets = tuple((self.value(value), at) for value, at in arena.offsets.items())
        return PlanData(
            tuple(self._items),
            tuple(self._values),
            steps,
            inputs,
            outputs,
            offsets,
            tuple(self._form(packed) for packed in forms.values()),
            tuple(record_slot(slot, self._blobs) for slot in plan.slots),
            tuple(table.keys),
            model,
            dict(settings),
            known,
            stored_excerpt,
        )

    def value(self, value: Value) -> int:
        """Return the number of a value; see `PlanRecorder`."""
        number = self._numbers.get(value)
        if number is not None:
            return number
        alias = None if value.alias_of is None else self.value(value.alias_of)
        layout, blob, form = value.layout, None, None
        if value.storage is Storage.CONSTANT and alias is None and value.slot is None:
            form = None if value.key is None else self._forms.get(value.key)
            if form is None and value.array is not None:
                blob = self._blobs.add(on_host(value.array))
        self._values.append(
            ValueData(
                value.name,
                value.spec.dtype,
                tuple(map(int, value.spec.shape)),
                value.storage.name,
                None if layout is None else self._layout(layout),
                alias,
                value.offset,
                blob,
                form,
                None if value.slot is None else self._slots[value.slot],
            )
        )
        self._numbers[value] = number = len(self._values) - 1
        return number

    def optional(self, value: Value | None) -> int | None:
        """Return the number of a value, or None; see `PlanRecorder`."""
        return None if value is None else self.value(value)

    def inner(self, bind: Bind) -> tuple[str, Any]:
        """Return a bind in another; see `PlanRecorder`."""
        if not isinstance(bind, Recipe):
            raise AssertionError(f"{bind} in a recipe is none")
        name, data = bind.record(self)
        return name, msgspec.to_builtins(data)

    def item(self, builder: str, key: Hashable, data: Callable[[], Data]) -> int:
        """Return the number of an item; see `PlanRecorder`."""
        number = self._item_numbers.get((builder, key))
        if number is None:
            found = msgspec.to_builtins(data())
            self._items.append((builder, found))
            number = self._item_numbers[builder, key] = len(self._items) - 1
        return number

    def _layout(self, layout: Layout) -> int:
        if self._record_layout is None:
            raise AssertionError(f"the layout {layout.key} cannot be recorded")
        return self._record_layout(layout, self)

    def _step(self, step: Step, group: Group | None) -> StepData:
        reads, writes, scratch = (
            tuple(map(self.value, values)) for values in (step.reads, step.writes, step.scratch)
        )
        builder, data = MADE_AGAIN, None
        if isinstance(step.bind, Recipe):
            builder, data = self.inner(step.bind)
        elif group is None:
            raise AssertionError(f"a reorder of {step.reads[0].name} has no recipe")
        nodes, choice = ((), 0) if group is None else (group.nodes, group.choice)
        return StepData(step.nodes, reads, writes, scratch, builder, data, nodes, choice, step.work)

    def _endpoints(
        self, ends: Mapping[str, Endpoint], values: Mapping[str, Value], table: BlobKeys
    ) -> tuple[EndpointData, ...]:
        return tuple(
            EndpointData(self.value(values[name]), dump_tensor(end.tensor, table, "interface"))
            for name, end in ends.items()
        )

    def _form(self, packed: Packed) -> StoredForm:
        array = packed.to_host()
        dtype, shape = DType.of(array.dtype), tuple(array.shape)
        return StoredForm(FormData(*packed.key), dtype, shape, self._blobs.add(array))


def record_slot(slot: Slot, blobs: Blobs) -> SlotData:
    """Return a slot as data."""
    data = slot.to_host()
    dtype, shape = DType.of(data.dtype), tuple(data.shape)
    return SlotData(slot.inputs, slot.form, dtype, shape, blobs.add(data.copy()))


def made_again(plan: Plan) -> frozenset[str]:
    """Return the names of the nodes of a plan's steps without recipes."""
    steps = zip(plan.steps, plan.groups, strict=True)
    without = (group for step, group in steps if group and not isinstance(step.bind, Recipe))
    return frozenset(name for group in without for name in group.nodes)


def digest_of(graph: CheckedGraph) -> str:
    """Return a digest of a graph's structure: its nodes, and the specs of their tensors."""
    found = hashlib.sha256()
    for view in graph.nodes:
        node = view.node
        tensors = (*node.inputs, *node.outputs)
        specs = [None if t is None else (t.name, t.dtype.name, t.shape) for t in tensors]
        found.update(repr((node.name, node.package, node.op_type, specs)).encode())
    return found.hexdigest()
