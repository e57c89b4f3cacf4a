"""CompilerConfig: TorchAir's tree of typed fields, of which none is ignored."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from gerules.compat.torchair.error import ConfigError
from gerules.compat.torchair.fields import FIELDS, Field, are_steps
from gerules.dsl.book import suggest
from gerules.dynamo import BackendOptions
from gerules.errors import table

_BY_PATH: Final[Mapping[str, Field]] = {field.path: field for field in FIELDS}


class Section:
    """A part of the configuration: fields, and parts of its own. No other field can be set."""

    _path: str
    _values: dict[str, object]
    _sections: dict[str, Section]

    def __init__(self, path: str = "") -> None:
        prefix = f"{path}." if path else ""
        names = [item.removeprefix(prefix) for item in _BY_PATH if item.startswith(prefix)]
        inner = dict.fromkeys(name.partition(".")[0] for name in names if "." in name)
        leaves = {name: _BY_PATH[prefix + name].default for name in names if "." not in name}
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_values", leaves)
        object.__setattr__(self, "_sections", {name: Section(prefix + name) for name in inner})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._sections:
            return self._sections[name]
        if name in self._values:
            return self._values[name]
        raise self._unknown(name)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._values:
            raise self._unknown(name)
        _check(_BY_PATH[f"{self._path}.{name}" if self._path else name], value)
        self._values[name] = value

    def __dir__(self) -> list[str]:
        return sorted([*self._values, *self._sections])

    def __deepcopy__(self, memo: dict[int, object]) -> Section:
        other = object.__new__(type(self))
        object.__setattr__(other, "_path", self._path)
        object.__setattr__(other, "_values", dict(self._values))
        object.__setattr__(other, "_sections", copy.deepcopy(self._sections, memo))
        return other

    def _unknown(self, name: str) -> ConfigError:
        known = [*self._values, *self._sections]
        return ConfigError(
            table.UNKNOWN_CONFIG_FIELD,
            path=f"config.{self._path}.{name}" if self._path else f"config.{name}",
            known=", ".join(known),
            notes=suggest(name, known),
        )

    def changed(self) -> dict[str, object]:
        """Return the fields that differ from their defaults, by path."""
        prefix = f"{self._path}." if self._path else ""
        found = {
            prefix + name: value
            for name, value in self._values.items()
            if value != _BY_PATH[prefix + name].default
        }
        for section in self._sections.values():
            found |= section.changed()
        return found


class CompilerConfig(Section):
    """What a compile by `get_npu_backend` is asked for, field by field.

    >>> config = CompilerConfig()
    >>> config.ge_config.oo_level = "O1"
    >>> config.changed()
    {'ge_config.oo_level': 'O1'}
    """

    def as_backend_options(self) -> BackendOptions:
        """Return what the fields come to. Raises ConfigError for fields that contradict each other."""
        from gerules.compat.torchair.effects import backend_options

        return backend_options(self)


_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "flag": ((bool,), "True or False"),
    "number": ((int,), "a whole number"),
    "decimal": ((int, float), "a number"),
    "text": ((str,), "a text"),
    "path": ((str, Path), "the path of a file that exists"),
    "folder": ((str, Path), "a folder that exists"),
    "names": ((str, tuple, list), "a text, or several"),
    "steps": ((str,), "runs and ranges of them, such as 0|1|2-5"),
}


def _check(field: Field, value: object) -> None:
    allowed = field.allowed
    if isinstance(allowed, tuple):
        is_allowed = any(value is item or (value == item and type(value) is type(item)) for item in allowed)
        words = ", ".join(repr(item) for item in allowed)
    elif allowed == "function":
        is_allowed, words = value is None or callable(value), "a function, or None"
    else:
        kinds, words = _KINDS[allowed]
        is_allowed = isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)
        if is_allowed and allowed in ("path", "folder"):
            place = Path(cast("str | Path", value))
            is_allowed = place.is_file() if allowed == "path" else place.is_dir()
        if is_allowed and allowed == "steps":
            is_allowed = are_steps(cast(str, value))
        if is_allowed and field.least is not None:
            is_allowed = field.least <= cast(float, value) < math.inf
        if field.least is not None:
            words += f" from {field.least}"
        is_allowed = is_allowed or (value is None and field.default is None)
    shown = repr(cast(object, value))
    if not is_allowed:
        raise ConfigError(table.BAD_CONFIG_VALUE, path=f"config.{field.path}", value=shown, allowed=words)
    if field.refused and value != field.default:
        raise ConfigError(
            table.CONFIG_NOT_OFFERED, path=f"config.{field.path}", value=shown, reason=field.refused,
            default=repr(field.default),
        )  # fmt: skip
