"""The wheel's platform tag follows from the symbols and libraries that its files need."""

import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from vgpu_sim.native import build, platform_tag

LIBRARIES = [path for path in sorted(build.LIBRARIES.rglob("*")) if platform_tag.is_elf(path)] or [
    None
]
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name if path else "none")
def test_it_reads_what_pyelftools_reads(path: Path | None) -> None:
    if path is None:
        pytest.skip("nothing is compiled")
    with path.open("rb") as file:
        elf = ELFFile(file)
        versions = [
            version.name
            for section in elf.iter_sections()
            if isinstance(section, GNUVerNeedSection)
            for _, ones in section.iter_versions()
            for version in ones
        ]
        tags = list(elf.get_section_by_name(".dynamic").iter_tags())
        libraries = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
        sonames = [tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"]
    found = platform_tag.needs_of(path)
    assert sorted(found.versions) == sorted(versions)
    assert list(found.libraries) == libraries
    assert found.soname == (sonames or [path.name])[0]


def compile_library(folder: Path, name: str, text: str, *flags: str) -> None:
    folder.mkdir(exist_ok=True)
    source = folder / "source.c"
    source.write_text(text)
    library = folder / f"lib{name}.so"
    command = ["cc", "-shared", "-fPIC", "-o", library, source, f"-Wl,-soname,{library.name}"]
    subprocess.run([*command, *flags], check=True)
    source.unlink()


@needs_cc
def test_the_newest_symbol_decides(tmp_path: Path) -> None:
    old = "void *malloc(unsigned long); void *f(void) { return malloc(1); }"
    compile_library(tmp_path / "lib", "old", old)
    assert platform_tag.tag_of(tmp_path / "lib") == "manylinux_2_17_x86_64"
    # getrandom: glibc 2.25
    new = "long getrandom(void *, unsigned long, unsigned); long g(void) { return getrandom(0, 0, 0); }"
    compile_library(tmp_path / "lib", "new", new)
    assert platform_tag.tag_of(tmp_path / "lib") == "manylinux_2_25_x86_64"


@needs_cc
def test_a_library_that_is_not_in_the_wheel_excludes_every_manylinux(tmp_path: Path) -> None:
    compile_library(tmp_path / "other", "foreign", "int foreign(void) { return 1; }")
    flags = (f"-L{tmp_path / 'other'}", "-lforeign", "-Wl,--no-as-needed")
    text = "int foreign(void); int h(void) { return foreign(); }"
    compile_library(tmp_path / "lib", "ours", text, *flags)
    assert platform_tag.tag_of(tmp_path / "lib") == "linux_x86_64"
    shutil.copy(tmp_path / "other" / "libforeign.so", tmp_path / "lib")
    assert platform_tag.tag_of(tmp_path / "lib").startswith("manylinux_2_17")


def test_a_folder_without_libraries_has_no_manylinux_tag(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ELF")
    assert platform_tag.tag_of(tmp_path) == "linux_x86_64"
