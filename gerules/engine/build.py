"""The build side of a rule: new nodes from what a match bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from gerules.dsl import expr as dsl
from gerules.dsl.check_ops import COUNTING, calls_of
from gerules.dsl.expressions import Expr
from gerules.dsl.syntax import (
    ANY,
    Build,
    BuildArg,
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildLine,
    BuildNone,
    BuildNumber,
    BuildParam,
    BuildRef,
    BuildRest,
    MatchedOp,
    RestTargets,
    Rule,
    Target,
)
from gerules.dsl.tree import RuleError
from gerules.dsl.values import ChainView, Reject, Value, ValueView, as_int, as_items
from gerules.engine.binding import UNBOUND, Kind, Match, Scope
from gerules.engine.candidate import Candidate, Infer, Refused
from gerules.engine.constants import attr_of_value, dtype_for_input, own_dtype
from gerules.engine.evaluation import MatchEvaluator
from gerules.engine.regions import body_of_region
from gerules.ir import Attr, DType, Node, Origin
from gerules.ops import OpSchema


@dataclass(frozen=True, slots=True)
class Number:
    """An operand that is a number or a list, of no element type yet."""

    value: Value
    what: str


Operand = int | None | Number

MAX_LIST: Final = 1024
"""Values that a list has at most when a rewrite makes it, and so nodes that one `each` makes."""


class Builder:
    """Builds the candidate of one match."""

    __slots__ = (
        "candidate",
        "evaluator",
        "infer",
        "item",
        "made",
        "match",
        "origin",
        "region",
        "rule",
        "scope",
    )

    def __init__(
        self,
        candidate: Candidate,
        rule: Rule,
        scope: Scope,
        match: Match,
        evaluator: MatchEvaluator,
        infer: Infer,
        origin: Origin,
        region: Sequence[Node],
    ) -> None:
        self.candidate, self.rule, self.scope, self.match = candidate, rule, scope, match
        self.evaluator, self.infer, self.origin = evaluator, infer, origin
        self.region = region
        """All matched nodes, in graph order; what `fn` puts into a body."""
        self.made: dict[str, int | tuple[int, ...] | None] = {}
        """Names that build lines defined so far."""
        self.item: int | None = None
        """Inside `each`: which item of every list is meant."""

    def run(self) -> None:
        """Build every line. Raises Refused when one cannot be built here."""
        for line in self.rule.rewrite:
            self._line(line)

    # ------------------------------------------------------------ lines
    def _line(self, line: BuildLine) -> None:
        first = line.targets[0]
        if len(line.targets) == 1 and isinstance(first, Target):
            value = self._output_for(first)
            found = self._build(line.build, (value,))
            result = found[0] if found else None
            if first.name != ANY:
                self.made[first.name] = result
            if value is not None and result != value:
                self._forward(value, result)
        else:
            self._line_of_many(line)

    def _line_of_many(self, line: BuildLine) -> None:
        wanted: list[int | None] = []
        names: list[tuple[str, int]] = []
        rest: tuple[str, int] | None = None
        for target in line.targets:
            if isinstance(target, RestTargets):
                old = self._bound_values(target.name)
                if old is None:
                    n_others = len(line.targets) - 1
                    rest = (target.name, len(wanted))
                    wanted += [None] * (self._n_outputs(line.build) - n_others)
                    continue
                wanted += old
                self.made[target.name] = tuple(old)
                continue
            value = self._output_for(target)
            wanted.append(value)
            names.append((target.name, len(wanted) - 1))
        found = self._build(line.build, wanted)
        if isinstance(line.build, BuildRef) and any(isinstance(one, RestTargets) for one in line.targets):
            # `*y = t`: every member of the group has this one value.
            found = [*found] * len(wanted)
            self._forward_all(wanted, found[0] if found else None)
            return
        if rest is not None:
            n_new = len(wanted) - (len(line.targets) - 1)
            made = found[rest[1] : rest[1] + n_new]
            self.made[rest[0]] = tuple(value for value in made if value is not None)
        for name, place in names:
            result = found[place] if place < len(found) else None
            if name != ANY:
                self.made[name] = result
        for old, new in zip(wanted, found, strict=False):
            if old is not None and new != old:
                self._forward(old, new)

    def _output_for(self, target: Target) -> int | None:
        """The id for a target: the old one of a replaced value, else None (a fresh one is made)."""
        if target.name == ANY:
            return None
        slot = self.scope.slots.get(target.name)
        found = self.match.slots[slot] if slot is not None else UNBOUND
        if isinstance(found, int) and self.scope.kinds[target.name] is Kind.VALUE:
            return found
        return None

    def _bound_values(self, name: str) -> list[int] | None:
        slot = self.scope.slots.get(name)
        found = self.match.slots[slot] if slot is not None else UNBOUND
        if isinstance(found, list | tuple):
            items = cast("Sequence[object]", found)
            return [item for item in items if isinstance(item, int)]
        return None

    def _forward_all(self, group: Sequence[int | None], new: int | None) -> None:
        """Forward a group to one value; a second graph output keeps its name on a copy of the value."""
        taken = False
        for old in group:
            if old is None or old == new:
                continue
            is_output = self.candidate.site.editor.is_output(old) and old in self.candidate.replaced
            if is_output and taken and new is not None:
                new = self.candidate.forward.get(new, new)
                self.candidate.add(self._node("Identity", [new], [old], {}), self.infer)
                continue
            taken |= is_output
            self._forward(old, new)

    def _forward(self, old: int, new: int | None) -> None:
        candidate, editor = self.candidate, self.candidate.site.editor
        if old not in candidate.replaced:
            return
        if new is None:
            raise Refused(f"{self._name(old)} would be replaced by nothing")
        new = candidate.forward.get(new, new)
        if (
            editor.is_output(old)
            and (editor.is_output(new) or editor.producer(new) is None)
            and not any(new in node.outputs for node in candidate.nodes)
        ):
            # The name and the place of a graph output stay, so something has to produce it.
            if all(node.op == "Identity" for node in candidate.removed.values()):
                raise Refused("a graph output has to be produced by a node")
            candidate.add(self._node("Identity", [new], [old], {}), self.infer)
            return
        candidate.forward[old] = new

    # ------------------------------------------------------------ builds
    def _build(self, build: Build, wanted: Sequence[int | None]) -> Sequence[int | None]:
        """Build something whose outputs should be `wanted` (None: fresh); returns what they are."""
        match build:
            case BuildRef():
                operand = self._ref(build.name)
                if isinstance(operand, Number):
                    return [self._const(operand, None)]
                return [operand]
            case BuildFunction(call=call):
                return self._function(call, wanted)
            case BuildEach(call=call):
                return self._each(call, wanted)
            case BuildCall():
                return self._call(build, wanted)

    def _call(self, call: BuildCall, wanted: Sequence[int | None]) -> Sequence[int | None]:
        if not isinstance(call.op, MatchedOp) and call.op.is_optional and self._is_left_out(call):
            first = call.args[0]
            if isinstance(first, BuildCall | BuildRef | BuildFunction):
                return self._build(first, wanted)
            raise Refused(f"{call.op.name}? needs a value as its first argument")
        op = self._op(call)
        site = self.candidate.site
        schema = site.schema(op)
        operands: list[Operand] = []
        for arg in call.args:
            operands += self._operands(arg)
        attrs = self._attrs(call, op, schema, operands)
        inputs = self._settle(operands, schema, op)
        self._check(op, schema, inputs)
        outputs = self._outputs(wanted)
        self.candidate.add(self._node(op, inputs, outputs, attrs), self.infer)
        return outputs

    def _is_left_out(self, call: BuildCall) -> bool:
        return any(
            isinstance(arg, BuildNone) or (isinstance(arg, BuildRef) and self._ref(arg.name) is None)
            for arg in call.args[1:]
        )

    def _op(self, call: BuildCall) -> str:
        if not isinstance(call.op, MatchedOp):
            return call.op.name
        found = self.match.slots[self.scope.slots[call.op.name]]
        if not isinstance(found, Node):
            raise Refused(f"@{call.op.name} matched no operator")
        if found.bodies:
            raise Refused(f"{found.op} has a body, which @{call.op.name} would lose")
        return found.op

    def _outputs(self, wanted: Sequence[int | None]) -> list[int | None]:
        if None not in wanted:
            return list(wanted)
        base = f"{self._base_name()}/{self.rule.name.name}"
        return [self.candidate.fresh_value(base) if value is None else value for value in wanted]

    def _node(
        self, op: str, inputs: Sequence[int | None], outputs: Sequence[int | None], attrs: Mapping[str, Attr]
    ) -> Node:
        node_id = self.candidate.site.editor.fresh_id()
        end = len(inputs)
        while end and inputs[end - 1] is None:
            end -= 1
        name = f"{self._base_name()}/{self.rule.name.name}.{node_id}"
        return Node(node_id, op, tuple(inputs[:end]), tuple(outputs), attrs, name, self.origin)

    def _base_name(self) -> str:
        replaced = self.candidate.replaced
        return self._name(replaced[0]) if replaced else self.rule.name.name

    def _name(self, value: int) -> str:
        return self.candidate.site.values[value].name or f"%{value}"

    # ------------------------------------------------------------ lists
    def _each(self, call: BuildCall, wanted: Sequence[int | None]) -> list[int | None]:
        """Build a node for every item; `wanted` as in `_build`, one for each."""
        n_items = self._n_items(call)
        if n_items != len(wanted):
            raise Refused(f"`each` makes {n_items} values where {len(wanted)} are replaced")
        found: list[int | None] = []
        for place, value in enumerate(wanted):
            self.item = place
            found += self._call(call, [value])[:1]
        self.item = None
        return found

    def _n_items(self, call: BuildCall) -> int:
        """The common length of the lists that a call and those inside it name."""
        refs = [arg.name for inner in calls_of(call) for arg in inner.args if isinstance(arg, BuildRef)]
        lists = {name: found for name in refs if (found := self._list(name)) is not None}
        lengths = {len(found) for found in lists.values()}
        if len(lengths) != 1:
            told = ", ".join(f"{name} has {len(found)}" for name, found in lists.items())
            raise Refused(f"`each` needs lists of one length ({told or 'there is none'})")
        if (n_items := lengths.pop()) > MAX_LIST:
            raise Refused(f"`each` would make {n_items} nodes, and makes {MAX_LIST} at most")
        return n_items

    def _list(self, name: str) -> Sequence[Operand] | None:
        """The items of a name that is a list; None for any other."""
        if name in self.made:
            found = self.made[name]
            return found if isinstance(found, tuple) else None
        slot = self.scope.slots.get(name)
        if slot is None or self.match.slots[slot] is UNBOUND:
            return None
        view = self.evaluator.view(self.match.slots[slot], self.scope.kinds[name])
        return self._rest((name,)) if isinstance(view, tuple) else None

    def _n_outputs(self, build: Build) -> int:
        """How many values a new list gets, as the parameters of its operator say."""
        if isinstance(build, BuildEach):
            return self._n_items(build.call)
        for name, expr in build.attrs if isinstance(build, BuildCall) else ():
            if name.name in COUNTING and (value := self._evaluate(expr)) is not None:
                n_outputs = len(as_items(value)) if isinstance(value, tuple) else as_int(value, name.name)
                if not 1 <= n_outputs <= MAX_LIST:
                    raise Refused(f"a list has 1 to {MAX_LIST} values, not {n_outputs}")
                return n_outputs
        raise Refused("nothing says how many values the list has")

    # ------------------------------------------------------------ operands
    def _operands(self, arg: BuildArg) -> list[Operand]:
        match arg:
            case BuildNumber(value=value):
                return [Number(value, str(value))]
            case BuildParam(name=name):
                return [Number(self._setting(name), f"${name}")]
            case BuildNone():
                return [None]
            case BuildRest(path=path):
                return list(self._rest(path))
            case BuildRef(name=name):
                return [self._ref(name)]
            case BuildCall() | BuildFunction():
                return [self._build(arg, [None])[0]]
            case BuildEach(call=call):
                return list(self._each(call, [None] * self._n_items(call)))

    def _setting(self, name: str) -> Value:
        params = self.evaluator.base.params
        if name not in params:
            raise Refused(f"${name} is not set")
        return params[name]

    def _ref(self, name: str) -> Operand:
        if self.item is not None and (items := self._list(name)) is not None:
            return items[self.item]
        if name in self.made:
            found = self.made[name]
            if isinstance(found, tuple):
                raise Refused(f"{name} is a list; write *{name}")
            return found
        slot = self.scope.slots.get(name)
        if slot is None:
            raise Refused(f"{name} is bound to nothing")
        found = self.match.slots[slot]
        if found is UNBOUND or found is None:
            return None
        kind = self.scope.kinds[name]
        if kind is Kind.VALUE and isinstance(found, int):
            return found
        value = self.evaluator.view(found, kind)
        if isinstance(value, ValueView) and value.id in self.candidate.site.values:
            return value.id
        return None if value is None else Number(value, name)

    def _rest(self, path: Sequence[str]) -> Sequence[Operand]:
        if len(path) == 1 and path[0] in self.made:
            found = self.made[path[0]]
            return found if isinstance(found, tuple) else (found,)
        slot = self.scope.slots.get(path[0])
        view = (
            None if slot is None else self.evaluator.view(self.match.slots[slot], self.scope.kinds[path[0]])
        )
        if isinstance(view, ChainView) and path[1:] == ("side_inputs",):
            view = view.side_inputs
        if not isinstance(view, tuple):
            raise Refused(f"*{'.'.join(path)} is no list of values")
        return [
            item.id if isinstance(item, ValueView) and item.id >= 0 else Number(item, path[0])
            for item in view
        ]

    def _settle(self, operands: Sequence[Operand], schema: OpSchema | None, op: str) -> list[int | None]:
        """Turn numbers among the operands into constants of the right element type."""
        inputs: list[int | None] = [operand for operand in operands if not isinstance(operand, Number)]
        if len(inputs) == len(operands):
            return inputs
        inputs.clear()
        types = {
            place: type
            for place, operand in enumerate(operands)
            if not isinstance(operand, Number) and (type := self.candidate.type_of(operand)) is not None
        }
        for place, operand in enumerate(operands):
            if isinstance(operand, Number):
                dtype = dtype_for_input(schema, place, types, own_dtype(operand.value))
                if dtype is None:
                    raise Refused(f"the element type of {operand.what} in {op} is not known")
                inputs.append(self._const(operand, dtype))
            else:
                inputs.append(operand)
        return inputs

    def _const(self, operand: Number, dtype: DType | None) -> int:
        const = self.evaluator.folds.const(operand.value, dtype, operand.what)
        return self.candidate.fresh_const(const, f"{self._base_name()}/{operand.what}")

    # ------------------------------------------------------------ attributes
    def _attrs(
        self, call: BuildCall, op: str, schema: OpSchema | None, operands: list[Operand]
    ) -> dict[str, Attr]:
        """Return the attributes; a keyword that is an input at this version goes to `operands`."""
        site = self.candidate.site
        attrs: dict[str, Attr] = {}
        given = {name.name for name, _ in call.attrs} if call.rests else frozenset[str]()
        for rest in call.rests:
            found = self.match.slots[self.scope.slots[rest.name]]
            if isinstance(found, Mapping):
                caught = cast("Mapping[str, Attr]", found)
                attrs |= {name: value for name, value in caught.items() if name not in given}
        for ident, expr in call.attrs:
            value = self._evaluate(expr)
            name = ident.name
            if value is None:
                continue
            keyword = site.schemas.attr_or_input(op, name, site.version_of(op))
            if keyword is None and schema is not None:
                if self._is_later_default(op, name, value):
                    continue
                raise Refused(f"{op} has no parameter {name} at this version")
            if keyword is not None and keyword.input_index is not None:
                operands += [None] * (keyword.input_index + 1 - len(operands))
                operands[keyword.input_index] = self._keyword_operand(value, name)
                continue
            attr_name = name if keyword is None else keyword.name
            spec = schema.attrs.get(attr_name) if schema is not None else None
            attrs[attr_name] = attr_of_value(value, spec, attr_name)
        return attrs

    def _is_later_default(self, op: str, name: str, value: Value) -> bool:
        """Whether a parameter that this version lacks is given its later default, as patterns see it."""
        newest = self.candidate.site.schemas.get(op)
        spec = None if newest is None else newest.attrs.get(name)
        if spec is None or spec.default is None:
            return False
        return attr_of_value(value, spec, name) == spec.default

    def _keyword_operand(self, value: Value, name: str) -> Operand:
        if isinstance(value, ValueView) and value.id in self.candidate.site.values:
            return value.id
        return Number(value, name)

    def _evaluate(self, expr: Expr) -> Value:
        scope = self.evaluator.seen(self.match, self.scope, expr)
        try:
            return dsl.evaluate(expr, scope)
        except Reject as reject:
            raise Refused(reject.reason) from None
        except RuleError as error:
            raise Refused(error.diagnostics[0].message) from None

    def _check(self, op: str, schema: OpSchema | None, inputs: Sequence[int | None]) -> None:
        """Refuse an operator that does not exist here, or does not take these operands."""
        if schema is None or schema.is_deprecated:
            raise Refused(f"{op} does not exist at this version")
        site = self.candidate.site
        signature = site.schemas.signature(op, site.version_of(op))
        n_inputs = len(inputs)
        while n_inputs and inputs[n_inputs - 1] is None:
            n_inputs -= 1
        if signature is None or not signature.takes(n_inputs):
            raise Refused(f"{op} does not take {n_inputs} inputs at this version")
        for place, value in enumerate(inputs):
            if value is None or not schema.inputs:
                continue
            param = signature.param(place)
            dtype = getattr(self.candidate.type_of(value), "dtype", DType.UNKNOWN)
            if param.dtypes is not None and dtype is not DType.UNKNOWN and dtype not in param.dtypes:
                raise Refused(f"{op} does not take {dtype} for {param.name}")

    # ------------------------------------------------------------ functions
    def _function(self, call: BuildCall, wanted: Sequence[int | None]) -> Sequence[int | None]:
        op = self._op(call)
        operands: list[Operand] = []
        for arg in call.args:
            operands += self._operands(arg)
        attrs = self._attrs(call, op, None, operands)
        inputs = self._settle(operands, None, op)
        outputs = [value for value in wanted if value is not None]
        if len(outputs) != len(wanted):
            raise Refused("a function gives matched values only")
        body = body_of_region(op, self.region, inputs, outputs, self.candidate)
        node = self._node(op, inputs, wanted, attrs)
        for value in outputs:
            self.candidate.types[value] = self.candidate.site.values[value].type
        self.candidate.nodes.append(
            Node(node.id, op, node.inputs, node.outputs, attrs, node.name, self.origin, {"body": body})
        )
        return wanted
