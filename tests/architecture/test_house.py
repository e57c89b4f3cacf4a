"""The house rules that a machine can hold: names, sizes, floors, docstrings, paths, error codes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import gerules
from gerules.errors import table

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gerules"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted({path.parent for path in SOURCES})
BANNED = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}

MOST_LINES = 600
MANY_LINES = 400
TABLES = {"errors/table.py"}
"""Files that are one flat table: a second subject is not to be found in them, however long they get."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def n_lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def tracked() -> list[Path]:
    """The files of the repository; of a checkout without git, everything that looks like one."""
    try:
        run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        found = [ROOT / name for name in run.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        folders = ("gerules", "rules", "tests", "docs", "bench", ".ci")
        found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- files
def test_no_file_has_a_name_that_says_nothing() -> None:
    parts = {name_of(path): set(path.relative_to(ROOT).with_suffix("").parts) for path in tracked()}
    assert [name for name, words in parts.items() if words & BANNED] == []


def test_files_have_one_subject_and_a_size_that_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {path.relative_to(PACKAGE).as_posix(): n_lines_of(path) for path in SOURCES}
    with capsys.disabled():
        for name, n_lines in sorted(sizes.items(), key=lambda item: -item[1]):
            if n_lines > MANY_LINES and name not in TABLES:
                print(f"\n  {n_lines} lines: gerules/{name}", end="")
    assert {name: n for name, n in sizes.items() if n > MOST_LINES and name not in TABLES} == {}


def test_every_file_says_its_subject_in_its_first_line() -> None:
    missing = [name_of(path) for path, tree in trees() if not ast.get_docstring(tree)]
    assert missing == []


def test_every_package_is_one() -> None:
    assert [name_of(path) for path in PACKAGES if not (path / "__init__.py").is_file()] == []


def test_every_folder_of_tests_is_a_package() -> None:
    # Otherwise two files of one name in different folders cannot be collected together.
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_rule_files_say_their_subject_in_their_first_line() -> None:
    files = sorted((ROOT / "rules").rglob("*.ger"))
    assert files
    silent = [name_of(path) for path in files if not re.match(r"# \w", path.read_text(encoding="utf-8"))]
    assert silent == []


# ---------------------------------------------------------------- what must not stand anywhere
def test_no_text_names_a_place_of_one_machine() -> None:
    # In two parts, so that this file does not find itself.
    names = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "t" + "mp"])
    places = re.compile(rf"(?<![\w.:/)}}\]-])/(?:{names})/\w")
    found: list[str] = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name_of(path)}: {match[0]}" for match in places.finditer(text)]
    assert found == []


def calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_no_text_is_ever_executed() -> None:
    banned_calls = {"eval", "exec", "__import__"}
    banned_modules = {"pickle", "cPickle", "marshal", "shelve", "dill"}
    found: list[str] = []
    for path, tree in trees():
        found += [f"{name_of(path)}: {name}()" for name in calls(tree) if name in banned_calls]
        found += [
            f"{name_of(path)}: {name}" for name in imports(tree) if name.split(".")[0] in banned_modules
        ]
    assert found == []


def test_numpy_never_unpickles() -> None:
    found = [
        f"{name_of(path)}:{node.value.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle"
        if not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    assert found == []


def test_nobody_imports_a_star() -> None:
    found = [
        name_of(path)
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    assert found == []


# ---------------------------------------------------------------- floors
def layers() -> list[str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines: list[str] = config["tool"]["importlinter"]["contracts"][0]["layers"]
    return [name.strip() for line in lines for name in line.split("|")]


def test_every_floor_exists_and_every_package_is_a_floor() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert packages == set(layers())


def test_no_package_imports_what_lies_above_it() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed")
    run = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]


# ---------------------------------------------------------------- error codes
def entries() -> list[tuple[str, str, str]]:
    """(Python name, code, slug) of every entry, as the text of the table has them."""
    tree = ast.parse(Path(table.__file__).read_text(encoding="utf-8"))
    found: list[tuple[str, str, str]] = []
    for node in tree.body:
        call = node.value if isinstance(node, ast.AnnAssign | ast.Assign) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ErrorCode":
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]  # type: ignore[union-attr]
            assert isinstance(target, ast.Name)
            code, slug = (item.value for item in call.args[:2] if isinstance(item, ast.Constant))
            found.append((target.id, str(code), str(slug)))
    return found


@pytest.mark.parametrize("place", [0, 1, 2], ids=["names", "codes", "slugs"])
def test_no_two_errors_share_one(place: int) -> None:
    counts = Counter(entry[place] for entry in entries())
    assert [name for name, n in counts.items() if n > 1] == []
    assert len(entries()) == len(table.TABLE) > 100


def test_every_error_is_raised_somewhere() -> None:
    texts = "\n".join(path.read_text("utf-8") for path in SOURCES if path.name != "table.py")
    used = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", texts))
    assert [name for name, _, _ in entries() if name not in used] == []


def test_messages_have_no_facts_that_are_no_names() -> None:
    bad = [
        item.code
        for item in table.TABLE.values()
        for name in re.findall(r"\{([^}]*)\}", item.message + item.hint)
        if not name.isidentifier()
    ]
    assert bad == []


# ---------------------------------------------------------------- the library's face
def test_everything_public_is_explained() -> None:
    assert gerules.__doc__
    silent = [
        name
        for name in getattr(gerules, "__all__", [])
        if callable(value := getattr(gerules, name)) and not (value.__doc__ or "").strip()
    ]
    assert silent == []


def test_the_face_is_small_and_sorted() -> None:
    names = list(getattr(gerules, "__all__", []))
    assert {"compile", "load", "save", "load_rules", "rewrite"} <= set(names)
    assert all(hasattr(gerules, name) for name in names)
