"""The limits of computation at import, checked by shape before anything is allocated.

A few numbers in a file can request any amount of memory or time. A node beyond these limits is
converted by its importer, so that the model computes it when it runs, or rejected if it has none.
"""

from __future__ import annotations

from collections.abc import Callable

# Bytes of all results of a model together, and their multiple of the size of its files: a
# light VGG-19 of ONNX's tests has 548 MiB of weights that are computed from nothing.
_FREE_BYTES, _GROWTH = 640 << 20, 16
# Bytes read and written for them: some ten seconds.
_FREE_TRAFFIC, _TRAFFIC_GROWTH = 8 << 30, 64
# Elements that one operator may take which is computed in a Python loop, some 50 us each; of a
# model together: some ten seconds.
MAX_STEPS, _ALL_LOOPED = 1 << 16, 1 << 18
# Ops, which take some 100 us and some KiB each: a few operators become hundreds of them.
_FREE_OPS, _OPS_OF_NODE = 20_000, 20


class Budget:
    """The computation that one model may cause at import, and how much of it is left.

    Args:
        stored: Returns the bytes of constants that the model's files hold, as far as is known.
        nodes: Number of nodes of the model.

    Attributes:
        most_ops: Maximum number of ops of its graph.
    """

    def __init__(self, stored: Callable[[], int] = lambda: 0, nodes: int = 0) -> None:
        self.most_ops = _FREE_OPS + _OPS_OF_NODE * nodes
        self._stored = stored
        self._made = self._traffic = self._looped = self._ops = 0

    def has_steps(self, steps: int) -> bool:
        """Return whether a loop in Python may take so many more steps; count them if so."""
        if steps > MAX_STEPS or self._looped + steps > _ALL_LOOPED:
            return False
        self._looped += steps
        return True

    def has_op(self) -> bool:
        """Return whether the graph may have one more op; count it if so."""
        self._ops += 1
        return self._ops <= self.most_ops

    def has(self, made: int, read: int) -> bool:
        """Return whether the limits of memory and time allow a result; count it if so.

        Args:
            made: Its bytes.
            read: The bytes that it is made of.
        """
        stored = self._stored()
        if self._made + made > _FREE_BYTES + _GROWTH * stored:
            return False
        if self._traffic + made + read > _FREE_TRAFFIC + _TRAFFIC_GROWTH * stored:
            return False
        self._made += made
        self._traffic += made + read
        return True
