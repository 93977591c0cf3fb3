"""Fat binaries through cuda.bindings: in memory, in a wrapper, in a file and as a library."""

import ctypes
import struct

import pytest

from support.kernels.fat_binaries import CUBIN, make_entry, make_fat_binary, ptx_of

INVALID_VALUE, INVALID_IMAGE, NO_BINARY = 1, 200, 209
GOOD = make_fat_binary(
    make_entry(90, b"\x7fELF", kind=CUBIN),
    make_entry(50, ptx_of("50"), compression="lz4"),
    make_entry(80, ptx_of("80"), compression="zstd"),
)
NEWEST = b"k_80"


def wrap(data: bytes, *, version: int = 1) -> tuple[bytes, object]:
    """Return a wrapper of a fat binary, and the object that keeps its memory."""
    buffer = ctypes.create_string_buffer(data, len(data))
    wrapper = struct.pack("<IIQQ", 0x466243B1, version, ctypes.addressof(buffer), 0)
    return wrapper, buffer


def test_a_fat_binary_loads_wherever_an_image_does(cuda, tmp_path):
    wrapper, kept = wrap(GOOD)
    file = tmp_path / "good.fatbin"
    file.write_bytes(GOOD)
    modules = [
        cuda.cuModuleLoadData(GOOD),
        cuda.cuModuleLoadDataEx(wrapper, 0, [], []),
        cuda.cuModuleLoadFatBinary(GOOD),
        cuda.cuModuleLoadFatBinary(wrapper),
        cuda.cuModuleLoad(str(file).encode()),
    ]
    for module in modules:
        function = cuda.cuModuleGetFunction(module, NEWEST)
        cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    cuda.cuCtxSynchronize()
    for module in modules:
        cuda.cuModuleUnload(module)
    path = str(file).encode()
    for library in (
        cuda.cuLibraryLoadData(wrapper, [], [], 0, [], [], 0),
        cuda.cuLibraryLoadFromFile(path, [], [], 0, [], [], 0),
    ):
        assert cuda.cuLibraryGetKernelCount(library) == 1
        cuda.cuLibraryGetKernel(library, NEWEST)
        cuda.cuLibraryUnload(library)
    del kept


def link_wrapper(*objects: bytes) -> tuple[bytes, object]:
    """Return the wrapper that nvcc -rdc=true writes for a program of these objects, which have no
    linked code for the device, and the objects that keep its memory.
    """
    kept = [ctypes.create_string_buffer(one, len(one)) for one in (make_fat_binary(), *objects)]
    main, *others = map(ctypes.addressof, kept)
    named = (ctypes.c_uint64 * (len(others) + 1))(*others, 0)
    wrapper = struct.pack("<IIQQ", 0x466243B1, 2, main, ctypes.addressof(named))
    return wrapper, (kept, named)


def test_objects_that_nvcc_did_not_link_are_linked_when_they_load(cuda):
    declared = ".func (.param .b32 r) seven() "
    caller = """
.visible .entry caller(.param .u64 out) {
  .reg .b32 %r; .reg .b64 %d; .param .b32 got;
  call (got), seven, ();
  ld.param.b32 %r, [got];
  ld.param.u64 %d, [out];
  st.global.u32 [%d], %r;
  ret;
}
"""
    first = make_fat_binary(make_entry(80, ptx_of("80", f".extern {declared};" + caller)))
    second = make_fat_binary(
        make_entry(80, ptx_of("80", f".visible {declared}{{ st.param.b32 [r], 7; ret; }}"))
    )
    device_runtime = make_fat_binary(make_entry(90, b"\x7fELF", kind=CUBIN))
    wrapper, kept = link_wrapper(first, second, device_runtime)
    out = int(cuda.cuMemAlloc(4))
    library = cuda.cuLibraryLoadData(wrapper, [], [], 0, [], [], 0)
    for module in (cuda.cuModuleLoadData(wrapper), cuda.cuLibraryGetModule(library)):
        cuda.cuMemsetD32(out, 0, 1)
        function = cuda.cuModuleGetFunction(module, b"caller")
        cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((out,), (ctypes.c_uint64,)), 0)
        found = ctypes.c_uint32()
        cuda.cuMemcpyDtoH(ctypes.addressof(found), out, 4)
        assert found.value == 7
    alone, kept_alone = link_wrapper(first)
    assert cuda.code("cuModuleLoadData", alone) == INVALID_IMAGE  # a name is not defined
    machine, kept_machine = link_wrapper(device_runtime)
    assert cuda.code("cuModuleLoadData", machine) == NO_BINARY
    del kept, kept_alone, kept_machine


def test_machine_code_alone_is_refused_with_its_architectures(cuda, capfd):
    code = make_fat_binary(make_entry(80, b"x", kind=CUBIN), make_entry(90, b"x", kind=CUBIN))
    cubin = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HH", 2, 190) + bytes(44)
    assert cuda.code("cuModuleLoadFatBinary", code) == NO_BINARY
    assert cuda.code("cuModuleLoadData", cubin) == NO_BINARY
    lines = capfd.readouterr().err.splitlines()
    remedy = "-gencode arch=compute_XX,code=compute_XX"
    assert any("machine code for sm_80, machine code for sm_90" in line for line in lines)
    assert sum(remedy in line for line in lines) == 2


@pytest.mark.parametrize("loader", ["cuModuleLoad", "cuLibraryLoadFromFile"])
def test_a_file_that_ends_before_its_image_is_refused(cuda, tmp_path, loader):
    rest = () if loader == "cuModuleLoad" else ([], [], 0, [], [], 0)
    for name, data in {
        "cut": GOOD[:-20],
        "endless": GOOD[:8] + b"\xff" * 8 + GOOD[16:],
        "wrapper": wrap(GOOD)[0],
    }.items():
        file = tmp_path / name
        file.write_bytes(data)
        assert cuda.code(loader, str(file).encode(), *rest) in (INVALID_IMAGE, 218), name


def test_a_wrapper_without_a_fat_binary_is_refused(cuda):
    assert cuda.code("cuModuleLoadFatBinary", struct.pack("<IIQQ", 0x466243B1, 1, 0, 0)) == 200
    assert cuda.code("cuModuleLoadFatBinary", 0) == INVALID_VALUE
