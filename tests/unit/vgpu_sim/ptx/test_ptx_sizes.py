"""Memory by the length of a text: the largest text loads, and no token takes many times its
length.
"""

import random
import tracemalloc
from collections.abc import Callable

import pytest

from vgpu_sim.compiler import PtxError, PtxSyntaxError, compile_ptx
from vgpu_sim.compiler.ptx import lexer, limits
from vgpu_sim.compiler.source_lines import SourceLines
from vgpu_sim.hal import messages

HEAD = ".version 9.4\n.target sm_90\n.address_size 64\n"
COUNT = 1 << 17
LONG_NAME = "a" * 16_000

# Each token may be as long as the file (refused ones must not take more memory).
TOKENS = {
    "string": f'"{"a" * COUNT}"',
    "string of escapes": '"' + "\\a" * (COUNT // 2) + '"',
    "string of both": '"' + "ab\\a" * (COUNT // 4) + '"',
    "string that is not closed": '"' + "a" * COUNT,
    "escapes that are not closed": '"' + "\\a" * (COUNT // 2),
    "string that ends in a backslash": '"' + "a" * COUNT + "\\",
    "name": "a" * COUNT,
    "register": "%" + "a" * COUNT,
    "word": "." + "a" * COUNT,
    "word of parts": ".a" + "::b" * (COUNT // 3),
    "word of numbered parts": ".a" + "::b:1" * (COUNT // 5),
    "number": "1" * COUNT,
    "number and letter": "1" * COUNT + "z",
    "hexadecimal number": "0x" + "f" * COUNT,
    "binary number": "0b" + "1" * COUNT + "2",
    "fraction": "." + "1" * COUNT,
    "fraction and letter": "." + "1" * COUNT + "z",
    "floating-point number": "1." + "1" * COUNT,
    "exponent": "1." + "1" * (COUNT // 2) + "e" + "1" * (COUNT // 2) + "z",
    "comment of a line": "//" + "a" * COUNT,
    "comment": "/*" + "a*" * (COUNT // 2) + "*/",
    "comment that is not closed": "/*" + "a*" * (COUNT // 2),
    "blanks": " \t" * (COUNT // 2),
    "line of a debugger": "@@DWARF " + "a" * COUNT,
    "other language": ".source_begin " + ".s" * (COUNT // 2) + " .source_end",
    "other language that is not closed": ".source_begin " * (COUNT // 14),
}


def _peak_per_character(run: Callable[[], object], characters: int) -> float:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / characters
    except PtxError:
        return tracemalloc.get_traced_memory()[1] / characters
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_long_token_costs_its_own_length(token: str) -> None:
    """The token is copied once; Python's regular expression engine must not store parts of it."""

    def read() -> None:
        for _ in lexer.tokenize(token):
            pass

    assert _peak_per_character(read, len(token)) < 1.5


def _kernel(body: str) -> str:
    return f".visible .entry k() {{ {body}\nret; }}\n"


TEXTS = {
    "name of a file": f'.file 1 "{"a" * COUNT}"\n' + _kernel(".loc 1 1 1"),
    "names of files": "".join(f'.file {i} "{"b" * 500}"\n' for i in range(1, COUNT // 500))
    + _kernel(""),
    "pragma": f'.pragma "{"a" * COUNT}";' + _kernel(""),
    "pragma of a kernel": _kernel(f'.pragma "{"a" * COUNT}";'),
    "string in a kernel": _kernel(f'"{"a" * COUNT}"'),
    "names of variables": "".join(f".global .u32 {LONG_NAME}{i};" for i in range(8)) + _kernel(""),
    "labels": _kernel("".join(f"{LONG_NAME}{i}:" for i in range(8))),
    "names that are not declared": _kernel(f"mov.u32 {LONG_NAME}, 5;" * 8),
    "comment of wide characters": "/* " + "\U0001f600" * (COUNT // 4) + " */" + _kernel(""),
    "numbers": f".global .u32 x = {'1' * COUNT};" + _kernel(""),
    "short lines before an error": "//\n" * (COUNT // 3) + "!",
    "short lines before a refusal": "//\n" * (COUNT // 3) + ".func (.reg .u128 a) f() { ret; }",
    "short lines before what does not fit": "//\n" * (COUNT // 3) + _kernel("add.u32 %a, 1;"),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_of_long_tokens_or_short_lines_costs_little_beside_its_length(text: str) -> None:
    source = (HEAD + text).encode()
    compile_ptx(HEAD + _kernel(""), capability=(9, 0))  # reads the tables once
    run = lambda: compile_ptx(source, capability=(9, 0), partial=True)  # noqa: E731
    assert _peak_per_character(run, len(source)) < 20


def _of_size(characters: int) -> bytes:
    before, after = HEAD + "//", "\n" + _kernel("")
    return (before + "x" * (characters - len(before) - len(after)) + after).encode()


def test_the_longest_text_is_as_long_as_the_longest_image() -> None:
    assert limits.MAX_SOURCE_CHARACTERS == messages.MAX_IMAGE_BYTES
    for size in (46_900_000, limits.MAX_SOURCE_CHARACTERS):
        module = compile_ptx(_of_size(size), capability=(9, 0))
        assert [function.name for function in module.functions] == ["k"]
    with pytest.raises(PtxSyntaxError, match=f"longer than {limits.MAX_SOURCE_CHARACTERS} char"):
        compile_ptx(_of_size(limits.MAX_SOURCE_CHARACTERS + 1), capability=(9, 0))


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_those_of_the_text(seed: int) -> None:
    draw = random.Random(seed)
    letters = "\n" * draw.randrange(4) + "ab"
    source = "".join(draw.choices(letters, k=draw.choice([0, 1, 5, 1023, 1024, 1025, 5000])))
    wanted, lines = source.split("\n"), SourceLines(source)
    for number, line in enumerate(wanted, 1):
        assert lines.text(number, 3) == line[:3]
    for number in (-1, 0, len(wanted) + 1, len(wanted) + 2000):
        assert lines.text(number, 3) == ""
