"""`torchair.inference`: gears of dimensions, and functions whose compiles are kept on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO, cast

from gerules.compat.torchair.config import CompilerConfig
from gerules.compat.torchair.error import ConfigError
from gerules.dynamo import start
from gerules.dynamo.gears import MARK
from gerules.errors import table
from gerules.pipeline.cache import EntryStore, cache_settings

_MOST_GEARS: Final = 100
_FEWEST_GEARS: Final = 2
"""Source: TorchAir, set_dim_gears."""


def set_dim_gears(tensor: Any, dim_gears: Mapping[int, Sequence[int]]) -> None:
    """Say which sizes the dimensions of an input may have; the graph has to be compiled with `dynamic=True`.

    A model is compiled for each gear when it first comes; models share their weights. Any other size is
    refused with E10094.

    Args:
        tensor: The input of the first call.
        dim_gears: Between 2 and 100 sizes from 2 by dimension; at most 100 combinations.

    Raises:
        ConfigError: E10115 for gears that cannot be, or that differ from those declared before.
    """
    wanted = _whole_numbers(dim_gears)
    combinations = 1
    for dim, sizes in wanted.items():
        combinations *= len(set(sizes))
        if not 0 <= dim < tensor.dim():
            raise _bad_gears(dim, sizes, f"the tensor has {tensor.dim()} dimensions")
        if not _FEWEST_GEARS <= len(sizes) <= _MOST_GEARS or len(set(sizes)) != len(sizes):
            raise _bad_gears(dim, sizes, f"there have to be {_FEWEST_GEARS} to {_MOST_GEARS} different sizes")
        if any(size < 2 for size in sizes):
            raise _bad_gears(dim, sizes, "torch compiles sizes of 0 and 1 apart from all others")
    if combinations > _MOST_GEARS:
        raise _bad_gears("all", "", f"they have {combinations} combinations, and {_MOST_GEARS} are the most")
    earlier = getattr(tensor, MARK, None)
    if earlier is not None and earlier != wanted:
        raise _bad_gears("all", wanted, f"the tensor has gears already: {earlier}")
    setattr(tensor, MARK, wanted)


def _whole_numbers(given: object) -> dict[int, tuple[int, ...]]:
    if not isinstance(given, Mapping):
        raise _bad_gears("all", given, "they are given as sizes by dimension, such as {0: [2, 4]}")
    found: dict[int, tuple[int, ...]] = {}
    for dim, sizes in cast("Mapping[object, object]", given).items():
        if not _is_whole(dim):
            raise _bad_gears(repr(dim), sizes, "dimensions are whole numbers")
        if not isinstance(sizes, tuple | list | range):
            raise _bad_gears(dim, sizes, "there has to be a list of sizes")
        listed = tuple(cast("Sequence[object]", sizes))
        if not all(_is_whole(size) for size in listed):
            raise _bad_gears(dim, listed, "sizes are whole numbers")
        found[cast(int, dim)] = cast("tuple[int, ...]", listed)
    return found


def _is_whole(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _bad_gears(dim: object, sizes: object, reason: str) -> ConfigError:
    return ConfigError(table.BAD_DIM_GEARS, dim=dim, sizes=sizes, reason=reason)


def cache_compile(
    func: Callable[..., Any],
    *,
    config: CompilerConfig | None = None,
    dynamic: bool = True,
    cache_dir: str | Path | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    **options: object,
) -> Callable[..., Any]:
    """Compile a function or a method of a module, and keep what is compiled on disk.

    Unlike TorchAir's, an entry is found by what it follows from: the graph with its weights, the rules and
    the options. It need not be deleted after a change, and torch's guards are kept. Nothing is pickled.

    Args:
        cache_dir: Where to; without it `$TORCHAIR_CACHE_HOME`, or `.torchair_cache` in the working folder.
        global_rank: None or 0, as `tp_rank` and `pp_rank`: graphs run in one process.

    Raises:
        ConfigError: E10112 for ranks, and for other options of TorchAir's function.
    """
    ranks = {"global_rank": global_rank, "tp_rank": tp_rank, "pp_rank": pp_rank}
    for name, value in {**{key: item for key, item in ranks.items() if item}, **options}.items():
        reason = "graphs run in one process" if name in ranks else "cache_compile takes no such option here"
        raise ConfigError(
            table.CONFIG_NOT_OFFERED, path=name, value=repr(value), reason=reason, default="None"
        )
    folder = Path(cache_dir or os.environ.get("TORCHAIR_CACHE_HOME") or ".torchair_cache")
    chosen = replace((config or CompilerConfig()).as_backend_options(), cache=folder)
    torch: Any = import_module("torch")

    def backend(gm: Any, example_inputs: Any) -> Any:
        return start(gm, example_inputs, options=chosen)

    return torch.compile(func, backend=backend, dynamic=dynamic, fullgraph=True)


def readable_cache(cache_bin: str | Path, print_output: bool = True, file: TextIO | str | None = None) -> str:
    """Return what a cache folder holds: its entries and their parts.

    Args:
        cache_bin: The folder that `cache_compile` was given.
        print_output: Whether to print it too.
        file: Where it is written as well: a path, or something to write to.

    Raises:
        ConfigError: E10111 for a folder that does not exist.
    """
    if not Path(cache_bin).is_dir():
        raise ConfigError(
            table.BAD_CONFIG_VALUE, path="cache_bin", value=repr(str(cache_bin)),
            allowed="the folder that cache_compile was given",
        )  # fmt: skip
    store = EntryStore(Path(cache_bin), cache_settings(cache_bin).limit_bytes)
    lines: list[str] = []
    for entry in store.entries():
        lines.append(f"{entry.key}: {entry.size_bytes} bytes")
        parts = store.find(entry.key).parts or {}
        lines += [f"    {name}: {len(data)} bytes" for name, data in parts.items()]
    text = "".join(f"{line}\n" for line in lines)
    if print_output:
        print(text, end="")
    if isinstance(file, str):
        Path(file).write_text(text, encoding="utf-8")
    elif file is not None:
        file.write(text)
    return text
