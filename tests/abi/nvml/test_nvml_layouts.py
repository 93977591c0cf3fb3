"""nvml_types.h, functions.toml and libnvidia-ml.so.1 compared with nvidia-ml-py."""

import ctypes
import inspect
import re
import subprocess
from pathlib import Path

import pynvml
import pytest

from vgpu_sim.clients.codegen import library
from vgpu_sim.native import catalogue

LIBNVML = catalogue.CLIENTS / "libnvml"
# Tessera's names, and those of nvidia-ml-py where they differ or it has only the last version.
SAME = {
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
    "nvmlPciInfo_v2_t": pynvml.nvmlPciInfo_v2_t,
    "nvmlPciInfoExt_t": pynvml.nvmlPciInfoExt_v1_t,
    "nvmlSystemDriverBranchInfo_t": pynvml.c_nvmlSystemDriverBranchInfo_v1_t,
    "nvmlUUID_t": pynvml.c_nvmlUUID_t,
    "nvmlDeviceAddressingMode_t": pynvml.c_nvmlDeviceAddressingMode_t,
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlBAR1Memory_t": pynvml.c_nvmlBAR1Memory_t,
    "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_t,
    "nvmlProcessDetail_v1_t": pynvml.c_nvmlProcessDetail_v1_t,
    "nvmlProcessDetailList_t": pynvml.c_nvmlProcessDetailList_v1_t,
    "nvmlProcessUtilizationSample_t": pynvml.c_nvmlProcessUtilizationSample_t,
    "nvmlTemperature_t": pynvml.c_nvmlTemperature_v1_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
    "nvmlGpuInstancePlacement_t": pynvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceProfileInfo_t": pynvml.c_nvmlGpuInstanceProfileInfo_t,
    "nvmlGpuInstanceProfileInfo_v2_t": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "nvmlGpuInstanceInfo_t": pynvml.c_nvmlGpuInstanceInfo_t,
    "nvmlComputeInstancePlacement_t": pynvml.c_nvmlComputeInstancePlacement_t,
    "nvmlComputeInstanceProfileInfo_t": pynvml.c_nvmlComputeInstanceProfileInfo_t,
    "nvmlComputeInstanceProfileInfo_v2_t": pynvml.c_nvmlComputeInstanceProfileInfo_v2_t,
    "nvmlComputeInstanceInfo_t": pynvml.c_nvmlComputeInstanceInfo_t,
    "nvmlEventData_t": pynvml.c_nvmlEventData_t,
    "nvmlGpuDynamicPstatesInfo_t": pynvml.c_nvmlGpuDynamicPstatesInfo_t,
    "nvmlPowerValue_v2_t": pynvml.c_nvmlPowerValue_v2_t,
    "nvmlDeviceCapabilities_t": pynvml.c_nvmlDeviceCapabilities_v1_t,
    "nvmlPdi_t": pynvml.c_nvmlPdi_t,
    "nvmlGridLicensableFeatures_t": pynvml.c_nvmlGridLicensableFeatures_v4_t,
    "nvmlValue_t": pynvml.c_nvmlValue_t,
    "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
}


def measure_layouts(tmp_path: Path) -> dict[str, int]:
    """Return the compiler's size of each structure and offset of each field."""
    lines = []
    for ours, theirs in SAME.items():
        lines.append(f'printf("{ours} %zu\\n", sizeof({ours}));')
        for name, *_ in theirs._fields_:
            lines.append(f'printf("{ours}.{name} %zu\\n", offsetof({ours}, {name}));')
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    body = "\n".join(lines)
    headers = '#include <stddef.h>\n#include <stdio.h>\n#include "nvml_types.h"\n'
    source.write_text(f"{headers}int main(void) {{ {body}\nreturn 0; }}\n")
    subprocess.run(["cc", "-std=c11", f"-I{LIBNVML}", source, "-o", program], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def test_structures_have_the_public_layouts(tmp_path):
    expected = {}
    for ours, theirs in SAME.items():
        expected[ours] = ctypes.sizeof(theirs)
        for name, *_ in theirs._fields_:
            expected[f"{ours}.{name}"] = getattr(theirs, name).offset
    assert measure_layouts(tmp_path) == expected


def test_statuses_have_their_public_numbers():
    theirs = {
        name: value
        for name, value in vars(pynvml).items()
        if re.match(r"NVML_(ERROR_|SUCCESS$)", name) and isinstance(value, int)
    }
    ours = {one.name: one.code for one in library.load(LIBNVML).statuses}
    assert ours == theirs


def public_names() -> set[str]:
    """Return every function that nvidia-ml-py looks up."""
    return set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', inspect.getsource(pynvml)))


def test_every_public_name_is_exported(libraries):
    loaded = ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"))
    assert len(public_names()) > 400
    assert [name for name in sorted(public_names()) if not hasattr(loaded, name)] == []


def test_names_of_earlier_versions_are_exported(libraries):
    """Programs that were compiled with an older header call them (go-nvml looks up both)."""
    loaded = ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"))
    for name in (
        "nvmlInit",
        "nvmlInit_v2",
        "nvmlDeviceSetDriverModel_v2",
        "nvmlDeviceGetHandleByIndex",
        "nvmlEventSetWait",
    ):
        assert hasattr(loaded, name)
    assert not hasattr(loaded, "tsr_view"), "nothing but NVML's names"


@pytest.mark.parametrize("name", ["nvmlDeviceGetNvLinkCapability", "nvmlVgpuTypeGetName"])
def test_what_is_not_there_is_said_by_nvml_s_own_status(libraries, name):
    loaded = ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"))
    assert getattr(loaded, name)() == pynvml.NVML_ERROR_NOT_SUPPORTED
    loaded.nvmlErrorString.restype = ctypes.c_char_p
    assert loaded.nvmlErrorString(3) == b"Not Supported"
    assert loaded.nvmlErrorString(4711) == b"Unknown Error"
