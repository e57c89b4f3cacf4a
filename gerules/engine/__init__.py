"""The engine: rules compiled to matching programs, run over a graph until nothing changes."""

from gerules.engine.candidate import CostOf, Costs, Infer
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.define_schema import register_defines, schema_of_define
from gerules.engine.evaluation import RuleContext
from gerules.engine.phases import PhaseRunner, run_phase
from gerules.engine.ranking import RulePlans, plan_rules
from gerules.engine.rewrite import rewrite
from gerules.engine.trace import Application, Partial, RuleCount, Trace

__all__ = [
    "Application",
    "CostOf",
    "Costs",
    "Infer",
    "Partial",
    "PhaseRunner",
    "RuleContext",
    "RuleCount",
    "RulePlans",
    "Trace",
    "define_extra",
    "expand_define",
    "make_infer",
    "plan_rules",
    "register_defines",
    "rewrite",
    "run_phase",
    "schema_of_define",
]
