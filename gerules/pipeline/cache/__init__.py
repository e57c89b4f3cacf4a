"""The compile cache: results of compiles by what they follow from, so that the same work is done once."""

from gerules.pipeline.cache.compiling import compile_cached
from gerules.pipeline.cache.kept import KeptModel
from gerules.pipeline.cache.settings import CacheSettings, cache_settings
from gerules.pipeline.cache.store import Entry, EntryStore

__all__ = [
    "CacheSettings",
    "Entry",
    "EntryStore",
    "KeptModel",
    "cache_settings",
    "compile_cached",
]
