"""functions.toml and what is generated from it."""

import re
import subprocess

import pytest
from cuda.bindings import driver

from vgpu_sim.native import build
from vgpu_sim.native.codegen import __main__ as codegen, library, page

LIBCUDA = build.NATIVE / "libcuda"


@pytest.mark.parametrize("sources", codegen.LIBRARIES, ids=lambda path: path.name)
def test_generated_files_are_fresh(sources):
    outputs = codegen.outputs(library.load(sources))
    for path, text in outputs.items():
        assert path.read_text() == text, f"{path.name}: run python -m vgpu_sim.native.codegen"
    committed = set((sources / "generated").iterdir())
    assert committed == {path for path in outputs if path.parent.name == "generated"}


def test_every_client_library_is_generated():
    built = {part.folder for part in build.parts() if part.shared}
    own = {build.NATIVE / build.PROVIDER}  # libibverbs' objects, with the provider's few symbols
    assert built - own == set(codegen.LIBRARIES)
    assert own < built


def test_the_table_names_every_function_of_the_bindings():
    functions = library.load(LIBCUDA).functions
    names = {name for function in functions for name in (function.name, function.symbol)}
    bound = {name for name in dir(driver) if name.startswith("cu") and name[2].isupper()}
    assert bound - names == set()
    assert len(functions) > 700


def test_errors_have_their_official_names_and_numbers():
    errors = library.load(LIBCUDA).statuses
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
        library.read_functions(table)


def test_the_header_of_handles_and_structures_compiles_alone(tmp_path):
    source = tmp_path / "alone.c"
    source.write_text('#include "generated/api.h"\nint unused;\n')
    command = ["cc", "-std=c11", "-Werror", "-fsyntax-only", f"-I{LIBCUDA}", str(source)]
    subprocess.run(command, check=True)


def test_every_variable_that_is_read_is_documented():
    """And each is read in one file of its library."""
    for sources, documented in (
        (build.CLIENT, page.client_variables()),
        (LIBCUDA, library.load(LIBCUDA).variables),
    ):
        readers = [path for path in sources.glob("*.c") if "getenv(" in path.read_text()]
        assert len(readers) == 1, readers
        read = re.findall(r'"((?:TESSERA|CUDA)_[A-Z_]+)"', readers[0].read_text())
        assert set(read) == set(documented)


def test_what_every_client_library_stands_on_names_none_of_them():
    for path in build.CLIENT.iterdir():
        assert "cuda" not in path.read_text().lower(), path.name
