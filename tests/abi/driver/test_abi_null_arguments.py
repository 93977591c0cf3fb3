"""Every function of the table, with each of its pointers NULL in turn."""

import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim.clients.codegen.library import load
from vgpu_sim.native import catalogue

PROGRAM = Path(__file__).parents[1] / "programs" / "driver" / "null_arguments.py"
SUCCESS, INVALID_VALUE, INVALID_DEVICE, NOT_FOUND = 0, 1, 101, 500
UNSUPPORTED_EXEC_AFFINITY = 224
INVALID_HANDLE, ALREADY_REGISTERED = 400, 712
# Graphs, captures and green contexts have tests of their own, and variants call the function that is tried.
GRAPHS = ("cuGraph", "cuUserObject", "cuThreadExchange", "cuGreenCtx", "cuDevSm", "cuDevResource")
# So have arrays and textures (tests/abi/driver/arrays).
GRAPHS += ("cuArray", "cuMipmapped", "cuMemcpyAto", "cuMemcpyDtoA", "cuMemcpyHtoA")
GRAPHS += ("cuTex", "cuSurf", "cuModuleGetTexRef", "cuModuleGetSurfRef", "cuDeviceGetTexture1D")
GRAPHS += ("cuParamSetTexRef", "cuImportExternal", "cuExternalMemory", "cuDestroyExternal")
GRAPHS += ("cuPointerSetAttribute", "cuLaunchCooperativeKernelMultiDevice")
CAPTURES = ("Capture", "cuStreamBatchMemOp", "GetDevResource", "GreenCtx")

# Pointers that are optional for the caller, according to the reference of the driver API.
OPTIONAL = {
    ("cuCoredumpGetAttribute", "value"),
    ("cuCoredumpGetAttributeGlobal", "value"),
    ("cuCtxGetStreamPriorityRange", "leastPriority"),
    ("cuCtxGetStreamPriorityRange", "greatestPriority"),
    ("cuCtxPopCurrent", "pctx"),
    ("cuCtxPopCurrent_v2", "pctx"),
    ("cuFuncGetParamInfo", "paramSize"),
    ("cuKernelGetParamInfo", "paramSize"),
    ("cuGetProcAddress_v2", "symbolStatus"),
    ("cuLinkAddData_v2", "name"),
    ("cuLinkComplete", "sizeOut"),
    ("cuLibraryGetGlobal", "dptr"),
    ("cuLibraryGetGlobal", "bytes"),
    ("cuLibraryGetManaged", "dptr"),
    ("cuLibraryGetManaged", "bytes"),
    ("cuLibraryLoadData", "libraryOptionValues"),  # the only supported option has no value
    ("cuLibraryLoadFromFile", "libraryOptionValues"),
    ("cuLogsDumpToFile", "iterator"),
    ("cuLogsDumpToMemory", "iterator"),
    ("cuLogsRegisterCallback", "callback_out"),
    ("cuLogsRegisterCallback", "userData"),
    ("cuMemFreeHost", "p"),  # as free(3); not documented, but NVIDIA's driver does so
    ("cuMemGetAddressRange_v2", "pbase"),
    ("cuMemGetAddressRange_v2", "psize"),
    ("cuMemGetInfo_v2", "free"),
    ("cuMemGetInfo_v2", "total"),
    ("cuMemcpy3DBatchAsync", "failIdx"),
    ("cuMemcpyBatchAsync", "failIdx"),
    ("cuModuleGetGlobal_v2", "dptr"),
    ("cuModuleGetGlobal_v2", "bytes"),
    ("cuLaunchHostFunc", "userData"),
    ("cuLaunchHostFunc_v2", "userData"),
    ("cuStreamAddCallback", "userData"),
    ("cuStreamGetCtx_v2", "pGreenCtx"),
}
WHOLE_CALL = {
    "cuGetExportTable": NOT_FOUND,  # no table exists
    "cuDeviceGetByPCIBusId": INVALID_VALUE,  # the text that is passed is not a bus id
    "cuDeviceGetP2PAttribute": INVALID_DEVICE,  # between a device and itself
    "cuDeviceGetP2PAtomicCapabilities": INVALID_DEVICE,
    "cuLibraryGetUnifiedFunction": NOT_FOUND,  # no library has one
    "cuDeviceGetGraphMemAttribute": INVALID_VALUE,  # it has no attribute 8
    "cuDeviceSetGraphMemAttribute": INVALID_VALUE,
    "cuCoredumpSetAttribute": INVALID_VALUE,  # of another size than the setting
    "cuCoredumpSetAttributeGlobal": INVALID_VALUE,  # of another size than the setting
    "cuCtxGetExecAffinity": UNSUPPORTED_EXEC_AFFINITY,  # no device has it
    "cuMemHostRegister": ALREADY_REGISTERED,  # memory that cuMemHostAlloc has pinned
    "cuMemHostRegister_v2": ALREADY_REGISTERED,
    "cuMemHostUnregister": INVALID_VALUE,  # the same: it needs no registration
    "cuIpcGetEventHandle": INVALID_HANDLE,  # an event that was not created for processes
    "cuIpcOpenEventHandle": INVALID_HANDLE,  # 64 bytes that no process exported
    "cuIpcOpenMemHandle": INVALID_HANDLE,  # 64 bytes that no process exported
    "cuIpcOpenMemHandle_v2": INVALID_HANDLE,
    "cuTensorMapEncodeIm2col": INVALID_VALUE,  # a tensor of no dimension
    "cuTensorMapEncodeIm2colWide": INVALID_VALUE,
    # Pools and memory that were not made for export, and descriptors that name none.
    "cuMemExportToShareableHandle": INVALID_VALUE,
    "cuMemImportFromShareableHandle": INVALID_VALUE,
    "cuMemPoolExportPointer": INVALID_VALUE,
    "cuMemPoolExportToShareableHandle": INVALID_VALUE,
    "cuMemPoolImportFromShareableHandle": INVALID_VALUE,
    "cuMemPoolImportPointer": INVALID_VALUE,
}


@pytest.fixture(scope="module")
def results(environment, libraries, tmp_path_factory) -> dict[tuple[str, str], int]:
    image = tmp_path_factory.mktemp("null") / "kernel.ptx"
    arguments = [str(libraries / "libcuda.so.1"), str(catalogue.CLIENTS / "libcuda"), str(image)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr  # the last line crashed
    rows = (line.split() for line in done.stdout.splitlines())
    return {(symbol, parameter): int(result) for symbol, parameter, result in rows}


def test_without_a_null_every_call_succeeds(results):
    whole = {symbol: result for (symbol, parameter), result in results.items() if parameter == "-"}
    assert {symbol: result for symbol, result in whole.items() if result} == WHOLE_CALL


def test_each_null_is_an_invalid_value_or_an_unwanted_result(results):
    tried = {key: result for key, result in results.items() if key[1] != "-"}
    assert tried == {key: SUCCESS if key in OPTIONAL else INVALID_VALUE for key in tried}
    assert set(tried) >= OPTIONAL


def test_every_function_with_pointers_was_called(results):
    functions = load(catalogue.CLIENTS / "libcuda").functions
    own = {f.symbol for f in functions if f.symbol.startswith(GRAPHS) or f.base}
    own |= {f.symbol for f in functions if any(part in f.symbol for part in CAPTURES)}
    with_pointers = {f.symbol for f in functions if any("*" in p.type for p in f.parameters)} - own
    assert {symbol for symbol, _ in results} == with_pointers
