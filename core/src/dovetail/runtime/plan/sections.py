"""Sections: the updateable tensors of a plan as data, and their forms in its slots."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dovetail.container.entries import TensorEntry, dump_tensor, load_tensor
from dovetail.errors import ContainerError
from dovetail.ir import Array, Blob, Tensor
from dovetail.runtime.plan.executor import PlanPrepared
from dovetail.runtime.plan.images import BlobKeys, Blobs, PlanData, SlotData, record_slot
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.slots import Slot


class SectionData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section.

    Attributes:
        model: Digest of the graph.
        slots: Forms of the updateable tensors.
        tensors: The tensors themselves, where the model was available.
        arrays: Their blobs, by their index in the entries.
        plan: The whole plan, if encodings differ from those that the graph was prepared with. Blobs
            that the base has are left out.
    """

    model: str
    slots: tuple[SlotData, ...]
    tensors: tuple[TensorEntry, ...]
    arrays: tuple[str, ...]
    plan: Any = None


def section_of(
    prepared: PlanPrepared, names: Collection[str], blobs: Blobs, plan: PlanData | None
) -> SectionData:
    """Return updateable tensors of a graph.

    Args:
        prepared: The graph.
        names: Names of the tensors.
        blobs: Receives the data.
        plan: The graph's plan if that is another one than the base's, which has its own slots.
    """
    slots = [slot for slot in prepared.plan.slots if plan is None and slot.reads(names)]
    table = BlobKeys(blobs)
    remaker = prepared.remaker
    tensors = () if remaker is None else remaker.updateable(names)
    entries = tuple(dump_tensor(tensor, table, "section") for tensor in tensors)
    return SectionData(
        "" if remaker is None else remaker.model,
        tuple(record_slot(slot, blobs) for slot in slots),
        entries,
        tuple(table.keys),
        plan,
    )


def typed_section(prepared: PlanPrepared, data: object, where: str) -> SectionData:
    """Return a section of a graph.

    Raises:
        ContainerError: The section is damaged, or of another graph.
    """
    try:
        section = msgspec.convert(data, SectionData)
    except msgspec.ValidationError as error:
        raise RecipeError(f"invalid section: {error}", where=where) from error
    if prepared.remaker is None or section.model != prepared.remaker.model:
        raise ContainerError(
            "the section is of another graph",
            code="CONTAINER_INCOMPATIBLE",
            where=where,
            hint="apply it to the graph that it was created from",
        )
    return section


def tensors_of(section: SectionData, blobs: Mapping[str, Array], where: str) -> list[Tensor]:
    """Return the tensors of a section.

    Raises:
        ContainerError: They are damaged.
    """
    if any(key not in blobs for key in section.arrays):
        raise RecipeError("a blob of a tensor is missing", where=where)
    arrays = [Blob(blobs[key]) for key in section.arrays]
    return [load_tensor(entry, arrays, where) for entry in section.tensors]


def apply_forms(
    prepared: PlanPrepared, section: SectionData, blobs: Mapping[str, Array], where: str
) -> None:
    """Use the forms of a section; nothing changes if an error is raised.

    Raises:
        ContainerError: The section is damaged.
        BackendError: A step must be made again from the model, which is not available.
    """
    slots = {(slot.inputs, slot.form): slot for slot in prepared.plan.slots}
    found: list[tuple[Slot, Array]] = []
    for each in section.slots:
        slot, array = slots.get((each.inputs, each.form)), blobs.get(each.blob)
        if slot is None or array is None or array.nbytes != slot.data.nbytes:
            raise RecipeError(f"a form of {', '.join(each.inputs)} does not match", where=where)
        found.append((slot, array))
    prepared.use_forms(tensors_of(section, blobs, where), found, where)
