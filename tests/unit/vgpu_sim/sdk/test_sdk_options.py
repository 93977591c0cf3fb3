"""``tessera cc`` parses nvcc's spelling, and names what is wrong."""

from pathlib import Path

import pytest

from vgpu_sim.sdk import architectures, clang
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.sdk.options import parse


def test_short_and_long_spelling_mean_the_same() -> None:
    short = parse(
        ["-dc", "-o", "x.o", "-Iinclude", "-DN=3", "-O2", "-arch=sm_90", "-std=c++20", "a.cu"]
    )
    long = parse(
        [
            "--device-c", "--output-file=x.o", "--include-path", "include", "--define-macro=N=3",
            "--optimize", "2", "--gpu-architecture", "sm_90", "--std", "c++20", "a.cu",
        ]
    )  # fmt: skip
    assert short == long
    assert (short.phase, short.relocatable, short.output) == ("compile", True, "x.o")
    assert short.both == ["-Iinclude", "-DN=3"]


def test_libraries_keep_their_place_between_objects() -> None:
    options = parse(["a.o", "-L", "lib,more", "-lfirst", "b.o", "-l", "second", "-Xlinker=-z,now"])
    assert options.link == [
        "a.o", "-Llib", "-Lmore", "-lfirst", "b.o", "-lsecond", "-Xlinker", "-z", "-Xlinker", "now",
    ]  # fmt: skip


def test_host_flags_are_split_at_commas_but_not_at_escaped_ones() -> None:
    assert parse(["-Xcompiler", r"-fPIC,-Wl\,-z", "-Wall"]).host == ["-fPIC", "-Wl,-z", "-Wall"]


def test_host_flags_are_split_at_blanks_outside_quotes() -> None:
    assert parse(["-Xcompiler", "-fPIC '-DA=1 2',-O1"]).host == ["-fPIC", "-DA=1 2", "-O1"]


def test_flags_about_dependencies_are_apart_from_the_linkers() -> None:
    options = parse(["-MD", "-MF", "a.d", "-Xcompiler", "-MT x,-MP,-g", "a.cu"])
    assert options.dependencies == ["-MD", "-MFa.d", "-MTx", "-MP"]
    assert options.host == ["-g"]


def test_names_are_neither_options_nor_response_files() -> None:
    options = parse(["@a.c", "-o", "@b", "-include", "-c.h", "-"])
    assert (options.inputs, options.output) == (["./@a.c", "-"], "./@b")
    assert options.both == ["-include", "./-c.h"]


def test_a_file_of_options_is_text(tmp_path: Path) -> None:
    (tmp_path / "flags").write_bytes(b"\xff")
    with pytest.raises(CompileError, match="not a text in UTF-8"):
        parse(["-optf", str(tmp_path / "flags")])
    (tmp_path / "flags").write_text("-DA='1")
    with pytest.raises(CompileError, match="no closing quotation"):
        parse(["-optf", str(tmp_path / "flags")])


def test_a_file_of_options_is_read_in_place(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text("-DA='1 2'\n-O1\n")
    assert parse(["-optf", str(tmp_path / "flags"), "-DB"]).both == ["-DA=1 2", "-DB"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--frobnicate"], "unknown option '--frobnicate'"),
        (["-o"], "-o: an argument is missing"),
        (["-cubin"], "machine code of NVIDIA's GPUs"),
        (["-cudart", "static"], "only the shared library exists here"),
        (["-rdc=maybe"], "neither true nor false"),
        (["--default-stream", "mine"], "expected legacy or per-thread"),
        (["-x", "fortran"], "-x fortran: expected one of cu, cuda, c\\+\\+, c"),
        (["-Xcompiler", "'-g"], "'-g: no closing quotation"),
        (["-optf", "/nowhere/x"], "/nowhere/x: No such file or directory"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], text: str) -> None:
    with pytest.raises(CompileError, match=text):
        parse(arguments)


@pytest.mark.parametrize(
    ("arch", "generate", "expected"),
    [
        (None, [], ["80"]),
        ("sm_90", [], ["90"]),
        ("compute_90a", [], ["90a"]),
        (
            None,
            ["arch=compute_90,code=[sm_90,compute_90]", "arch=compute_80,code=sm_80"],
            ["80", "90"],
        ),
        ("all-major", [], ["80", "90"]),
        ("sm_100,sm_90", [], ["90", "100"]),
    ],
)
def test_every_architecture_becomes_ptx_once(
    arch: str | None, generate: list[str], expected: list[str]
) -> None:
    assert architectures.select(arch, generate) == expected


@pytest.mark.parametrize(
    ("arch", "generate", "text"),
    [
        ("volta", [], "'volta' is not an architecture"),
        (None, ["code=sm_80"], "expected arch=compute_NN"),
        (None, ["arch=compute_90,code=lto_90"], "LTO-IR is NVIDIA's own format"),
    ],
)
def test_wrong_architectures_are_named(arch: str | None, generate: list[str], text: str) -> None:
    with pytest.raises(CompileError, match=text):
        architectures.select(arch, generate)


def _program(folder: Path, body: str) -> Path:
    path = folder / "clang++"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("echo 'Debian clang version 14.0.6'", "has version 14, which is too old"),
        ("echo 'g++ (Debian) 12.2.0'", "is not clang"),
        ("echo 'clang version 19.1.7'", "has no headers for CUDA"),
    ],
)
def test_an_unsuitable_clang_is_refused_with_the_remedy(
    tmp_path: Path, body: str, text: str
) -> None:
    _program(tmp_path, body)
    with pytest.raises(CompileError, match=text) as refused:
        clang.find(str(tmp_path))
    assert "apt-get install clang-19" in str(refused.value)


def test_a_missing_clang_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no such program"):
        clang.find(str(tmp_path / "absent"))


def test_a_suitable_clang_is_found_in_a_directory(tmp_path: Path) -> None:
    headers = tmp_path / "resources" / "include"
    headers.mkdir(parents=True)
    (headers / "__clang_cuda_math.h").touch()
    _program(
        tmp_path,
        f"""case $1 in
--version) echo 'Debian clang version 19.1.7 (3)';;
-print-resource-dir) echo {tmp_path}/resources;;
--print-targets) echo '  nvptx64 - NVIDIA PTX 64-bit';;
esac""",
    )
    found = clang.find(str(tmp_path))
    assert (found.version, found.ptx, found.resources) == (19, 85, tmp_path / "resources")
