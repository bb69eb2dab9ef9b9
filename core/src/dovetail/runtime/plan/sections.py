"""Sections: the updateable tensors of a plan as data, and their forms in its slots."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from dovetail.container import BlobTable
from dovetail.container.entries import TensorEntry, dump_tensor, load_tensor
from dovetail.errors import ContainerError
from dovetail.ir import Array, Blob, Tensor
from dovetail.runtime.plan.executor import PlanPrepared
from dovetail.runtime.plan.images import Blobs, SlotData, record_slot
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.slots import Slot


class SectionData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section.

    Attributes:
        model: Digest of the graph.
        slots: Forms of the updateable tensors.
        tensors: The tensors themselves, where the model was available.
        arrays: Their blobs, by the index in an entry.
        new_encodings: Whether encodings differ from those that the graph was prepared with, so that
            the plan is another one.
    """

    model: str
    slots: tuple[SlotData, ...]
    tensors: tuple[TensorEntry, ...]
    arrays: tuple[str, ...]
    new_encodings: bool = False


def section_of(prepared: PlanPrepared, names: Collection[str], blobs: Blobs) -> SectionData:
    """Return updateable tensors of a graph.

    Args:
        prepared: The graph.
        names: Names of the tensors.
        blobs: Receives the data.
    """
    slots = [slot for slot in prepared.plan.slots if slot.reads(names)]
    table = BlobTable()
    remaker = prepared.remaker
    tensors = () if remaker is None else remaker.updateable(names)
    entries = tuple(dump_tensor(tensor, table, "section") for tensor in tensors)
    return SectionData(
        "" if remaker is None else remaker.model,
        tuple(record_slot(slot, blobs) for slot in slots),
        entries,
        tuple(blobs.add(blob.bytes) for blob in table.blobs),
        prepared.has_new_encodings,
    )


def apply_section(
    prepared: PlanPrepared, data: object, blobs: Mapping[str, Array], where: str
) -> None:
    """Use the updateable tensors of a section; nothing changes if an error is raised.

    Raises:
        ContainerError: The section is damaged, or of another graph.
        BackendError: A step must be made again from the model, which is not available.
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
    if any(key not in blobs for key in section.arrays):
        raise RecipeError("a blob of a tensor is missing", where=where)
    arrays = [Blob(blobs[key]) for key in section.arrays]
    tensors: list[Tensor] = [load_tensor(entry, arrays, where) for entry in section.tensors]
    if section.new_encodings or prepared.has_new_encodings:
        prepared.remaker.require_updates(tensors, where)
        prepared.update(tensors)
        return
    slots = {(slot.inputs, slot.form): slot for slot in prepared.plan.slots}
    found: list[tuple[Slot, Array]] = []
    for each in section.slots:
        slot, array = slots.get((each.inputs, each.form)), blobs.get(each.blob)
        if slot is None or array is None or array.nbytes != slot.data.nbytes:
            raise RecipeError(f"a form of {', '.join(each.inputs)} does not match", where=where)
        found.append((slot, array))
    prepared.use_forms(tensors, found, where)
