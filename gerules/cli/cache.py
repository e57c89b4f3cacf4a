"""`gerules cache`: what the compile cache holds, whether it is sound, and how to empty it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from gerules.cli.errors import CliError
from gerules.cli.guard import DIFFERENT, guarded, warn
from gerules.cli.options import DebugOption, JsonOption
from gerules.cli.output import show, show_json
from gerules.errors import Diagnostic, table

if TYPE_CHECKING:
    from gerules.pipeline.cache import EntryStore

cache_app = typer.Typer(
    help="List, check and empty the compile cache.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
)


@cache_app.command("list")
@guarded
def list_command(json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the entries of the cache, the one used last first.

    The cache lies in GERULES_CACHE_DIR, or in `gerules` below XDG_CACHE_HOME or
    ~/.cache. It keeps up to GERULES_CACHE_SIZE bytes, 2GiB unless set, and
    drops what was not used for longest. GERULES_CACHE=0 switches it off.

    \b
    Examples:
      gerules cache list
      gerules cache list --json
    """
    from gerules.report.cache_list import cache_grid

    store = _store()
    try:
        found = store.entries()
    except OSError as fault:
        raise _unreadable(store, fault) from None
    if json:
        entries = [
            {"key": entry.key, "size_bytes": entry.size_bytes, "used_s": entry.used_s} for entry in found
        ]
        show_json({"folder": str(store.folder), "limit_bytes": store.limit_bytes, "entries": entries})
        return
    show(cache_grid(store, found))


@cache_app.command("clear")
@guarded
def clear_command(json: JsonOption = False, debug: DebugOption = False) -> None:
    """Delete all entries of the cache.

    \b
    Examples:
      gerules cache clear
    """
    from gerules.errors.counts import count_text

    store = _store()
    try:
        n_deleted = store.clear()
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise CliError(table.CANNOT_WRITE, path=store.folder, reason=reason) from None
    if json:
        show_json({"folder": str(store.folder), "deleted": n_deleted})
        return
    show(f"{count_text(n_deleted, 'entry')} deleted from {store.folder}")


@cache_app.command("verify")
@guarded
def verify_command(json: JsonOption = False, debug: DebugOption = False) -> None:
    """Check each entry by its checksum, and delete those that are damaged.

    Ends with exit code 3 when there were any.

    \b
    Examples:
      gerules cache verify
    """
    from gerules.errors.counts import count_text

    store = _store()
    try:
        n_entries, damaged = len(store.entries()), store.verify()
    except OSError as fault:
        raise _unreadable(store, fault) from None
    notes = [
        Diagnostic(
            table.CACHE_ENTRY_DAMAGED,
            {"key": entry.key[:12], "reason": reason, "remedy": _DELETED},
            severity="warning",
        )
        for entry, reason in damaged
    ]
    if json:
        show_json({"entries": n_entries, "damaged": [item.as_json() for item in notes]})
    else:
        warn(notes)
        show(f"{count_text(n_entries, 'entry')}, {len(damaged)} damaged and deleted")
    if damaged:
        raise typer.Exit(DIFFERENT)


_DELETED: Final = "nothing has to be done: the next compile of this model keeps it again"


def _store() -> EntryStore:
    """The cache of this user. Raises CliError E10003 when it is off, E10001 when its folder is none."""
    from gerules.pipeline.cache import EntryStore, cache_settings

    settings = cache_settings()
    if settings.folder is None:
        raise CliError(
            table.BAD_OPTION, option="GERULES_CACHE", value="0", reason="it switches the cache off",
            remedy="unset it, or set GERULES_CACHE_DIR where no home folder is known",
        )  # fmt: skip
    if settings.folder.exists() and not settings.folder.is_dir():
        reason = "it is a file, and the cache wants a folder: set GERULES_CACHE_DIR to one"
        raise CliError(table.FILE_NOT_FOUND, path=settings.folder, reason=reason)
    return EntryStore(settings.folder, settings.limit_bytes)


def _unreadable(store: EntryStore, fault: OSError) -> CliError:
    return CliError(table.FILE_NOT_FOUND, path=store.folder, reason=fault.strerror or str(fault))
