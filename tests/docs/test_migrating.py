"""The page about migrating names everything that the faces of other tools have."""

from __future__ import annotations

import re

import pytest

from gerules.compat import acl, ge
from gerules.compat.ge import options
from tests.docs.pages import DOCS

TEXT = (DOCS / "migrating.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([\w.]+)`", TEXT))
ACL = {"acl": acl, "acl.rt": acl.rt, "acl.mdl": acl.mdl, "acl.util": acl.util, "acl.prof": acl.prof}


@pytest.mark.parametrize("module", ACL)
def test_every_call_of_pyacl_is_named_and_none_that_is_not(module: str) -> None:
    calls = {f"{module}.{name}" for name in dir(ACL[module]) if callable(getattr(ACL[module], name))}
    assert calls - NAMED == set()
    inside = {name for name in NAMED if name.rpartition(".")[0] == module}
    assert inside - calls <= {"acl.himpi"}


def test_every_name_of_ge_is_on_the_page() -> None:
    words = {name.rpartition(".")[2] for name in NAMED}
    assert set(ge.__all__) - words - {"es"} == set()
    assert "es.all" in NAMED


def methods_of(kind: type) -> set[str]:
    """The public methods in the spelling of Python; CamelCase ones are second names."""
    return {
        name for name, member in vars(kind).items() if callable(member) and re.fullmatch(r"[a-z]\w*", name)
    }


@pytest.mark.parametrize("kind", [ge.Graph, ge.Session], ids=lambda kind: kind.__name__)
def test_every_method_is_on_the_page(kind: type) -> None:
    assert methods_of(kind) - NAMED == set()


def test_operators_and_options_are_those_that_there_are() -> None:
    operators = TEXT.split("### Operators")[1].split("An operator that is not")[0]
    assert re.findall(r"`(\w+)`", operators) == dir(ge.es.all)
    understood = TEXT.split("Options that are understood:")[1].split(". Those that")[0]
    assert set(re.findall(r"`([\w.]+)`", understood)) == set(options.KNOWN)
