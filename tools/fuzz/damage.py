"""Damage to a file's bytes, regardless of their meaning."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Damage = Callable[[bytearray, Random], None]
# Replacements for a field's number or length: small, at the limits, without an end.
_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff" * 11,
)


def damage(data: bytes, random: Random) -> bytes:
    """Return the bytes with one to four kinds of damage."""
    made = bytearray(data)
    for _ in range(random.randint(1, 4)):
        if made:
            random.choice(_DAMAGES)(made, random)
    return bytes(made)


def _flip(data: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 2, 8))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))


def _cut_end(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _cut_out(data: bytearray, random: Random) -> None:
    first, last = _stretch(data, random)
    del data[first:last]


def _duplicate(data: bytearray, random: Random) -> None:
    first, last = _stretch(data, random)
    data[last:last] = data[first:last] * random.choice((1, 1, 2, 50))


def _insert(data: bytearray, random: Random) -> None:
    place = random.randrange(len(data))
    data[place:place] = random.randbytes(random.randint(1, 16))


def _varint(data: bytearray, random: Random) -> None:
    place, made = random.randrange(len(data)), random.choice(_VARINTS)
    data[place : place + random.choice((1, len(made)))] = made


def _nest(data: bytearray, random: Random) -> None:
    """Add a node whose attribute is a graph with another such node, and so on."""
    inner = b""
    for _ in range(random.choice((20, 24, 30, 200, 2000))):
        for key in _NESTING:
            inner = bytes([key]) + _length(len(inner)) + inner
    data += b"\x3a" + _length(len(inner)) + inner


# Keys of GraphProto.node, NodeProto.attribute and AttributeProto.g, inside out.
_NESTING = (0x0A, 0x32, 0x2A)


def _length(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes(made) + bytes([number])


def _stretch(data: bytearray, random: Random) -> tuple[int, int]:
    first = random.randrange(len(data))
    return first, min(len(data), first + random.randint(1, 64))


_DAMAGES: tuple[Damage, ...] = (
    _flip,
    _flip,
    _flip,
    _overwrite,
    _cut_end,
    _cut_out,
    _duplicate,
    _insert,
    _varint,
    _varint,
    _nest,
)
