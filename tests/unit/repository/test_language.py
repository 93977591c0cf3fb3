"""The language of names, comments, messages and pages: the glossary's terms, and functions that are verbs."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GLOSSARY = ROOT / "docs" / "glossary.md"
TEXT = {".py", ".c", ".h", ".md", ".yaml", ".yml", ".toml", ".txt", ".tpl", ".sh", ".cu", ""}
# The glossary, the guide to contributors, the change log and two tests quote the words; the last
# pattern matches files that are generated from a protocol's definition.
EXCEPT = re.compile(
    r"docs/glossary\.md|CONTRIBUTING\.md|CHANGELOG\.md|tests/unit/repository/test_language\.py"
    r"|tests/unit/test_local_names\.py|.*_pb2.*"
)
# Names that programs and manifests already use.
PUBLIC_NAMES = re.compile(
    r"tessera\\?\.dev/nudged|conformance[-_]mend|\"mend\""
    r"|\.[lr]?strip\(|user nobody|\bmend=|-mend CMD|\"?walls\"?: (?:\{name|dict)|self\.walls"
)

# Participles that do not end in -ed.
IRREGULAR = frozenset(
    re.findall(
        r"\w+",
        """
        begun bound bought broken brought built caught chosen dealt done drawn driven fallen felt
        found frozen given gone grown heard held hidden kept known led left lent lost made meant met
        risen said seen sent shown slept sold sought spent spoken stood swept taken taught thought
        thrown told understood won worn written
        """,
    )
)
# Verbs and nouns that end in -ed.
NO_PARTICIPLE = frozenset(
    re.findall(
        r"\w+",
        "bed bleed breed embed exceed feed heed need proceed red seed shed speed succeed weed",
    )
)


_DEFINED = re.compile(r"\bdef\s+(\w+)")


def _words() -> list[str]:
    rows = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return [word for row in rows for word in re.findall(r"`([a-z ]+)`", row.rsplit("|", 2)[-2])]


@functools.cache
def _first_words() -> frozenset[str]:
    return frozenset(word.split()[0] for word in _words())


def _pattern() -> re.Pattern[str]:
    """Match a banned word as a whole word or as a part of a name in snake case."""
    words = "|".join(sorted(_words(), key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)


@pytest.fixture(scope="module")
def files(tracked_files: list[str]) -> list[str]:
    """Return the paths of the files whose language is tested."""
    return [
        name for name in tracked_files if Path(name).suffix in TEXT and not EXCEPT.fullmatch(name)
    ]


def _banned(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    if _first_words().isdisjoint(re.findall("[a-z]+", text.lower())):
        return  # the pattern takes much longer
    for number, line in enumerate(text.splitlines(), 1):
        for found in pattern.finditer(PUBLIC_NAMES.sub("", line)):
            yield number, found[0]


def is_participle(name: str) -> bool:
    """Return whether the name of a function is one word that describes a state, not an act."""
    return "_" not in name and (
        name in IRREGULAR or (name.endswith("ed") and name not in NO_PARTICIPLE)
    )


def _participles(node: ast.AST) -> Iterator[str]:
    """Yield the functions and public methods below ``node`` that are named by a participle.

    Properties may be; local functions are not searched.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = " ".join(ast.unparse(one) for one in child.decorator_list)
            if is_participle(child.name) and not re.search("property|setter", decorators):
                yield child.name
        else:
            yield from _participles(child)


def test_the_glossary_lists_words_to_avoid() -> None:
    assert {"nobody", "told", "luggage"} <= set(_words())


@pytest.mark.parametrize(
    "text", ["Nobody waits.", "def asked(): ...", "was_told = 1", '"""Tells of a fault."""']
)
def test_a_banned_word_is_found(text: str) -> None:
    assert list(_banned(text, _pattern()))


@pytest.mark.parametrize("text", ["taught", "foretold", "Landlock", "text.strip()"])
def test_a_word_that_only_contains_one_is_not(text: str) -> None:
    assert list(_banned(text, _pattern())) == []


def test_no_file_uses_a_word_that_the_glossary_bans(files: list[str]) -> None:
    pattern = _pattern()
    found = [name for name in files if pattern.search(name)]
    for name in files:
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a binary file without a suffix
        found += [f"{name}:{line}: {word}" for line, word in _banned(text, pattern)]
    assert found == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("heard", True), ("written", True), ("wanted", True), ("seed", False), ("apply_write", False)],
)
def test_participles_are_recognized(name: str, expected: bool) -> None:
    assert is_participle(name) == expected


def test_no_public_function_or_module_is_named_by_a_participle(files: list[str]) -> None:
    found = []
    for name in files:
        if name.endswith(".py"):
            if is_participle(Path(name).stem):
                found.append(name)
            text = (ROOT / name).read_text(encoding="utf-8")
            if any(map(is_participle, _DEFINED.findall(text))):  # few files need to be parsed
                found += [f"{name}: {function}" for function in _participles(ast.parse(text))]
    assert found == []
