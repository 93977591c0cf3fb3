"""Titles of kernels: recognisable, different for different kernels, printable and bounded."""

import ctypes
import random
import re
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from vgpu_sim.kernel_names.cursor import UnsupportedName
from vgpu_sim.kernel_names.itanium import MAX_MANGLED, demangle
from vgpu_sim.kernel_names.title import MAX_TITLE, brief_titles, title_of

TAG = "B92cw" + "9AZaz0" * 15
ARRAY = "5ArrayIfLi1E1C7mutable7alignedE"
NUMBA = f"_ZN6cudapy8__main__3addB2v1{TAG}E{ARRAY}f"
NUMBA_LOCAL = f"_ZN6cudapy8__main__4main12_3clocals_3e12_3clambda_3eB2v1{TAG}Ex"
ANONYMOUS = (
    "_ZN2at6native57_GLOBAL__N__f4b5b8c8_22_DistributionBernoulli_cu_1234567811fill_kernelEPf"
)
BASE_36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("vecadd", "vecadd"),
        ("_Z5tiledILi1EEvPKfPfi", "tiled<1>(float const*, float*, int)"),
        ("_Z5tiledILi2EEvPKfPfi", "tiled<2>(float const*, float*, int)"),
        ("_Z3runv", "run()"),
        ("_Z4callPFviEPA3_f", "call(void (*)(int), float (*) [3])"),
        (
            "_ZN1a1bILb1ELj4EE1fIJifEEEvDpRKT_",
            "a::b<true, 4u>::f<int, float>(int const&, float const&)",
        ),
        ("_Z5applyIZ4mainEUliE_EvT_i", "apply<main::{lambda(int)#1}>(main::{lambda(int)#1}, int)"),
        ("_Z1fSt4pairIiS_IifEE", "f(std::pair<int, std::pair<int, float>>)"),
        (NUMBA, "cudapy::__main__::add[abi:v1](Array<float, 1, C, mutable, aligned>, float)"),
        (NUMBA_LOCAL, "cudapy::__main__::main::<locals>::<lambda>[abi:v1](long long)"),
        (ANONYMOUS[:-2] + "Pf", "at::native::(anonymous namespace)::fill_kernel(float*)"),
    ],
)
def test_a_title_is_the_declaration_without_its_result(name: str, title: str) -> None:
    assert title_of(name) == title


def test_the_reader_agrees_with_the_c_plus_plus_library() -> None:
    library = ctypes.CDLL("libstdc++.so.6")
    demangle_with_library = library["__cxa_demangle"]
    demangle_with_library.restype = ctypes.c_void_p
    demangle_with_library.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    equal, unsupported = 0, 0
    for name in _exported_functions()[::5]:
        pointer = demangle_with_library(name.encode(), None, None, None)
        expected = ctypes.string_at(pointer).decode()
        free(pointer)
        try:
            text = demangle(name)
        except UnsupportedName:
            unsupported += 1
            continue
        assert text == expected.replace("> >", ">>").replace("> >", ">>"), name
        equal += 1
    assert equal > 500
    assert unsupported < equal / 100  # conversion operators


def _exported_functions() -> list[str]:
    (path,) = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        if "/libstdc++.so.6" in line
    }
    with Path(path).open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        # constructors of std::string and streams have a longer name than their class
        names = {one.name for one in symbols if re.match("_Z(NK?(?!S[iods])|S)", one.name)}
        return sorted(names)


def test_names_that_cannot_be_read_keep_their_beginning_and_differ() -> None:
    first, second = (title_of(f"_ZN3cub4SortIXm{code}T_EEEvi") for code in ("i", "l"))
    assert first.startswith("cub::Sort<...> #")
    assert second.startswith("cub::Sort<...> #")
    assert first != second


@pytest.mark.parametrize("stem", ["k" * 300, "_Z" + "300" + "k" * 299, NUMBA[:-1] + ARRAY * 4])
def test_long_names_are_cut_and_differ(stem: str) -> None:
    titles = {title_of(stem + last) for last in "fil"}
    assert len(titles) == 3
    assert all(len(title) <= MAX_TITLE for title in titles)


@pytest.mark.parametrize("name", ["k\x1b[2J", "_Z4k\x1b[2v", "k\n", "kä", "k\u202e", "\ud800"])
def test_titles_are_printable(name: str) -> None:
    title = title_of(name)
    assert title.isascii()
    assert title.isprintable()


def _reference(place: int) -> str:
    digits = ""
    place -= 1
    while place >= 36:
        digits = BASE_36[place % 36] + digits
        place //= 36
    return f"S{BASE_36[place] + digits if place >= 0 else ''}_"


def _doubling(levels: int, part: str) -> str:
    """Return a name whose text would have 2 to the power of ``levels`` parts."""
    return "_Z1f1a" + "".join(part.replace("@", _reference(2 * at)) for at in range(levels))


HOSTILE = {
    "functions": _doubling(200, "PFv@@E"),
    "templates": "_Z1f1a" + "".join(f"1bI{_reference(at)}{_reference(at)}E" for at in range(200)),
    "packs": "_Z1fIJiiiiEEvT_" + "".join(f"1bIJ{_reference(at)}T_EE" for at in range(200)),
    "long packs": f"_Z1fIJ{'i' * 1300}EEv" + "PT_" * 600,
    "digits": "_Z" + "9" * 4000,
    **{f"nested {one}": "_Z1f" + one * 900 for one in ("P", "F", "N", "Z", "I", "NUl", "A9_")},
    **{f"argument {one}": "_Z1fI" + one * 400 for one in ("J", "L_Z1fI", "XadL_Z1fI", "1aI")},
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_cost_little(name: str) -> None:
    begin = time.process_time()
    title = title_of.__wrapped__(name)
    assert time.process_time() - begin < 1
    assert len(title) <= MAX_TITLE


def test_longer_names_are_not_read() -> None:
    with pytest.raises(UnsupportedName):
        demangle("_Z1f" + "i" * MAX_MANGLED)


def test_random_names_are_read_or_refused() -> None:
    chance = random.Random(7)
    parts = [*"IJENZLPRKFMXSTv", "S_", "S0_", "T_", "T0_", "A3_", "Dp", "1a", "St", "Ul", "Li1E"]
    for _ in range(2000):
        name = "_Z" + "".join(chance.choices(parts, k=chance.choice((4, 12, 60))))
        title = title_of.__wrapped__(name)
        assert 0 < len(title) <= MAX_TITLE
        assert title.isprintable()


def test_brief_titles_omit_parameters_where_they_stay_different() -> None:
    titles = ["tiled<1>(int)", "tiled<2>(int)", "f(int)", "f(float)", "g(void (*)(int))", "vecadd"]
    assert brief_titles(titles) == {
        "tiled<1>(int)": "tiled<1>",
        "tiled<2>(int)": "tiled<2>",
        "f(int)": "f(int)",
        "f(float)": "f(float)",
        "g(void (*)(int))": "g",
        "vecadd": "vecadd",
    }
