"""A module's table, as the client library reads it from a possibly compromised worker."""

import ctypes
import os
import subprocess

import pytest

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute import abi
from vgpu_sim.native import build, catalogue

NAME = b"kernel\0\0"
HEADER = ctypes.sizeof(messages.TableHeader)
FUNCTION = ctypes.sizeof(messages.FunctionRecord)
REGISTERS = messages.FunctionRecord.registers.offset
PARAMETER = ctypes.sizeof(messages.ParameterRecord)
VARIABLE = ctypes.sizeof(messages.VariableRecord)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return a function that passes bytes to tsr_table_read and returns whether it accepts them."""
    output = tmp_path_factory.mktemp("table") / "table.so"
    client = catalogue.CLIENTS / "libcuda"
    source = client / "modules" / "table.c"
    command = [build.compiler(), "-std=c11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    command += [f"-I{client}", f"-I{catalogue.INCLUDE}", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(output))
    library.tsr_table_read.restype = ctypes.c_bool

    def call(content: bytes, claimed: int | None = None) -> bool:
        descriptor = os.memfd_create("table")
        os.write(descriptor, content)
        size = ctypes.c_uint64(len(content) if claimed is None else claimed)
        taken = library.tsr_table_read(ctypes.create_string_buffer(256), descriptor, size)
        os.close(descriptor)
        return bool(taken)

    return call


def table(**changes: int) -> bytes:
    """Return a table of one function with one parameter, one variable and a log."""
    functions = HEADER
    variables = functions + FUNCTION
    parameters = variables + VARIABLE
    names = parameters + PARAMETER
    log = names + len(NAME)
    header = messages.TableHeader(1, functions, 1, parameters, 1, variables, 0, log, log, 4)
    function = messages.FunctionRecord(
        name_offset=names, parameter_first=0, parameter_count=1, parameter_bytes=8
    )
    variable = messages.VariableRecord(name_offset=names, bytes=4)
    parameter = messages.ParameterRecord(offset=0, size=8)
    for name, value in changes.items():
        part, field = name.split("__")
        setattr(
            {"header": header, "function": function, "variable": variable, "parameter": parameter}[
                part
            ],
            field,
            value,
        )
    return b"".join([bytes(header), bytes(function), bytes(variable), bytes(parameter), NAME]) + (
        b"log!"
    )


SIZE = len(table())


def test_a_good_table_is_taken(read):
    assert read(table())
    assert read(table(header__log_bytes=0, header__log_offset=SIZE))
    assert read(table(function__parameter_bytes=abi.MAX_PARAMETER_BYTES))


@pytest.mark.parametrize(
    "changes",
    [
        {"header__function_count": 2},
        {"header__function_count": 0xFFFFFFFF},
        {"header__function_offset": SIZE},
        {"header__function_offset": HEADER + 4},
        {"header__variable_count": 4},
        {"header__variable_offset": HEADER + 4},
        {"header__parameter_count": 0x20000000},
        {"header__parameter_offset": SIZE + 4},
        {"header__parameter_offset": HEADER + 1},
        {"header__log_offset": SIZE + 1},
        {"header__log_bytes": 5},
        {"function__name_offset": SIZE},
        {"function__name_offset": SIZE - 4},
        {"function__parameter_bytes": 7},
        {"function__parameter_bytes": abi.MAX_PARAMETER_BYTES + 1},
        {"function__parameter_first": 1},
        {"function__parameter_first": 2},
        {"function__parameter_count": 2},
        {"variable__name_offset": SIZE},
        {"variable__name_offset": SIZE - 1},
        {"parameter__offset": 1},
        {"parameter__offset": 9},
        {"parameter__size": 9},
        {"parameter__size": 0xFFFFFFFF},
        {"header__titles_offset": SIZE},
        {"header__titles_offset": HEADER + 1},
        {"header__titles_offset": HEADER + REGISTERS, "function__registers": SIZE},
    ],
    ids=str,
)
def test_a_bad_one_is_not(read, changes):
    assert not read(table(**changes))


def test_wrong_sizes_are_refused(read):
    for claimed in (0, HEADER - 1, SIZE - 1, SIZE + 1, 1 << 40):
        assert not read(table(), claimed)
