"""Which options ``tessera cc`` gives to a clang of any version."""

from pathlib import Path

import pytest

from support.kept import clangs
from vgpu_sim.sdk import clang
from vgpu_sim.sdk.errors import CompileError

DIVISION = ("-mllvm", "-expand-div-rem-bits=64")
CONVERSION = ("-mllvm", "-expand-fp-convert-bits=64")


def fake(folder: Path, version: int, accepts: str) -> Path:
    """Write a clang of a version, which refuses options of LLVM that are not in a list."""
    (folder / "include").mkdir()
    (folder / "include" / "__clang_cuda_math.h").touch()
    path = folder / "clang++"
    path.write_text(
        f"""#!/bin/sh
case $1 in
--version) echo 'clang version {version}.1.0';;
-print-resource-dir) echo {folder};;
--print-targets) echo nvptx64;;
*) for word; do case $word in -expand-*) case " {accepts} " in *" $word "*) ;; *) exit 1;; esac;;
   esac; done;;
esac
"""
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", [19, 23, 99])
@pytest.mark.parametrize("options", [(), DIVISION, CONVERSION, DIVISION + CONVERSION])
def test_a_clang_of_any_version_gets_the_options_that_it_has(
    tmp_path: Path, version: int, options: tuple[str, ...]
) -> None:
    chosen = clang.find(str(fake(tmp_path, version, " ".join(options))))
    assert chosen.version == version
    assert chosen.expansions == options


def test_the_options_have_their_effect_in_each_clang_of_this_machine() -> None:
    try:
        installed = clangs.list_clangs()
    except CompileError as err:
        pytest.skip(f"NOT RUN: {err}")
    assert {chosen.expansions for chosen in installed} == {DIVISION + CONVERSION}
