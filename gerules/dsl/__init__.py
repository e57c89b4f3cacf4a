"""The rule language: syntax, expressions, rule books and their load-time checks."""

from gerules.dsl.book import RuleBook, SchemaSource
from gerules.dsl.check import check_rules
from gerules.dsl.external import FunctionError, function, predicate
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.load import load_rules
from gerules.dsl.registry import Function, FunctionTable, MatchContext
from gerules.dsl.selection import Environment, Selection, TextDevice, select_rules
from gerules.dsl.shipped import rules_folder
from gerules.dsl.transform import read_file
from gerules.dsl.tree import RuleError
from gerules.dsl.values import ValueView

__all__ = [
    "FUNCTIONS",
    "Environment",
    "Function",
    "FunctionError",
    "FunctionTable",
    "MatchContext",
    "RuleBook",
    "RuleError",
    "SchemaSource",
    "Selection",
    "TextDevice",
    "ValueView",
    "check_rules",
    "function",
    "load_rules",
    "predicate",
    "read_file",
    "rules_folder",
    "select_rules",
]
