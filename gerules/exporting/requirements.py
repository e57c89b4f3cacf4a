"""The conditions under which a pass applies: attributes, numbers, types and guards, each asked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gerules.dsl.syntax import DimName, DimRest, DimSeq, DimSize, Rule, TypePattern
from gerules.dsl.values import Value
from gerules.exporting.conditions import DT, Code, Desc, Writer, const_number, dim
from gerules.exporting.forms import Form
from gerules.exporting.plan import (
    AttrValue,
    Captured,
    Computed,
    Input,
    Number,
    Plan,
    Refusal,
    Requirement,
    Source,
)
from gerules.exporting.shapes import Types
from gerules.exporting.texts import cpp_value, python_value

_FEW_ULP: Final = 1e-6
"""How far a constant may be from the number of a pattern without a tolerance, relatively."""


@dataclass(slots=True)
class Conditions:
    """What is known of one form of a rule while it is planned, and the conditions of its pass."""

    rule: Rule
    form: Form
    plan: Plan
    params: Mapping[str, Value]
    values: dict[str, Source] = field(default_factory=dict[str, "Source"])
    descs: dict[str, Desc] = field(default_factory=dict[str, Desc])
    attrs: dict[str, Captured] = field(default_factory=dict[str, Captured])
    codes: dict[str, Code] = field(default_factory=dict[str, Code])
    types: list[tuple[str, TypePattern]] = field(default_factory=list[tuple[str, TypePattern]])

    def writer(self) -> Writer:
        """Return what writes guards, with the names that are known by now."""
        names: dict[str, object] = {**self.descs, **self.attrs, **self.codes}
        names |= dict.fromkeys(self.form.absent)
        return Writer(names, self.params)

    # ------------------------------------------------------------ conditions
    def read_conditions(self) -> None:
        """Fill the conditions: attributes and numbers, types, then guards."""
        for place, node in enumerate(self.plan.nodes):
            for name, value in node.attrs.items():
                self._require_attr(place, name, value)
            for slot, source in enumerate(node.inputs):
                if isinstance(source, Number) and source.value is not None:
                    self._require_number(place, slot, source)
        for name, kind in self.types:
            self._require_type(name, kind)
        self._require_float()
        for code, reason in Types(self.plan, self._reads()).require_kept():
            self.require(code, reason)
        writer = self.writer()
        for guard in self.rule.guards:
            code = writer.condition(guard.test)
            self.require(code, guard.reason or f"`{guard.test.span.text}` does not hold")

    def _require_float(self) -> None:
        """Numbers are built as float32, so a replacement that has some is for tensors of that type alone."""
        for node in self.plan.built:
            if not any(isinstance(item, Computed | Number) and not _is_list(item) for item in node.inputs):
                continue
            beside = next((item for item in node.inputs if isinstance(item, Input)), Input(0))
            read = self._reads().get(beside)
            if read is not None:
                python, cpp = read.code
                code = Code(f"int({python}.data_type) == 0", f"{cpp}.GetDataType() == ge::DT_FLOAT", "bool")
                self.require(code, "numbers are built as float32, and its tensors are not")

    def _reads(self) -> dict[Source, Desc]:
        """Where the pattern first reads each value from outside."""
        found: dict[Source, Desc] = {}
        for place, node in enumerate(self.plan.nodes):
            for slot, source in enumerate(node.inputs):
                if isinstance(source, Input):
                    found.setdefault(source, Desc(place, slot, False))
        return found

    def require(
        self, code: Code, reason: str, *, is_of_attr: bool = False, is_of_number: bool = False
    ) -> None:
        """Add a condition, once."""
        found = Requirement(code.python, code.cpp, reason, is_of_attr, is_of_number)
        if found not in self.plan.requirements:
            self.plan.requirements.append(found)

    def _require_attr(self, place: int, name: str, value: AttrValue) -> None:
        python = f'_same(nodes[{place}].get_attr("{name}"), {python_value(value)})'
        cpp = f'AttrIs(nodes[{place}], "{name}", {cpp_value(value)})'
        self.require(Code(python, cpp, "bool"), f"{name} has another value", is_of_attr=True)

    def _require_number(self, place: int, slot: int, source: Number) -> None:
        reason = "a constant has another value"
        if isinstance(source.value, tuple):
            python = f"_numbers(nodes[{place}], {slot}) == {python_value(source.value)}"
            cpp = f"ConstNumbers(nodes[{place}], {slot}, known) == {cpp_value(source.value)}"
            self.require(Code(python, cpp, "bool"), reason, is_of_number=True)
            return
        found = const_number(Desc(place, slot, False, True))
        margin = max(abs(source.number), 1e-30) * (source.tolerance or _FEW_ULP)
        python = f"abs({found.python} - {source.number!r}) <= {margin!r}"
        cpp = f"std::fabs({found.cpp} - {source.number!r}) <= {margin!r}"
        self.require(Code(python, cpp, "bool"), reason, is_of_number=source.tolerance is None)

    def _require_type(self, name: str, kind: TypePattern) -> None:
        if name in self.form.absent:
            return
        desc = self.descs.get(name)
        if desc is None:
            raise Refusal("type", f"the type of {name} cannot be asked for", kind.span)
        python, cpp = desc.code
        if kind.is_const and isinstance(self.values.get(name), Input):
            place = f"nodes[{desc.node}], {desc.slot}"
            self.require(Code(f"_is_const({place})", f"IsConst({place})", "bool"), f"{name} is no constant")
        if kind.format is not None:
            raise Refusal("format", "it asks for a storage format", kind.format.span)
        dtype = Code(f"int({python}.data_type)", f"{cpp}.GetDataType()", "dtype")
        if kind.dtypes is not None:
            known = sorted((DT[item] for item in kind.dtypes if item in DT), key=lambda item: item[0])
            numbers = ", ".join(str(number) for number, _ in known)
            tests = " || ".join(f"{dtype.cpp} == ge::{text}" for _, text in known) or "false"
            self.require(
                Code(f"{dtype.python} in ({numbers},)", f"({tests})", "bool"),
                f"{name} has another element type",
            )
        if kind.dtype_name is not None:
            first = self.codes.setdefault(kind.dtype_name, dtype)
            if first is not dtype:
                same = Code(f"{dtype.python} == {first.python}", f"{dtype.cpp} == {first.cpp}", "bool")
                self.require(same, f"{name} has another element type")
        if kind.dims is not None:
            self._require_dims(name, desc, kind)

    def _require_dims(self, name: str, desc: Desc, kind: TypePattern) -> None:
        dims = kind.dims or ()
        python, cpp = desc.code
        rests = [place for place, item in enumerate(dims) if isinstance(item, DimRest | DimSeq)]
        n_fixed = len(dims) - len(rests)
        op = ">=" if rests else "=="
        rank = Code(f"_rank({python}) {op} {n_fixed}", f"Rank({cpp}, known) {op} {n_fixed}", "bool")
        if not (rests and n_fixed == 0):
            self.require(rank, f"{name} has another rank")
        for place, item in enumerate(dims):
            at = place if not rests or place < rests[0] else place - len(dims)
            code = dim(desc, at)
            reason = f"a size of {name} is another"
            match item:
                case DimSize(size=size):
                    self.require(Code(f"{code.python} == {size}", f"{code.cpp} == {size}", "bool"), reason)
                case DimName(name=bound) if bound != "_":
                    first = self.codes.setdefault(bound, code)
                    if first is not code:
                        same = Code(f"{code.python} == {first.python}", f"{code.cpp} == {first.cpp}", "bool")
                        self.require(same, reason)
                case _:
                    pass


def _is_list(source: Source) -> bool:
    return isinstance(source, Number) and isinstance(source.value, tuple)
