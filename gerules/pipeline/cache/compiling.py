"""Compiling through the cache: a result is looked up, or made and kept. The cache never fails a compile."""

from __future__ import annotations

from typing import Final

from gerules.dsl import RuleBook
from gerules.errors import Diagnostic, table
from gerules.ir import Graph
from gerules.pipeline.cache.kept import Kept, KeptModel, parts_of, read_kept
from gerules.pipeline.cache.key import compile_key
from gerules.pipeline.cache.python_code import Uncacheable
from gerules.pipeline.cache.settings import CacheSettings
from gerules.pipeline.cache.store import EntryStore
from gerules.pipeline.compiler import compile_graph
from gerules.pipeline.model import CacheUse, CompiledModel
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.stages import Observe
from gerules.pipeline.switching import apply_switch


def compile_cached(
    graph: Graph,
    book: RuleBook,
    options: CompileOptions,
    settings: CacheSettings,
    observe: Observe | None = None,
) -> CompiledModel:
    """Compile a graph, or take what an equal compile left.

    Args:
        observe: Told of each stage as it ends; of nothing when the result is taken from the cache.

    Returns:
        The model; its `cache` says what the cache did.

    Raises:
        GerulesError: what the compile raises. Faults of the cache are notes.
    """

    def compile_now() -> CompiledModel:
        return CompiledModel(compile_graph(graph, book, options, observe))

    if settings.folder is None or options.stop_after is not None:
        return compile_now()
    notes: list[Diagnostic] = []
    try:
        key = compile_key(graph, book, options)
    except Uncacheable as reason:
        model = compile_now()
        model.cache = CacheUse(False, None, (_note_not_kept(str(reason), _NO_DIGEST),))
        return model
    store = EntryStore(settings.folder, settings.limit_bytes)
    kept = _find(store, key, notes)
    if kept is not None:
        warnings = _warnings(book, options)
        again = lambda: compile_graph(graph, book, options)  # noqa: E731 - one line, used once
        return KeptModel(kept, again, warnings, CacheUse(True, key, tuple(notes)))
    model = compile_now()
    _keep(store, key, model, notes)
    model.cache = CacheUse(False, key, tuple(notes))
    return model


def _find(store: EntryStore, key: str, notes: list[Diagnostic]) -> Kept | None:
    try:
        found = store.find(key)
        if found.parts is None:
            damage = found.damage
        else:
            try:
                return read_kept(found.parts)
            except ValueError as fault:
                damage = str(fault)
                store.discard(key)
    except OSError as fault:
        notes.append(_note_unusable(store, fault))
        return None
    if damage:
        facts = {"key": key[:12], "reason": damage, "remedy": _MADE_AGAIN}
        notes.append(Diagnostic(table.CACHE_ENTRY_DAMAGED, facts, severity="warning"))
    return None


def _keep(store: EntryStore, key: str, model: CompiledModel, notes: list[Diagnostic]) -> None:
    if model.trace.warnings:
        # They point into texts of rules, and whoever compiles again is to see them again.
        notes.append(_note_not_kept("rules failed in it", "correct the rules that are told"))
        return
    try:
        reason = store.keep(key, parts_of(model))
    except OSError as fault:
        if not notes:  # that the folder cannot be read was told
            notes.append(_note_unusable(store, fault))
    except (TypeError, ValueError) as fault:
        notes.append(_note_not_kept(str(fault), "nothing has to be done: the next compile takes its time"))
    else:
        if reason is not None:
            notes.append(_note_not_kept(reason, "raise GERULES_CACHE_SIZE"))


def _warnings(book: RuleBook, options: CompileOptions) -> tuple[Diagnostic, ...]:
    """The warnings of a compile before it begins: those of the book, and of the switch file applied to it."""
    if options.fusion_switch is not None:
        book, _ = apply_switch(book, options.fusion_switch)
    return book.warnings


def _note_unusable(store: EntryStore, fault: OSError) -> Diagnostic:
    facts = {"path": store.folder, "reason": fault.strerror or str(fault)}
    return Diagnostic(table.CACHE_UNUSABLE, facts, severity="warning")


def _note_not_kept(reason: str, remedy: str) -> Diagnostic:
    return Diagnostic(table.CACHE_NOT_KEPT, {"reason": reason, "remedy": remedy}, severity="warning")


_MADE_AGAIN: Final = (
    "nothing has to be done: the model was compiled again; `gerules cache verify` checks all entries"
)

_NO_DIGEST: Final = (
    "let the function read numbers, texts, containers, arrays, functions, classes and plain objects alone, "
    "or use no cache"
)
