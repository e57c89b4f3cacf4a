"""What operators of an offline model compute, from the rule texts that travel with it."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.dsl import Environment, RuleBook, load_rules, select_rules
from gerules.engine.candidate import Infer
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.errors import Source
from gerules.ir import Graph, Node, ValueType
from gerules.ops import Schemas
from gerules.target.cost import BodyOf


def read_definitions(texts: Sequence[str]) -> BodyOf | None:
    """Return what defined operators compute; None when there is no text.

    Raises:
        TextError, RuleError: as `gerules.dsl.load_rules`, for texts that are no definitions.
    """
    if not texts:
        return None
    sources = [Source(f"definitions {at}", text) for at, text in enumerate(texts)]
    return bodies_of(load_rules(sources, schemas=None))


def bodies_of(book: RuleBook) -> BodyOf:
    """Return what the defined operators of a rule book compute.

    The function raises RuleError E40038 where a definition does not go with a node.
    """
    schemas = Schemas()
    selection = select_rules(book, Environment())
    register_defines(book.defines.values(), schemas, selection.scope)
    context = RuleContext(selection.scope, book.patterns)
    extra = define_extra(book.defines, schemas=schemas, context=context)
    infer: Infer = make_infer(schemas, {}, extra)

    def body_of(node: Node, inputs: Sequence[ValueType | None]) -> Graph | None:
        define = book.defines.get(node.op)
        if define is None:
            return None
        return expand_define(define, node, inputs, schemas=schemas, infer=infer, context=context)

    return body_of
