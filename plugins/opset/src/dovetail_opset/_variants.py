"""Base of the ops whose function a param selects."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import DType, ScaleOffset
from dovetail.ops import Op, Range


class Variants(Op):
    """An op that behaves as the op of a single function that its params select."""

    is_elementwise = True

    @property
    def single(self) -> Op:
        """The op of the single function."""
        raise NotImplementedError

    @property
    def value_range(self) -> Range:
        """The range of all results, whatever the inputs are."""
        return self.single.value_range

    @property
    def result_encodings(self) -> Mapping[DType, ScaleOffset]:
        """The encodings of the result that the op's source prescribes, by type."""
        return self.single.result_encodings

    @property
    def clips(self) -> bool:
        """True if the op only clips its input, to `value_range`."""
        return self.single.clips

    @property
    def flat_beyond(self) -> Range:
        """The inputs beyond which results no longer change noticeably."""
        return self.single.flat_beyond

    @property
    def rounds(self) -> bool:
        """True if all results are whole numbers, whatever the inputs are."""
        return self.single.rounds

    @property
    def keeps_whole(self) -> bool:
        """True if all results are whole numbers where all inputs are."""
        return self.single.keeps_whole
