"""One mutated file, determined by a run's seed and a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from google.protobuf.message import DecodeError, EncodeError
from onnx import ModelProto

from fuzz.contents import CONTENTS
from fuzz.damage import damage
from fuzz.seeds import Seed
from fuzz.wiring import WIRING

# Share of all mutations; the others change the model's contents.
_BYTES, _BOTH = 0.3, 0.05


@dataclass(frozen=True, slots=True)
class Mutated:
    """A file created from a seed.

    Attributes:
        origin: Name of the seed.
        how: The mutation.
        data: The bytes.
    """

    origin: str
    how: tuple[str, ...]
    data: bytes


Mutate = Callable[[Sequence[Seed], int, int], Mutated]


def mutate_onnx(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return an ONNX file."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    how = random.random()
    share: list[str] = []
    data = seed.data
    if how >= _BYTES:
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4, 6))):
            mutation = random.choice(random.choice((CONTENTS, WIRING)))
            try:
                model = ModelProto.FromString(data)
                mutation(model, random)
                data = model.SerializeToString()
            except (EncodeError, DecodeError):
                continue  # nested deeper than protobuf writes
            share.append(mutation.__name__)
    if how < _BYTES + _BOTH:
        data = damage(data, random)
        share.append("bytes")
    return Mutated(seed.name, tuple(share), data)
