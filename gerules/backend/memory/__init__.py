"""Memory: lifetimes in, offsets in one arena out, and checks that share no code with the planner."""

from gerules.backend.memory.check import Flaw, check_plan, lower_bound
from gerules.backend.memory.coalesce import Coalesced, InPlace, coalesce, spread_offsets
from gerules.backend.memory.document import as_json, from_json
from gerules.backend.memory.errors import MemoryPlanError
from gerules.backend.memory.lifetimes import Lifetime, LongLife, find_long_lives, keep
from gerules.backend.memory.plan import ALIGN_BYTES, Effort, MemoryPlan, MemoryRow, plan_memory
from gerules.backend.memory.races import BEFORE, Access, Race, find_races
from gerules.backend.memory.reuse import REUSE_LIMIT, share_by_order

__all__ = [
    "ALIGN_BYTES",
    "BEFORE",
    "REUSE_LIMIT",
    "Access",
    "Coalesced",
    "Effort",
    "Flaw",
    "InPlace",
    "Lifetime",
    "LongLife",
    "MemoryPlan",
    "MemoryPlanError",
    "MemoryRow",
    "Race",
    "as_json",
    "check_plan",
    "coalesce",
    "find_long_lives",
    "find_races",
    "from_json",
    "keep",
    "lower_bound",
    "plan_memory",
    "share_by_order",
    "spread_offsets",
]
