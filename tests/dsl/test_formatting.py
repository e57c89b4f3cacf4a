"""The canonical layout: the same however a file was laid out, never another meaning, comments kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.dsl import read_file, rules_folder
from gerules.dsl.formatting import MAX_COLUMNS, format_rules
from gerules.dsl.tokens import read_lines
from gerules.errors import GerulesError, Source
from tests.docs.pages import PAGES, blocks_of

OWN = Path(__file__).parent / "rules"
FILES = sorted([*rules_folder().rglob("*.ger"), *OWN.rglob("*.ger")])
TEXTS = [
    *((str(file.name), file.read_text(encoding="utf-8")) for file in FILES),
    *((str(block), block.text) for page in PAGES for block in blocks_of(page) if block.kind == "ger"),
]


def reads(text: str) -> bool:
    try:
        read_file(Source("t", text))
    except GerulesError:
        return False
    return True


RIGHT = [(name, text) for name, text in TEXTS if reads(text)]

ROOT = Path(__file__).parents[2]
SHIPPED = [
    *(
        (str(item.relative_to(ROOT)), item.read_text(encoding="utf-8"))
        for item in sorted(ROOT.glob("rules/**/*.ger"))
    ),
    *(
        (str(item.relative_to(ROOT)), item.read_text(encoding="utf-8"))
        for item in sorted(ROOT.glob("examples/*.ger"))
    ),
    *((str(block), block.text) for page in [*PAGES, ROOT / "README.md"] for block in blocks_of(page, "ger")),
]
"""Rule files and blocks of pages that users read."""
NEAT = [(name, text) for name, text in SHIPPED if reads(text)]


def laid_out(text: str) -> str:
    return format_rules(Source("t.ger", text))


def said(text: str) -> object:
    file = read_file(Source("t", text))
    return file.version, file.includes, file.items


def comments_of(text: str) -> list[str]:
    return re.findall(r"#[^\n]*", re.sub(r'"(\\.|[^"\\\n])*"', '""', text))


@pytest.mark.parametrize(("name", "text"), RIGHT, ids=[name for name, _ in RIGHT])
def test_a_second_time_changes_nothing_and_the_meaning_stays(name: str, text: str) -> None:
    once = laid_out(text)
    assert laid_out(once) == once
    assert said(once) == said(text)
    assert sorted(item.rstrip() for item in comments_of(text)) == sorted(comments_of(once))
    assert not re.search(r"[ \t]$|\n\n\n|\r", once, re.MULTILINE)
    wide = [line for line in once.splitlines() if len(line.split("  #")[0]) > MAX_COLUMNS]
    assert [line for line in wide if "," in line.split('"')[0]] == []


def test_there_is_enough_to_lay_out() -> None:
    assert len(RIGHT) > 60
    assert len(NEAT) > 90


@pytest.mark.parametrize(("name", "text"), NEAT, ids=[name for name, _ in NEAT])
def test_what_is_shipped_is_laid_out(name: str, text: str) -> None:
    assert text == laid_out(text), f"gerules fmt {name}"


SMALL = [text for _, text in RIGHT if len(text) < 1500]


@st.composite
def mangled(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and the same with other blanks, line ends, indents, empty lines and comments."""
    text = draw(st.sampled_from(SMALL))
    unit = draw(st.integers(1, 7))
    dice = draw(st.randoms(use_true_random=False))
    out: list[str] = []
    columns = [0]
    for line in read_lines(text):
        while columns[-1] > line.column:
            columns.pop()
        if line.tokens and columns[-1] < line.column:
            columns.append(line.column)
        if not line.tokens:
            continue
        row, depth = " " * (unit * (len(columns) - 1)), 0
        before = ""
        for token in line.tokens:
            if token.kind == "comment":
                continue
            needs = re.match(r"\w", token.text) and re.match(r"\w", before[-1:])
            signs = not re.match(r"[\w\"]", token.text) and before and not re.match(r"[\w\"]", before[-1])
            if before:
                row += " " * dice.choice([1, 1, 2, 5] if needs or signs else [0, 0, 1, 3])
            if depth and dice.random() < 0.1:
                row += dice.choice(["\n", "\r\n   ", " # inside\n", "\n\n  # alone\n\n"])
            depth += (token.text in "([{") - (token.text in ")]}")
            row += token.text
            before = token.text
        out.append(row + dice.choice(["", "", "  ", " # behind", "\n\n\n", f"\n{' ' * unit}# below"]))
    return text, dice.choice(["\n", "\r\n"]).join(out) + dice.choice(["", "\n\n"])


@given(mangled())
def test_whatever_the_blanks_the_layout_holds(pair: tuple[str, str]) -> None:
    text, wild = pair
    assert said(wild) == said(text)
    once = laid_out(wild)
    assert said(once) == said(text)
    assert laid_out(once) == once
    assert sorted(comments_of(once)) == sorted(item.rstrip() for item in comments_of(wild))


@given(st.sampled_from(SMALL), st.randoms(use_true_random=False))
def test_without_comments_the_layout_is_one(text: str, dice: object) -> None:
    """Breaking lines inside brackets elsewhere leads to the same text."""
    plain = laid_out(re.sub(r"(?m)^ *#.*\n", "", laid_out(text)))
    if "#" in re.sub(r'"[^"\n]*"', "", plain):
        return
    broken = re.sub(r"(?<=[^\"]), (?=[^\"\n]*$)", ",\n      ", plain, flags=re.MULTILINE)
    if not reads(broken) or said(broken) != said(plain):
        return  # a comma outside of brackets
    assert laid_out(broken) == plain


def test_spacing() -> None:
    wild = """\
gerules 1
ops A={Add,Sub}+{Mul}-B
format F(N,C/C0,C%C0)
param P=-1.5 "p"
rule r in own.set "doc" :
  priority -3
  match :
    shared y:f16@NC1HWC0,*r=f@A?( ch@{Relu,Neg}{ 2 .. 16 }( x:const [ M , ... ],... ),B?:T [N,*s],k=$P,** a )
    many 2 .. 8 :
      z=Add !( y,Add ~( x,0.5~0.001 ) )
      limit ( len ( z )<3 )
  where :
    x.shape [ 1 : ]==x.shape [ -n+1 :k . rank ] and not ( a in [ - 1,2 ] )else "no"
    $P*-2**2-1<=3
  rewrite :
    y=Conv( y,*r,m={"a":1 ,"b" : [ ] },** a )
  test :
    B ? ,k:f32 [ 2 ]in - 0.5 .. 2.0
"""
    assert laid_out(wild) == """\
gerules 1
ops A = {Add, Sub} + {Mul} - B
format F(N, C / C0, C % C0)
param P = -1.5 "p"
rule r in own.set "doc":
    priority -3
    match:
        shared y: f16 @NC1HWC0, *r = f@A?(
            ch@{Relu, Neg}{2..16}(x: const [M, ...], ...), B?: T[N, *s], k=$P, **a
        )
        many 2..8:
            z = Add!(y, Add~(x, 0.5 ~ 0.001))
            limit (len(z) < 3)
    where:
        x.shape[1:] == x.shape[-n + 1 : k.rank] and not (a in [-1, 2]) else "no"
        $P * -2 ** 2 - 1 <= 3
    rewrite:
        y = Conv(y, *r, m={"a": 1, "b": []}, **a)
    test:
        B?, k: f32[2] in -0.5 .. 2.0
"""  # fmt: skip


def test_comments_and_groups_stay_where_they_are() -> None:
    wild = """\


# top
gerules 1   # version
# about A


#   second line
ops A = {  # first
     Add, Sub,   # arithmetic
     # alone
     Mul   # last
   # end
 }
rule r in own:
   # of the block
   match: y = Neg(x)

 # above rewrite
   rewrite: y = Abs(x)
   # below
# end of file
"""
    assert laid_out(wild) == """\
# top
gerules 1  # version
# about A

#   second line
ops A = {  # first
    Add, Sub,  # arithmetic
    # alone
    Mul  # last
    # end
}
rule r in own:
    # of the block
    match: y = Neg(x)

    # above rewrite
    rewrite: y = Abs(x)
    # below
# end of file
"""  # fmt: skip


def test_a_comment_stays_beside_what_it_speaks_of() -> None:
    wild = """\
rule r in own:
    match: y = Add(Neg(a),  # the first
                   Neg(b))  # the second
    rewrite: y = Neg(Add(a,
                         b
                     ))  # of all
"""
    assert (
        laid_out(wild)
        == """\
rule r in own:
    match: y = Add(
        Neg(a),  # the first
        Neg(b)   # the second
    )
    rewrite: y = Neg(Add(a, b))  # of all
"""
    )


def test_lines_of_one_kind_stand_in_columns() -> None:
    wild = """\
gerules 1 # version
include "a.ger"    # more
ops A = {Add}
ops LONG={Sub}
param N=1 "a number" # of 1
param LONGER=1.25 "another"
param PLAIN=2
rule r in own:
    when $N > 0 else "off"
    match:
        many 2..8: # several
            x = Neg(y)
        z=Add(x, # one
            y,k # two
        )
    where:
        n==2 else "no"
        z.rank > 1+n else "low"

        n>1 else "apart"
        n if n>1 else "a value"
        n if n>100 else "a value"
    rewrite:
        z=Abs(x)
device d:
    engine LONGEST priority 1: A
    engine B priority 10: LONG
    engine C: A
    set clock_mhz=1 # slow
    set launch_us=2.0 # assumed
formats on d.B:
    Add(x: ND)->ND # same
    _@LONG(x: ND, y: ND)->ND where same_shape(x, y)
    _@A(
      *: ND # all
    )->ND
"""
    assert laid_out(wild) == """\
gerules 1        # version
include "a.ger"  # more
ops A        = {Add}
ops LONG     = {Sub}
param N      = 1    "a number"  # of 1
param LONGER = 1.25 "another"
param PLAIN  = 2
rule r in own:
    when $N > 0 else "off"
    match:
        many 2..8:  # several
            x = Neg(y)
        z = Add(
            x,    # one
            y, k  # two
        )
    where:
        n == 2         else "no"
        z.rank > 1 + n else "low"

        n > 1 else "apart"
        n if n > 1 else "a value"
        n if n > 100 else "a value"
    rewrite:
        z = Abs(x)
device d:
    engine LONGEST priority 1:  A
    engine B       priority 10: LONG
    engine C: A
    set clock_mhz = 1    # slow
    set launch_us = 2.0  # assumed
formats on d.B:
    Add(x: ND)           -> ND  # same
    _@LONG(x: ND, y: ND) -> ND where same_shape(x, y)
    _@A(
        *: ND  # all
    ) -> ND
"""  # fmt: skip


def test_a_line_that_would_be_too_wide_stays_out_of_the_column() -> None:
    short, wide = "a == 1", " and ".join(["a == 1"] * 6)
    reason = "r" * 60
    block = "gerules 1\nrule r in own:\n    match: y = Neg(x)\n    where:\n"
    rows = [
        f'{short} else "few"',
        f'{wide} else "many"',
        f'{short} else "{reason}"',
        f'{short} + 1 else "some"',
    ]
    text = block + "".join(f"        {row}\n" for row in rows) + "    rewrite: y = x\n"
    assert laid_out(text).splitlines()[4:8] == [
        f'        {short}     else "few"',
        f'        {wide} else "many"',
        f'        {short}     else "{reason}"',
        f'        {short} + 1 else "some"',
    ]


def test_a_faulty_file_raises_its_faults() -> None:
    with pytest.raises(GerulesError, match="E40001"):
        laid_out("rule x\n")


def test_an_empty_file_stays_empty() -> None:
    assert laid_out("") == laid_out("\n\n  \n") == ""


def test_a_layout_that_says_something_else_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: dict[str, str] = {"Neg": "Abs", "# note": ""}

    def layout(text: str) -> str:
        for before, after in replaced.items():
            text = text.replace(before, after)
        return text

    monkeypatch.setattr("gerules.dsl.formatting._layout", layout)
    with pytest.raises(GerulesError, match="E40023"):
        laid_out("gerules 1\nrule r in own: Neg(x) => Relu(x)\n")
    with pytest.raises(GerulesError, match="E40023"):
        laid_out("gerules 1\n# note\n")
