"""Names of passes: legal in both languages, unlike for unlike rules, and the same in every output."""

from __future__ import annotations

import re
from typing import Final

_TAKEN: Final = frozenset(["DecomposePass", "FusionBasePass", "PatternFusionPass"])
"""Classes of the interface itself."""


def pass_name(rule: str, form: int | None = None) -> str:
    """Return the name under which a form of a rule is registered, which is the name of its class.

    No two rules and forms have one name: an underscore goes only where a small letter becomes a capital
    for it.

    >>> pass_name("conv_relu"), pass_name("sig", 1), pass_name("sig_1"), pass_name("sig1"), pass_name("Sig")
    ('ConvReluPass', 'Sig_form1Pass', 'Sig_1Pass', 'Sig1Pass', '_SigPass')
    """
    marked = re.sub(r"[A-Z]", lambda found: f"-{found[0]}", rule)
    joined = re.sub(r"(?<=[^_])_([a-z])", lambda found: found[1].upper(), marked)
    name = (
        joined[:1].upper() + joined[1:].replace("-", "_") if joined[:1] != "-" else joined.replace("-", "_")
    )
    name = _ascii(re.sub(r"_$", "_u5f_", name))  # so that what follows begins where it seems to
    if form is not None:
        return f"{name}_form{form}Pass"
    return f"{name}_rulePass" if f"{name}Pass" in _TAKEN else f"{name}Pass"


def pattern_name(rule: str) -> str:
    """Return the name of the method that builds the pattern; no keyword, and no method of the base class."""
    return f"match_{_ascii(rule)}"


def _ascii(name: str) -> str:
    """Letters of other alphabets as numbers: Python takes some of them for one another."""
    return re.sub(r"[^\x00-\x7f]", lambda found: f"_u{ord(found[0]):x}_", name)
