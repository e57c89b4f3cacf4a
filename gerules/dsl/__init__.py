"""The rule language: syntax, expressions, rule books and their load-time checks."""

from gerules.dsl.book import RuleBook, SchemaSource
from gerules.dsl.check import check_rules
from gerules.dsl.functions import FUNCTIONS, register_function
from gerules.dsl.load import load_rules
from gerules.dsl.registry import Function, FunctionTable, MatchContext
from gerules.dsl.selection import Environment, Selection, TextDevice, select_rules
from gerules.dsl.shipped import rules_folder
from gerules.dsl.transform import read_file
from gerules.dsl.tree import RuleError

__all__ = [
    "FUNCTIONS",
    "Environment",
    "Function",
    "FunctionTable",
    "MatchContext",
    "RuleBook",
    "RuleError",
    "SchemaSource",
    "Selection",
    "TextDevice",
    "check_rules",
    "load_rules",
    "read_file",
    "register_function",
    "rules_folder",
    "select_rules",
]
