"""Recognition of DepthToSpace and SpaceToDepth written as Reshape, Transpose, Reshape."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Graph, Shape, Tensor
from dovetail_opset.build import add
from dovetail_opset.ops.blocks import BlockMode
from dovetail_opset.passes._exchanges import Exchange, fuse_exchanges
from dovetail_opset.passes._moving import moved_tensor
from dovetail_opset.passes._rewrite import source_perm_after
from dovetail_opset.perms import inverse, to_last

_DCR, _CRD = BlockMode.DCR, BlockMode.CRD
# The four dimensions of one side and of the other, each with the parts that it is made of: batch,
# channels, height, width, and rows and columns of a block.
_FORMS: tuple[tuple[BlockMode, str, str], ...] = (
    (_DCR, "n rkc h w", "n c hr wk"),
    (_CRD, "n crk h w", "n c hr wk"),
    (_DCR, "n h w rkc", "n hr wk c"),
    (_CRD, "n h w crk", "n hr wk c"),
)


@dataclass(frozen=True, slots=True)
class FuseDepthToSpace:
    """Fuse a reshape to blocks, their transpose and a reshape to one op.

    The op is DepthToSpace or SpaceToDepth. Channels-first tensors are transposed before it and back
    after it, as a frontend would do; so it runs before channels-last.
    """

    name: str = "fuse-depth-to-space"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_exchanges(graph, _fuse)


def _fuse(graph: Graph, found: Exchange) -> bool:
    for mode, deep, wide in _FORMS:
        for op_type, before, after in (
            ("DepthToSpace", deep, wide),
            ("SpaceToDepth", wide, deep),
        ):
            sizes = _sizes(found, before, after)
            if sizes is not None:
                block = (sizes["r"], sizes["k"])
                _replace(graph, found, op_type, block, mode, is_last=wide.endswith("c"))
                return True
    return False


def _sizes(found: Exchange, before: str, after: str) -> dict[str, int] | None:
    """Return the sizes of the parts, if the exchange has this form."""
    parts, order = before.replace(" ", ""), after.replace(" ", "")
    if found.perm != tuple(parts.index(part) for part in order):
        return None
    sizes = dict(zip(parts, found.parts, strict=True))
    for shape, form in ((found.x.shape, before), (found.out.shape, after)):
        if shape != tuple(math.prod(sizes[p] for p in parts) for parts in form.split()):
            return None
    return sizes if min(sizes["r"], sizes["k"]) > 0 else None


def _replace(
    graph: Graph, found: Exchange, op_type: str, block: Shape, mode: BlockMode, *, is_last: bool
) -> None:
    x, out, name = found.x, found.out, found.last.name
    graph.remove_node(found.last)
    perm = to_last(4)
    result: Tensor = out
    if not is_last:
        x = _transposed(graph, found, perm)
        result = moved_tensor(graph, out, inverse(perm), out.encoding)
    add(
        graph,
        op_type,
        [x],
        name=name,
        outputs=result,
        sources=found.sources,
        block_size=block,
        mode=mode,
    )
    if not is_last:
        add(
            graph,
            "Transpose",
            [result],
            name=f"{name}.first",
            outputs=out,
            sources=found.sources,
            perm=inverse(perm),
        )


def _transposed(graph: Graph, found: Exchange, perm: Shape) -> Tensor:
    made = add(
        graph,
        "Transpose",
        [found.x],
        name=f"{found.x.name}.last",
        sources=found.sources,
        perm=perm,
    )
    made.source, made.source_perm = found.x.source, source_perm_after(found.x, perm)
    return made
