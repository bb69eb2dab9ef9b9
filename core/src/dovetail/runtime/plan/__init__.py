"""Plans: a graph as a flat list of bound calls over one arena, for any engine.

A kernel creates a `Step` from a `KernelCall`; the builder orders steps and inserts reorders where
layouts differ; `plan_arena` assigns memory to values; `PlanPrepared` binds and runs the steps.
"""

from dovetail.runtime.plan.arena import Arena, plan_arena
from dovetail.runtime.plan.backend import Graphs, PlanBackend, PlanContext
from dovetail.runtime.plan.binds import PLAN_BUILDERS, VIEW, call_sequence
from dovetail.runtime.plan.builder import Plan, Reorder, build_plan, kernel_call
from dovetail.runtime.plan.engine import Engine
from dovetail.runtime.plan.executor import PlanPrepared
from dovetail.runtime.plan.images import (
    PLAN_FORMAT,
    Blobs,
    PlanData,
    PlanWriter,
    RecordLayout,
    digest_of,
)
from dovetail.runtime.plan.kernel_call import KernelCall, Tail
from dovetail.runtime.plan.kernels import Branch, Kernel, KernelRegistry, Make, OnIntegers
from dovetail.runtime.plan.package_kernels import with_package_kernels
from dovetail.runtime.plan.prepared import EnginePrepared
from dovetail.runtime.plan.recipes import (
    Bind,
    Builders,
    Data,
    PlanRecorder,
    Recipe,
    RecipeError,
    Source,
)
from dovetail.runtime.plan.remaking import Remaker
from dovetail.runtime.plan.restoring import PlanReader
from dovetail.runtime.plan.rewriting import Rewriting
from dovetail.runtime.plan.spaces import Block, Space, uploaded
from dovetail.runtime.plan.values import Bound, Buffers, Layout, Step, Storage, Value
from dovetail.runtime.plan.whole_casts import without_whole_casts
from dovetail.runtime.plan.widening import rounded, widened

__all__ = [
    "PLAN_BUILDERS",
    "PLAN_FORMAT",
    "VIEW",
    "Arena",
    "Bind",
    "Blobs",
    "Block",
    "Bound",
    "Branch",
    "Buffers",
    "Builders",
    "Data",
    "Engine",
    "EnginePrepared",
    "Graphs",
    "Kernel",
    "KernelCall",
    "KernelRegistry",
    "Layout",
    "Make",
    "OnIntegers",
    "Plan",
    "PlanBackend",
    "PlanContext",
    "PlanData",
    "PlanPrepared",
    "PlanReader",
    "PlanRecorder",
    "PlanWriter",
    "Recipe",
    "RecipeError",
    "RecordLayout",
    "Remaker",
    "Reorder",
    "Rewriting",
    "Source",
    "Space",
    "Step",
    "Storage",
    "Tail",
    "Value",
    "build_plan",
    "call_sequence",
    "digest_of",
    "kernel_call",
    "plan_arena",
    "rounded",
    "uploaded",
    "widened",
    "with_package_kernels",
    "without_whole_casts",
]
