"""What ``tessera cc`` changes in sources before clang reads them."""

import json
from pathlib import Path

import pytest

from vgpu_sim.sdk import dialect, driver
from vgpu_sim.sdk.options import parse


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("__shared__ alignas(16) int a[4];", "__shared__ _Alignas(16) int a[4];"),
        ("extern __shared__\n  alignas (128) char s[];", "extern __shared__\n  _Alignas (128) char s[];"),
        ("__constant__ static alignas(T) T v;", "__constant__ static _Alignas(T) T v;"),
        ('asm("mov.u32 %0, %smid;" : "=r"(x));', 'asm("mov.u32 %0, %%smid;" : "=r"(x));'),
        (
            '__asm__ __volatile__ ("mov.u32 %0, %laneid;\\n\\t" // %tid\n "add.u32 %0, %0, %tid.x;"\n:"=r"(x))',
            '__asm__ __volatile__ ("mov.u32 %0, %%laneid;\\n\\t" // %%tid\n "add.u32 %0, %0, %%tid.x;"\n:"=r"(x))',
        ),
    ],
)  # fmt: skip
def test_what_nvcc_accepts_is_rewritten_for_clang(text: str, changed: str) -> None:
    assert dialect.rewrite(text) == changed
    assert dialect.rewrite(changed) == changed
    after = f"int n = 1'000; const char *s = \"it's\"; {text} int more;"
    assert dialect.rewrite(after) == after.replace(text, changed)


@pytest.mark.parametrize(
    "text",
    [
        "struct alignas(16) A { alignas(8) int a; };",
        "alignas(16) __shared__ int a[4];",
        "// __shared__ alignas(16) int a[4];",
        "/* __shared__ alignas(16)\n int a[4]; */",
        'const char *s = "__shared__ alignas(16)";',
        'R"(asm("mov.u32 %0, %smid;" : "=r"(x));)"',
        'asm("mov.u32 %0, %%smid;" : "=r"(x));',
        'asm volatile("mov.u32 r, %smid;");',  # without operands a percent sign is itself
        'asm("{ .reg .u32 r; mov.u32 r, %c0; }" :: "n"(4));',
        'printf("%smid", text);',
        "my_asm(\"%smid\" : 1); void __shared__alignas(int);",
    ],
)  # fmt: skip
def test_other_text_stays(text: str) -> None:
    assert dialect.rewrite(text) == text


def test_headers_are_found_as_clang_finds_them(tmp_path: Path) -> None:
    bad = "__shared__ alignas(4) int a;\n"
    include, near = tmp_path / "include", tmp_path / "near"
    include.mkdir()
    near.mkdir()
    source = tmp_path / "a.cu"
    source.write_text('#include "near/b.cuh"\n# include <c.h>\n#include <missing.h>\n')
    (near / "b.cuh").write_text(f'#include "c.h"\n#include "b.cuh"\n{bad}')
    (near / "c.h").write_text("int same;\n")
    (include / "c.h").write_text(bad)
    folders = dialect.include_folders(["-I", f"-I{include}", "-DI"])
    files = dialect.read_files(source, folders)
    found = files.rewrite()
    assert set(found) == {near / "b.cuh", include / "c.h"}
    parts = [one.read_bytes() for one in (source, near / "b.cuh", near / "c.h")]
    assert files.own == b"\n".join(parts)
    assert found[include / "c.h"] == "__shared__ _Alignas(4) int a;\n"


def test_both_compilations_read_the_changed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "__clang_cuda_math.h").touch()
    clang = tmp_path / "clang++"
    clang.write_text(
        f"""#!/bin/sh
case $1 in
--version) echo 'clang version 19.1.7';;
-print-resource-dir) echo {tmp_path};;
--print-targets) echo nvptx64;;
*) echo "$@" >> calls; for output; do :; done; touch "$output";;
esac
"""
    )
    clang.chmod(0o755)
    Path("kept").mkdir()
    Path("plain.cu").write_text("__shared__ int a;")
    Path("a.cu").write_text("__shared__ alignas(4) int caf\u00e9;", encoding="utf-8")
    driver.compile_all(parse(["-ccbin", str(clang), "-c", "plain.cu", "-keep", "-keep-dir=kept"]))
    assert "-ivfsoverlay" not in Path("calls").read_text()
    Path("calls").unlink()
    driver.compile_all(parse(["-ccbin", str(clang), "-c", "a.cu", "-keep", "-keep-dir=kept"]))
    device, host = Path("calls").read_text().splitlines()
    used = {call.split("-ivfsoverlay ")[1].split()[0] for call in (device, host)}
    assert len(used) == 1
    described = json.loads(Path(used.pop()).read_text())
    (root,) = described["roots"]
    assert (root["name"], described["use-external-names"]) == (str(tmp_path / "a.cu"), "false")
    changed = Path(root["external-contents"]).read_text(encoding="utf-8")
    assert changed == "__shared__ _Alignas(4) int caf\u00e9;"
