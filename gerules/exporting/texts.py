"""Values as texts of Python and C++."""

from __future__ import annotations

from gerules.exporting.plan import AttrValue, Captured


def python_value(value: AttrValue) -> str:
    """Return a value as Python writes it; lists are lists."""
    if isinstance(value, Captured):
        return f'nodes[{value.node}].get_attr("{value.name}")'
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
    return f'"{escaped}"'


def class_name(name: str) -> str:
    """Return the name of a class for a rule: `conv_relu` is `ConvRelu`."""
    return "".join(word[:1].upper() + word[1:] for word in name.replace(".", "_").split("_") if word)
