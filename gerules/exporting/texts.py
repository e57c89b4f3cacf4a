"""Values as texts of Python and C++."""

from __future__ import annotations

import re

from gerules.exporting.plan import AttrValue, Captured, Computed


def python_value(value: AttrValue) -> str:
    """Return a value as Python writes it; lists are lists."""
    if isinstance(value, Captured):
        return f'nodes[{value.node}].get_attr("{value.name}")'
    if isinstance(value, Computed):
        return value.python
    if isinstance(value, tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    if isinstance(value, str):
        return quoted(value)
    return repr(value)


def cpp_value(value: AttrValue) -> str:
    """Return a value as C++ writes it, of the type that attributes have."""
    match value:
        case Captured():
            raise AssertionError("an attribute that is taken over is written where it is read")
        case Computed(cpp=cpp):
            return cpp
        case bool():
            return "true" if value else "false"
        case int():
            return f"static_cast<int64_t>({value})"
        case float():
            return f"static_cast<float>({value!r})"
        case str():
            return f"AscendString({quoted(value)})"
        case _:
            return f"std::vector<int64_t>{{{', '.join(str(item) for item in value)}}}"


def quoted(text: str) -> str:
    """Return a text in quotes, as both languages read it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\{ord(found[0]):03o}", escaped) + '"'


def comment(text: str) -> str:
    """Return a text as one line of a comment; a backslash at its end would join the next line to it."""
    return " ".join(_printable(text).split()).rstrip("\\ ")


def docstring(text: str) -> str:
    """Return a text as a docstring of Python."""
    return '"""' + _printable(text).replace("\\", "\\\\").replace('"', "'") + '"""'


def needed(helpers: str, separator: str, body: str) -> str:
    """Return those of the helpers, apart by a separator, that a text uses, or that they use themselves."""
    parts = {_helper_name(part): part for part in helpers.strip("\n").split(separator)}
    used: set[str] = set()
    pending = [body]
    while pending:
        words = set(re.findall(r"\w+", pending.pop()))
        new = [name for name in parts if name in words and name not in used]
        used.update(new)
        pending += [parts[name] for name in new]
    return separator.join(part for name, part in parts.items() if name in used)


def _helper_name(part: str) -> str:
    """The name that a function or a class of either language defines."""
    found = re.search(r"^(?:class (\w+)|[^\n/#(]*?(\w+)\()", part, re.MULTILINE)
    assert found is not None, part
    return found[1] or found[2]


def _printable(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)
