"""The words of the rule language: what each means, and in which block it may begin a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        *("rule", "ruleset", "pattern", "define", "ops", "const", "param", "include", "phase", "pipeline"),
        *("profile", "device", "formats", "format", "extern", "gerules"),
    ),
    "rule": (
        *("match", "where", "fold", "gate", "rewrite", "annotate", "test", "when", "opset", "priority"),
        *("overrides", "alias", "inexact", "once", "decreases"),
    ),
    "match": ("many", "shared"),
    "many": ("same", "limit", "shared"),
    "test": ("choose", "after", "device", "profile", "close", "escapes", "expect"),
    "pattern": ("where",),
    "define": ("fold",),
    "ruleset": ("when", "default", "priority", "kind"),
    "phase": ("run", "then", "order", "until", "once", "requires", "ensures"),
    "profile": ("set", "enable", "disable"),
    "device": ("engine", "lacks", "has", "set"),
}
"""The words that begin a line, by block; "" is the file."""

SECTIONS: Final = frozenset(["match", "where", "fold", "gate", "rewrite", "annotate", "test"])
"""The parts of a rule that hold lines."""

EXPRESSIONS: Final = frozenset(
    ["where", "fold", "gate", "when", "annotate", "limit", "decreases", "requires", "ensures", "set", "with"]
)
"""Where values stand, and no nodes of a graph."""

WORDS: Final[Mapping[str, str]] = {
    # the file
    "gerules": "The version of the language: `gerules 1`.",
    "include": 'Reads another file first, beside this one or shipped: `include "prelude.ger"`.',
    "const": "In a file, a value used as `$NAME`. In a type, an initializer that no caller can override.",
    "param": "A constant that a profile, a device or the caller may set.",
    "ops": "A named set of operators: `ops NAME = {A, ge::B} + OTHER - {C}`.",
    "format": "A storage format: which axes are split in blocks, and in which order they are kept.",
    "extern": "A function or predicate that is registered from Python.",
    "from": "The Python module that registers the function of an `extern`.",
    "predicate": "An `extern` that gives a truth value.",
    "function": "An `extern` that gives a value.",
    "pattern": "A named piece of a match; several of one name are alternatives, tried in order.",
    "define": "What an operator computes, in terms of other operators.",
    "ruleset": "Settings of the rules of one set: when they run, their priority, their kind.",
    "rule": "Where a graph looks like `match` and `where` holds, it is made to look like `rewrite`.",
    "phase": "Rule sets that run together.",
    "pipeline": "Phases, in order.",
    "profile": "Settings and switches under one name, chosen with `--profile`.",
    "extends": "Takes over what another profile or device says.",
    "device": "In a file, what a device has; in a test, the device that the rule sees.",
    "formats": "The storage formats that the kernels of an engine take and give.",
    # a rule
    "in": "In the head of a rule, its rule set. In an expression, whether an item is in a list.",
    "match": "A piece of a graph, one operator a line. What is not replaced has no reader outside.",
    "where": "Conditions, each with the reason a user reads when it does not hold.",
    "fold": "Values computed when compiling, in float64 and int64, rounded once.",
    "gate": "Compares the cost of the region `before` and `after`; when it does not hold, all is undone.",
    "rewrite": "What the new graph has. A name on the left that `match` bound is replaced.",
    "annotate": "A mark on the node that makes a value, for the passes that follow.",
    "test": "Shapes and element types; the graphs before and after the rule are compared on random arrays.",
    "when": "A condition on device, profile and precision, judged once for a compile.",
    "opset": "The graph's version of ONNX must be so: `opset >= 17`.",
    "priority": "Higher goes first; the default is 0.",
    "overrides": "This rule is tried before the others named, whatever their sizes.",
    "alias": "Names by which an Ascend `fusion_switch.cfg` knows the rule.",
    "inexact": "The rule changes a rounding, or what happens to NaN, infinity or signed zero.",
    "once": "The rule never applies to nodes that it made itself; a phase runs each place once.",
    "decreases": "What grows smaller with every application, where the number of nodes does not.",
    "else": "The reason that a user reads when the condition does not hold.",
    # match and rewrite
    "many": "A group of like matches: `many 2..8:`.",
    "same": "Names that agree in all members of a group.",
    "limit": "A condition on the whole group.",
    "shared": "The value may have readers outside the match.",
    "as": "Gives what a pattern matches a name.",
    "with": "Binds a value that alternatives compute differently.",
    "none": "An absent input, or no value.",
    "fn": "A new node whose body is the matched region.",
    "each": "A node for every item of the lists named inside; gives a list.",
    # expressions
    "and": "Both hold; the second is looked at only when the first does.",
    "or": "One of both holds.",
    "not": "The opposite.",
    "is": "`x is none`, `x is not none`: whether an optional part was absent.",
    "if": "`a if condition else b`.",
    "true": "The truth value.",
    "false": "The truth value.",
    # tests
    "choose": "The operators that `f@SET` or a chain stands for: `choose f = [Relu]`.",
    "after": "Operators that read a matched value, one behind the other: `after y = [Relu]`.",
    "close": "Relative and absolute tolerance: `close 0.001, 0.0001`. Without it results are equal.",
    "escapes": "A matched value has a reader outside too.",
    "expect": '`expect match`, or `expect no match "reason"`.',
    "no": '`expect no match "reason"`.',
    "fill": "All elements alike: `fill(0)`.",
    "random": "Reproducible elements from a seed: `random(7)`.",
    "inf": "Infinity, as an element.",
    "nan": "Not a number, as an element.",
    # sets, phases, profiles, devices
    "default": "Whether the rules of the set are on: `default off`.",
    "on": "Switched on.",
    "off": "Switched off.",
    "kind": "What the Graph Engine calls the pass: `GraphFusion` or `UBFusion`.",
    "GraphFusion": "A pass over the graph.",
    "UBFusion": "A pass that joins operators in the unified buffer.",
    "run": "The rule sets of the phase.",
    "then": "Rule sets that run again on what changed.",
    "order": "`outputs_first` or `inputs_first`.",
    "outputs_first": "Nodes are looked at from the outputs on.",
    "inputs_first": "Nodes are looked at from the inputs on.",
    "until": "`until fixpoint`: again, until nothing changes.",
    "fixpoint": "Where nothing changes any more.",
    "max": "At most so many rounds.",
    "requires": "What must hold before the phase.",
    "ensures": "What must hold behind the phase.",
    "set": "Gives a `param` a value.",
    "enable": "Switches rules, rule sets or aliases on.",
    "disable": "Switches rules, rule sets or aliases off.",
    "engine": "A unit of the device, and the operators it runs.",
    "lacks": "Operators that the device has no kernel for.",
    "has": "Features of the device.",
    "cost": "A factor on the time of a kernel.",
    "C0": "The elements of 32 bytes: depends on element type and device.",
}
"""One line on each word that the grammar knows."""
