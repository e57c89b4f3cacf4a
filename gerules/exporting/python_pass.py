"""Plans written as a Python module of the Graph Engine's pass interface.

Patterns are the methods that `@pattern` marks. The nodes of a match are taken in the order of the pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.exporting.names import pattern_name
from gerules.exporting.operators import all_attributes, placeholder
from gerules.exporting.plan import Computed, Input, Number, Output, Plan, PlanNode, Source
from gerules.exporting.texts import comment, docstring, needed, python_value, quoted

_HELPERS: Final = '''\
class _Unknown(Exception):
    """A size or a constant is not known; then a pass does not apply."""


def _sizes(desc):
    sizes = [int(size) for size in desc.shape]
    if any(size < 0 for size in sizes):
        raise _Unknown
    return sizes


def _dims(desc):
    sizes = [int(size) for size in desc.shape]
    if sizes == [-2]:
        raise _Unknown
    return sizes


def _broadcast(*shapes):
    found = []
    for place in range(max(map(len, shapes), default=0)):
        sizes = {shape[-1 - place] for shape in shapes if place < len(shape)} - {1}
        open_ones = sum(shape[-1 - place] < 0 for shape in shapes if place < len(shape))
        fixed = [size for size in sizes if size >= 0]
        if len(fixed) > 1 or (not fixed and open_ones > 1):
            raise _Unknown
        found.append(fixed[0] if fixed else -1 if open_ones else 1)
    return found[::-1]


def _product(one, other, *_):
    if len(one) < 2 or len(other) < 2:
        raise _Unknown
    return [*_broadcast(one[:-2], other[:-2]), one[-2], other[-1]]


def _is_fixed(sizes):
    return all(size >= 0 for size in sizes)


def _rank(desc):
    sizes = list(desc.shape)
    if sizes == [-2]:
        raise _Unknown
    return len(sizes)


def _size(desc, place):
    sizes = list(desc.shape)
    if not -len(sizes) <= place < len(sizes) or sizes[place] < 0:
        raise _Unknown
    return int(sizes[place])


def _numel(desc):
    found = 1
    for size in _sizes(desc):
        found *= size
    return found


def _is_static(desc):
    return all(size >= 0 for size in desc.shape)


def _const(node, slot):
    source, _ = node.get_in_data_nodes_and_port_indexes(slot)
    if source.type not in ("Const", "Constant"):
        raise _Unknown
    return source.get_attr("value")


def _is_const(node, slot):
    return node.get_in_data_nodes_and_port_indexes(slot)[0].type in ("Const", "Constant")


def _numbers(node, slot):
    found = [_const(node, slot).get_data()]
    while found and isinstance(found[0], (list, tuple)):
        found = [item for part in found for item in part]
    return found


def _number(node, slot):
    found = _numbers(node, slot)
    if len(found) != 1:
        raise _Unknown
    return found[0]


def _same(found, wanted):
    if isinstance(wanted, list):
        return list(found) == wanted
    if isinstance(wanted, float):
        return abs(found - wanted) <= 1e-6 * max(abs(wanted), 1e-30)
    return found == wanted


def _matched(match_result):
    return [node for node in match_result.get_matched_nodes() if node.type not in ("Const", "Constant")]
'''


def write_python(plans: Sequence[Plan], source: str) -> str:
    """Return a module with one class for each plan.

    Args:
        source: Where the rules come from, as a comment says it.
    """
    classes = "\n\n\n".join("\n".join(_class(plan)) for plan in plans)
    has_config = "PatternMatcherConfigBuilder" in classes
    lines = [
        docstring(f"Fusion passes made from {source} by gerules; do not edit, change the rules."),
        "",
        "from ge.es import all as es",
        "from ge.passes import (",
        "    PassStage,",
        "    PatternFusionPass,",
        *(["    PatternMatcherConfigBuilder,"] if has_config else []),
        "    pattern,",
        "    register_fusion_pass,",
        ")",
    ]
    helpers = needed(_HELPERS, "\n\n\n", classes)
    return "\n\n\n".join(["\n".join(lines), *([helpers] if helpers else []), classes]) + "\n"


def _class(plan: Plan) -> list[str]:
    name = plan.name
    lines = [
        f"@register_fusion_pass(name={quoted(name)}, stage=PassStage.AFTER_INFER_SHAPE)",
        f"class {name}(PatternFusionPass):",
        f"    {docstring(plan.doc or plan.rule)}",
    ]
    enabled = ["enable_const_value_match"] if plan.has_exact_numbers else []
    enabled += ["enable_ir_attr_match"] if plan.is_strict else []
    if enabled:
        calls = "".join(f".{item}()" for item in enabled)
        config = f"PatternMatcherConfigBuilder(){calls}.build()"
        lines += ["", "    def __init__(self):", f"        super().__init__({config})"]
    lines += ["", "    @pattern", f"    def {pattern_name(plan.rule)}(self, inputs):"]
    lines += _inputs(plan)
    lines += _nodes(plan.nodes, "n", is_pattern=True)
    lines.append(f"        return {_returned(plan.outputs, 'n')}")
    lines += _requirements(plan)
    given = "self, inputs, match_result" if plan.needs_match else "self, inputs"
    lines += ["", f"    def replacement({given}):"]
    lines += _inputs(plan)
    if plan.needs_match:
        lines.append("        nodes = _matched(match_result)")
    lines += _nodes(plan.built, "r", is_pattern=False)
    lines.append(f"        return {_returned(plan.results, 'r')}")
    return lines


def _inputs(plan: Plan) -> list[str]:
    if plan.n_inputs < 2:
        return ["        x0 = inputs[0]"]
    names = ", ".join(f"x{number}" for number in range(plan.n_inputs))
    return [f"        {names} = inputs[:{plan.n_inputs}]"]


def _nodes(nodes: Sequence[PlanNode], prefix: str, *, is_pattern: bool) -> list[str]:
    lines: list[str] = []
    for place, node in enumerate(nodes):
        args = [_source(item, prefix, is_pattern=is_pattern) for item in node.inputs]
        attrs = {name: python_value(value) for name, value in node.attrs.items()}
        if is_pattern:
            for attr in node.form.required:
                attrs.setdefault(attr.name, python_value(placeholder(attr)))  # pyright: ignore[reportArgumentType] (a plain value)
            if node.is_open and node.form.type == "Squeeze":
                attrs.setdefault("axis", "[0]")  # any axes, where none would be all of size one
        args += [f"{name}={value}" for name, value in attrs.items()]
        if node.copies is not None:
            args.append(f"**{_copied(node)}")
        lines.append(f"        {prefix}{place} = es.{node.form.type}({', '.join(args)})")
    return lines


def _copied(node: PlanNode) -> str:
    names = ", ".join(quoted(name) for name in all_attributes(node.form.type))
    source = f"nodes[{node.copies}]"
    return f"{{name: {source}.get_attr(name) for name in ({names},) if {source}.has_attr(name)}}"


def _source(source: Source, prefix: str, *, is_pattern: bool) -> str:
    match source:
        case None:
            return "None"
        case Input(number=number):
            return f"x{number}"
        case Output(node=node):
            return f"{prefix}{node}"
        case Computed(python=python):
            return python
        case Number(value=None):
            return "x0.get_owner_builder().create_const_float(1.0)"
        case Number(value=tuple(value)):
            return f"[{', '.join(str(item) for item in value)}]"
        case Number() if is_pattern:
            return f"x0.get_owner_builder().create_const_float({source.number!r})"
        case Number(value=value):
            # Beside tensors a number takes their type.
            return repr(value)


def _returned(sources: Sequence[Source], prefix: str) -> str:
    texts = [_source(item, prefix, is_pattern=False) for item in sources]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _requirements(plan: Plan) -> list[str]:
    wanted = [
        item
        for item in plan.requirements
        if not (item.is_of_attr and plan.is_strict) and not (item.is_of_number and plan.has_exact_numbers)
    ]
    if not wanted:
        return []
    lines = [
        "",
        "    def meet_requirements(self, match_result):",
        "        nodes = _matched(match_result)",
        "        try:",
    ]
    for item in wanted:
        lines += [
            f"            if not ({item.python}):",
            f"                return False  # {comment(item.reason)}",
        ]
    return [*lines, "        except _Unknown:", "            return False", "        return True"]
