"""Devices as rule texts declare them, made ready for the compiler: sets resolved, conditions callable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from gerules.dsl import RuleBook, RuleError, SchemaSource
from gerules.dsl.book import suggest
from gerules.dsl.declarations import Device as DeviceText
from gerules.dsl.declarations import FormatInput, FormatLine
from gerules.dsl.expr import Scope, evaluate, judge
from gerules.dsl.expressions import Ident
from gerules.dsl.selection import bases_of, resolve_params
from gerules.dsl.syntax import Condition, OpSet
from gerules.dsl.values import OpView, Value, ValueView
from gerules.engine.define_schema import schema_of_define
from gerules.engine.keywords import value_of_attr
from gerules.errors import Faults, GerulesError, table
from gerules.ir import Attr, Format, ValueType
from gerules.ops import ParamKind
from gerules.target import Device, Engine, FormatPort, Kernel, TargetError
from gerules.target.device import NodeGuard, Number

ATTACHED: Final = frozenset({
    "DNN_VM_AICPU", "DNN_VM_AICPU_ASCEND", "DNN_VM_DVPP", "DNN_VM_GE_LOCAL", "DNN_VM_HOST_CPU", "DNN_VM_RTS",
})  # fmt: skip
"""Engines that ride the stream of what comes before, unless a device sets `attached_engines`.

Source: `attach` in the Graph Engine's engine_conf.json.
"""

INDEPENDENT: Final = frozenset({"DNN_HCCL"})
"""Engines with a stream of their own, unless a device sets `independent_engines`. Source: as `ATTACHED`."""


MOST_OUTPUTS: Final = 256
"""Outputs that `*: FORMAT` speaks for; further ones are plain."""


def device_names(book: RuleBook) -> list[str]:
    """Return the names of the devices that a book declares, sorted."""
    return sorted(book.devices)


def find_device(
    book: RuleBook,
    name: str,
    *,
    schemas: SchemaSource,
) -> Device:
    """Return a device that a book declares, what it extends included.

    A device's own engine hides the engine of the same name of its base, and its own `formats on` lines
    for an operator hide those of its base for the same operator on the same engine.

    Args:
        schemas: Where the parameters of operators without a `define` are looked up.

    Raises:
        TargetError: E50010 when the book has no such device; E50011, E50012, E50013 and E40012 for
            what its text says that cannot be, all faults together.
    """
    if name not in book.devices:
        known = ", ".join(device_names(book)) or "none"
        raise TargetError(table.UNKNOWN_DEVICE, device=name, known=known, notes=suggest(name, book.devices))
    faults = Faults()
    chain = list(bases_of(book.devices[name], book.devices))
    found = _Reader(book, chain, schemas, faults).device()
    faults.raise_if_any(TargetError)
    return found


class _Reader:
    """Reads one device; `chain` is the device and what it extends, nearest first."""

    def __init__(
        self,
        book: RuleBook,
        chain: Sequence[DeviceText],
        schemas: SchemaSource,
        faults: Faults,
    ) -> None:
        self.book = book
        self.chain = chain
        self.schemas = schemas
        self.faults = faults
        self._defaults: dict[str, Mapping[str, Value]] = {}
        settings = {item.name.name: item.value for base in reversed(chain) for item in base.settings}
        try:
            params = resolve_params(book, settings)
        except GerulesError as error:
            faults.extend(error.diagnostics)
            params = {}
        self.scope = Scope({}, params, book.op_sets, None, book.functions)

    def device(self) -> Device:
        own, bases = self.chain[0], list(reversed(self.chain))
        engines: dict[str, Engine] = {}
        for base in bases:
            for item in base.engines:
                guard = None if item.where is None else self.engine_guard(item.where)
                reason = item.where.reason or "" if item.where is not None else ""
                ops = self.book.resolve(item.ops)
                engines[item.name.name] = Engine(item.name.name, item.priority, ops, guard, reason)
        return Device(
            own.name.name,
            next((base.doc for base in self.chain if base.doc), ""),
            tuple(self.attached(engine) for engine in engines.values()),
            tuple(self.kernels()),
            frozenset(item.name for base in bases for item in base.features),
            frozenset(op for base in bases for ops in base.lacks for op in self.book.resolve(ops)),
            self.numbers(bases),
        )

    def attached(self, engine: Engine) -> Engine:
        """Mark the engine as `set attached_engines` and `set independent_engines` say, or as is usual."""
        attached = self.scope.params.get("attached_engines")
        independent = self.scope.params.get("independent_engines")
        return replace(
            engine,
            is_attached=engine.name in (attached if isinstance(attached, tuple) else ATTACHED),
            is_independent=engine.name in (independent if isinstance(independent, tuple) else INDEPENDENT),
        )

    def numbers(self, bases: Iterable[DeviceText]) -> dict[str, Number]:
        found: dict[str, Number] = {}
        for item in (setting for base in bases for setting in base.settings):
            value = self.scope.params.get(item.name.name)
            if isinstance(value, bool | int | float | str):
                found[item.name.name] = value
            elif not isinstance(value, tuple):
                reason = "it must be a number, a text or a list of texts"
                self.faults.add(
                    table.BAD_DEVICE_SETTING, span=item.span, setting=item.name.name, reason=reason
                )
        return found

    # ------------------------------------------------------------ kernels
    def kernels(self) -> Iterable[Kernel]:
        """Yield kernel variants, those of the device itself before those of its bases."""
        hidden: dict[str, set[str]] = {}
        for base in self.chain:
            named: dict[str, set[str]] = {}
            for formats in self.book.tables:
                device, _, engine = formats.engine.name.partition(".")
                if device != base.name.name:
                    continue
                for line in formats.lines:
                    every = self.ops_of(line.ops)
                    named.setdefault(engine, set()).update(every)
                    kernel = self.kernel(engine, every - hidden.get(engine, set()), line)
                    if kernel is not None and kernel.ops:
                        yield kernel
            for engine, ops in named.items():
                hidden.setdefault(engine, set()).update(ops)

    def ops_of(self, ops: Ident | OpSet) -> frozenset[str]:
        return frozenset({ops.name}) if isinstance(ops, Ident) else self.book.resolve(ops)

    def kernel(self, engine: str, ops: frozenset[str], line: FormatLine) -> Kernel | None:
        inputs = self.ports(line)
        names = [port.name for port in inputs]
        outputs = tuple(
            FormatPort(f"output {place}", self.format(one)) for place, one in enumerate(line.outputs)
        )
        if line.rest_outputs is not None:
            # Format choice takes ports by position, as many as a node has outputs.
            rest = FormatPort("outputs", self.format(line.rest_outputs), is_rest=True)
            outputs += (rest,) * (MOST_OUTPUTS - len(outputs))
        guard = None if line.where is None else self.kernel_guard(line.where, names)
        cost = 1.0
        if line.cost is not None:
            try:
                value = evaluate(line.cost, self.scope)
            except RuleError as error:
                self.faults.extend(error.diagnostics)
                return None
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                reason = "a cost is a number above zero"
                self.faults.add(table.BAD_DEVICE_SETTING, span=line.cost.span, setting="cost", reason=reason)
                return None
            cost = float(value)
        return Kernel(engine, ops, inputs, outputs, guard, cost)

    def defaults(self, op: str) -> Mapping[str, Value]:
        """Return what attributes of an operator are where a node does not give them; none without default."""
        known = self._defaults.get(op)
        if known is None:
            schema, define = self.schemas.get(op), self.book.defines.get(op)
            if schema is None and define is not None:
                schema = schema_of_define(define, self.schemas, self.scope)
            specs = () if schema is None else schema.attrs.values()
            known = self._defaults[op] = {
                spec.name: None if spec.default is None else value_of_attr(spec.default) for spec in specs
            }
        return known

    def ports(self, line: FormatLine) -> tuple[FormatPort, ...]:
        """Return the ports by position: those a line names, at the place the operator has them.

        Where the operator is not known, or the line speaks of a set of operators, the line's own order
        counts. A parameter that the line leaves out is plain.
        """
        given = [self.port(item) for item in line.inputs]
        formals = self.formals(line.ops.name) if isinstance(line.ops, Ident) else None
        if formals is None:
            return tuple(given)
        rest = [port for port in given if port.is_rest]
        by_name = {port.name: port for port in given if not port.is_rest}
        for item in line.inputs:
            if not item.is_rest and item.name not in formals:
                self.faults.add(
                    table.UNKNOWN_PORT,
                    span=item.span,
                    op=line.ops.name if isinstance(line.ops, Ident) else "",
                    port=item.name,
                    known=", ".join(formals),
                    notes=suggest(item.name, formals),
                )
        if rest:
            # What a rest covers comes after the parameters that are named.
            last = max((place for place, name in enumerate(formals) if name in by_name), default=-1)
            formals = dict(list(formals.items())[: last + 1])
        plain = {
            name: FormatPort(name, Format.ND, is_optional=optional) for name, optional in formals.items()
        }
        return (*(by_name.get(name, plain[name]) for name in formals), *rest)

    def formals(self, op: str) -> dict[str, bool] | None:
        """Return the input parameters of an operator in order, and whether each is optional."""
        define = self.book.defines.get(op)
        if define is not None:
            return {param.name.name: param.is_optional for param in define.params if param.default is None}
        schema = self.schemas.get(op)
        if schema is None:
            return None
        return {param.name: param.kind is not ParamKind.REQUIRED for param in schema.inputs}

    def port(self, item: FormatInput) -> FormatPort:
        return FormatPort(item.name, self.format(item.format), item.is_optional, item.is_rest)

    def format(self, name: Ident) -> Format | str:
        if name.name[:1].islower():
            return name.name
        if name.name in Format.__members__:
            return Format[name.name]
        self.faults.add(
            table.UNKNOWN_FORMAT,
            span=name.span,
            name=name.name,
            known=", ".join(Format.__members__),
            notes=suggest(name.name, Format.__members__),
        )
        return Format.ND

    # ------------------------------------------------------------ conditions
    def engine_guard(self, condition: Condition) -> NodeGuard:
        """Return a condition over `op`, attributes, `inputs`, `outputs`, `x` and `y` (the first of each)."""
        scope, defaults = self.scope, self.defaults

        def guard(
            op: str,
            inputs: Sequence[ValueType | None],
            outputs: Sequence[ValueType],
            attrs: Mapping[str, object],
        ) -> bool:
            given = tuple(_view(type, place) for place, type in enumerate(inputs))
            made = tuple(_view(type, place) for place, type in enumerate(outputs))
            names: dict[str, Value] = {
                "op": OpView(op),
                "inputs": given,
                "outputs": made,
                "x": given[0] if given else None,
                "y": made[0] if made else None,
            }
            return judge(condition, scope.with_names(_with_attrs(names, attrs, defaults(op)))).holds

        return guard

    def kernel_guard(self, condition: Condition, ports: Sequence[str]) -> NodeGuard:
        """Return a condition over the names of the line's inputs, and attributes by name.

        `inputs` and `outputs` are lists of all there are; `y`, `y0`, `y1` and so on are the outputs.
        """
        scope, defaults = self.scope, self.defaults

        def guard(
            op: str,
            inputs: Sequence[ValueType | None],
            outputs: Sequence[ValueType],
            attrs: Mapping[str, object],
        ) -> bool:
            given = tuple(_view(type, place) for place, type in enumerate(inputs))
            made = tuple(_view(type, place) for place, type in enumerate(outputs))
            names: dict[str, Value] = {f"y{place}": one for place, one in enumerate(made)}
            names |= {
                "op": OpView(op),
                "inputs": given,
                "outputs": made,
                "y": made[0] if made else None,
            }
            names |= {
                name: given[place] if place < len(given) else None for place, name in enumerate(ports) if name
            }
            return judge(condition, scope.with_names(_with_attrs(names, attrs, defaults(op)))).holds

        return guard


def _view(type: ValueType | None, place: int) -> ValueView | None:
    return None if type is None else ValueView(-1 - place, f"input {place}", type)


def _with_attrs(
    names: dict[str, Value], attrs: Mapping[str, object], defaults: Mapping[str, Value]
) -> dict[str, Value]:
    """Add attributes by name; those that a node gives win over defaults, and values over both."""
    given = {name: value_of_attr(cast("Attr", value)) for name, value in attrs.items()}
    return {**defaults, **given, **names}
