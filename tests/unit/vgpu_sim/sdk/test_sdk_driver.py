"""What ``tessera cc`` passes to clang, and which inputs it refuses. The clang here records."""

from pathlib import Path

import pytest

from vgpu_sim.sdk import driver
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.sdk.options import parse


@pytest.fixture
def clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program that is taken for clang++ and records its arguments in ``calls``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "__clang_cuda_math.h").touch()
    path = tmp_path / "clang++"
    path.write_text(
        f"""#!/bin/sh
case $1 in
--version) echo 'clang version 19.1.7';;
-print-resource-dir) echo {tmp_path};;
--print-targets) echo nvptx64;;
*) echo "$@" >> {tmp_path}/calls
   for output; do :; done; touch "$output";;
esac
"""
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("phase", ["-c", "-ptx", "-fatbin", "-E", "-M", "-lib"])
@pytest.mark.parametrize("name", ["x.txt", "x.o"])
def test_a_phase_without_its_input_is_an_error(clang: Path, phase: str, name: str) -> None:
    Path(name).write_text("text")
    with pytest.raises(CompileError, match=f"{name}: (not a source file|neither a source)"):
        driver.compile_all(parse(["-ccbin", str(clang), phase, name, "-o", "out"]))
    assert not Path("calls").exists()
    assert not Path("out").exists()


def test_a_source_that_clang_takes_for_a_response_file_is_refused(clang: Path) -> None:
    Path("@a.c").touch()
    with pytest.raises(CompileError, match="response file; rename it"):
        driver.compile_all(parse(["-ccbin", str(clang), "-c", "@a.c"]))


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        ([], "a.c", "-x c -O3"),
        (["-std=c11"], "a.c", "-x c -std=c11"),
        (["-x", "c"], "a.cpp", "-x c -O3"),
        ([], "a.cpp", "-x c++ -std=c++17"),
        (["-x", "c++"], "a.c", "-x c++ -std=c++17"),
    ],
)
def test_a_source_has_its_language(
    clang: Path, arguments: list[str], name: str, expected: str
) -> None:
    Path(name).touch()
    driver.compile_all(parse(["-ccbin", str(clang), *arguments, "-c", name]))
    assert Path("calls").read_text().startswith(expected)


@pytest.mark.parametrize(("version", "avoided"), [("19.1.7", True), ("22.1.8", False)])
def test_pack_indexing_of_clang_19_is_not_used(clang: Path, version: str, avoided: bool) -> None:
    clang.write_text(clang.read_text().replace("19.1.7", version))
    Path("a.cu").touch()
    driver.compile_all(parse(["-ccbin", str(clang), "-c", "a.cu"]))
    calls = Path("calls").read_text().splitlines()
    device, host = (next(c for c in calls if f"-{side}-only" in c) for side in ("device", "host"))
    assert ["-U__cpp_pack_indexing" in call for call in (device, host)] == [avoided, avoided]


def test_a_shuffled_argument_may_have_no_value_in_device_code(clang: Path) -> None:
    """Otherwise clang removes the branch of the threads that do not compute it."""
    Path("a.cu").touch()
    driver.compile_all(parse(["-ccbin", str(clang), "-c", "a.cu"]))
    calls = Path("calls").read_text().splitlines()
    device, host = (next(c for c in calls if f"-{side}-only" in c) for side in ("device", "host"))
    assert "-Xclang -no-enable-noundef-analysis" in device
    assert "noundef" not in host


def test_dependencies_are_for_the_output_that_stays(clang: Path) -> None:
    Path("a.c").touch()
    driver.compile_all(parse(["-ccbin", str(clang), "-MD", "a.c", "-o", "program", "-cudart=none"]))
    compiled, linked = Path("calls").read_text().splitlines()
    assert "-MD -MFa.d -MQprogram -c a.c" in compiled
    assert "-M" not in linked


def test_headers_may_declare_variadic_functions_in_device_code(clang: Path) -> None:
    """CCCL selects overloads by them; they are not called."""
    Path("a.cu").touch()
    driver.compile_all(parse(["-ccbin", str(clang), "-ptx", "a.cu", "-o", "out"]))
    assert "-Xclang -fcuda-allow-variadic-functions" in Path("calls").read_text()
