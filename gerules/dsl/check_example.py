"""Checks of the tests of a rule: names that the rule binds, elements that fit."""

from __future__ import annotations

import math

from gerules.dsl.bindings import Bindings, Kind, NameChecker
from gerules.dsl.functions_shape import dtype_limits
from gerules.dsl.syntax import ANY, DimSize, GivenAttr, GivenValue, RuleTest
from gerules.errors import table


class ExampleChecker(NameChecker):
    """Checks the tests that stand inside rules."""

    def check(self, test: RuleTest, bindings: Bindings) -> None:
        """Record what is wrong in a test, and what it uses of what the rule binds."""
        book = self.names.book
        # What a test gives for a chain is the other operand of its operators.
        leaves = {Kind.LEAF, Kind.LIST, Kind.CHAIN}
        given: set[str] = set()
        for item in test.inputs:
            name = item.name
            kind = bindings.kinds.get(name.name)
            if name.name in given and name.name != ANY:
                self.bad_name(name.span, name.name, "the test gives it above already")
            given.add(name.name)
            if name.name == ANY and isinstance(item, GivenAttr):
                self.expr(item.value, given)  # what patterns ignore
            elif kind is None:
                self.undefined(name, bindings.kinds)
            elif isinstance(item, GivenValue):
                if kind not in leaves:
                    self.bad_name(
                        name.span, name.name, f"it is {kind.value}; a test gives inputs of the match"
                    )
                self._elements(item)
            else:
                if kind not in {Kind.ATTR, Kind.ATTRS, Kind.LEAF}:
                    self.bad_name(name.span, name.name, f"it is {kind.value}, which follows from the others")
                self.expr(item.value, given)
            bindings.used.add(name.name)
        for choice in test.choices:
            if bindings.kinds.get(choice.name.name) not in {Kind.OP, Kind.CHAIN}:
                self.undefined(
                    choice.name, [n for n, k in bindings.kinds.items() if k in {Kind.OP, Kind.CHAIN}]
                )
            for op in choice.ops:
                self.operators.check_known(op, self.faults)
            bindings.used.add(choice.name.name)
        for item in test.after:
            for op in item.ops:
                self.operators.check_known(op, self.faults)
        for name in (*test.escapes, *(item.name for item in test.after)):
            if bindings.kinds.get(name.name) is not Kind.RESULT:
                self.undefined(name, [n for n, k in bindings.kinds.items() if k is Kind.RESULT])
        for name, known in ((test.device, book.devices), (test.profile, book.profiles)):
            # Devices may come from elsewhere; only a book that declares some can know better.
            if name is not None and name.name not in known and (known or name is test.profile):
                self.undefined(name, known)

    def _elements(self, item: GivenValue) -> None:
        """Record elements that do not fill the shape, or that an integer type cannot hold."""
        given, dims = item.elements, item.type.dims if item.type is not None else None
        dtypes = item.type.dtypes if item.type is not None else None
        if given is not None and given.kind != "random" and dtypes is not None and len(dtypes) == 1:
            (dtype,) = dtypes
            if dtype.is_integer:
                low, high = dtype_limits(dtype)
                beyond = [value for value in given.values if not low <= value <= high]
                if beyond:
                    reason = f"{beyond[0]!r} is not in {low} .. {high}, the range of {dtype}"
                    self.faults.add(table.BAD_CONSTANT, span=given.span, reason=reason)
        if given is None or given.kind != "list" or dims is None:
            return
        sizes = [dim.size for dim in dims if isinstance(dim, DimSize)]
        if len(sizes) == len(dims) and math.prod(sizes) != len(given.values):
            reason = f"{len(given.values)} elements do not fill the shape {sizes}"
            self.faults.add(table.BAD_CONSTANT, span=given.span, reason=reason)
