"""A node's attributes, typed."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from dovetail.errors import FrontendError, UnsupportedOpError

_KINDS = {number: name for name, number in AttributeProto.AttributeType.items()}

_NUMBERS = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS, AttributeProto.FLOATS)


class Attributes:
    """Attributes of one node, by name and type.

    Every getter returns the default if the node does not have the attribute.

    Raises:
        FrontendError: From every getter: the attribute is of another type.
    """

    def __init__(self, node: NodeProto) -> None:
        self._found = {attribute.name: attribute for attribute in node.attribute}

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def integer(self, name: str, default: int) -> int:
        """Return an integer."""
        found = self._get(name, AttributeProto.INT)
        return default if found is None else found.i

    def number(self, name: str, default: float) -> float:
        """Return a number."""
        found = self._get(name, AttributeProto.FLOAT)
        return default if found is None else found.f

    def text(self, name: str, default: str) -> str:
        """Return a string."""
        found = self._get(name, AttributeProto.STRING)
        return default if found is None else found.s.decode("utf-8", "replace")

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return integers; None if the node lacks the attribute."""
        found = self._get(name, AttributeProto.INTS)
        return None if found is None else tuple(found.ints)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return numbers; None if the node lacks the attribute."""
        found = self._get(name, AttributeProto.FLOATS)
        return None if found is None else tuple(found.floats)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return strings; None if the node lacks the attribute."""
        found = self._get(name, AttributeProto.STRINGS)
        return None if found is None else tuple(t.decode("utf-8", "replace") for t in found.strings)

    def tensor(self, name: str) -> TensorProto | None:
        """Return a tensor; None if the node lacks the attribute."""
        found = self._get(name, AttributeProto.TENSOR)
        return None if found is None else found.t

    def plain(self) -> dict[str, Any]:
        """Return all attributes as Python's numbers, texts and lists of them, tensors as arrays.

        Raises:
            FrontendError: A tensor's data do not fit its shape, a text is not UTF-8, or a function
                is to say what one is.
            UnsupportedOpError: An attribute is of another type.
        """
        return {name: _plain(found) for name, found in self._found.items()}

    def _get(self, name: str, kind: AttributeProto.AttributeType) -> AttributeProto | None:
        found = self._found.get(name)
        if found is not None and found.type != kind:
            raise FrontendError(
                f"attribute '{name}' is {_KINDS.get(found.type, found.type)}, expected "
                f"{_KINDS[kind]}"
            )
        return found


def _plain(attribute: AttributeProto) -> Any:
    kind = attribute.type
    if attribute.ref_attr_name:
        raise FrontendError(
            f"attribute '{attribute.name}' refers to the function attribute "
            f"'{attribute.ref_attr_name}', "
            "but the node is in no function"
        )
    try:
        if kind == AttributeProto.TENSOR:
            return numpy_helper.to_array(attribute.t)
        if kind == AttributeProto.STRING:
            return attribute.s.decode()
        if kind == AttributeProto.STRINGS:
            return [text.decode() for text in attribute.strings]
    except (ValueError, TypeError) as error:  # wrong text is a ValueError too
        raise FrontendError(f"invalid attribute '{attribute.name}': {error}") from error
    if kind in _NUMBERS:
        return helper.get_attribute_value(attribute)
    raise UnsupportedOpError(
        f"attribute '{attribute.name}' is {_KINDS.get(kind, kind)}, which no param can hold"
    )
