"""functions.toml and what is generated from it."""

import re
import subprocess

import pytest
from cuda.bindings import driver

from vgpu_sim.native.libcuda import generate


def test_generated_files_are_fresh():
    for path, text in generate.outputs().items():
        assert path.read_text() == text, f"{path.name}: run python -m {generate.__name__}"


def test_the_table_names_every_function_of_the_bindings():
    functions, _ = generate.load()
    names = {name for function in functions for name in (function.name, function.symbol)}
    bound = {name for name in dir(driver) if name.startswith("cu") and name[2].isupper()}
    assert bound - names == set()
    assert len(functions) > 700


def test_errors_have_their_official_names_and_numbers():
    _, errors = generate.load()
    assert {error.name: error.code for error in errors} == {
        one.name: int(one) for one in driver.CUresult
    }
    assert all(error.text for error in errors)


@pytest.mark.parametrize(
    "row",
    [
        '{ name = "cuX", symbol = "cuX", since = 1, class = "fast", prototype = "int a" }',
        '{ name = "cuX", symbol = "cuX", since = 1, class = "local" }',
        '{ name = "cuX", symbol = "cuX", since = 1, prototype = "int a" }',
        '{ name = "cuX", symbol = "cuX", since = 1, speed = 3 }',
        '{ name = "cuX", symbol = "cuX", since = 1 }, { name = "cuY", symbol = "cuX", since = 2 }',
    ],
)
def test_a_wrong_row_is_refused(tmp_path, row):
    table = tmp_path / "functions.toml"
    table.write_text(f"functions = [{row}]\nerrors = []\n")
    with pytest.raises(ValueError, match=r"functions\.toml"):
        generate.load(table)


def test_the_header_of_handles_and_structures_compiles_alone(tmp_path):
    source = tmp_path / "alone.c"
    source.write_text('#include "generated/api.h"\nint unused;\n')
    command = ["cc", "-std=c11", "-Werror", "-fsyntax-only", f"-I{generate.SOURCES}", str(source)]
    subprocess.run([*command, f"-I{generate.SOURCES}"], check=True)


def test_every_variable_that_is_read_is_documented():
    read = set(
        re.findall(r'"((?:TESSERA|CUDA)_[A-Z_]+)"', (generate.SOURCES / "config.c").read_text())
    )
    assert read == {name for name, _ in generate.VARIABLES}
    others = [path for path in generate.SOURCES.glob("*.c") if "getenv" in path.read_text()]
    assert [path.name for path in others] == ["config.c"]
