"""pynvml and the CUDA driver in one program under ``tessera run`` see the same device."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.processes.tessera_run import run

PROGRAM = """
import json, os, pynvml
from cuda.bindings import driver

def good(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]

good((*driver.cuInit(0), None))
device = good(driver.cuDeviceGet(0))
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
whole = pynvml.nvmlDeviceGetMigMode(gpu)[0] == 0
its = gpu if whole else pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
context = good(driver.cuCtxCreate(None, 0, device))
before = pynvml.nvmlDeviceGetMemoryInfo(its).used
address = good(driver.cuMemAlloc(64 << 20))
after = pynvml.nvmlDeviceGetMemoryInfo(its).used
attribute = driver.CUdevice_attribute
print(json.dumps({
    "name": [good(driver.cuDeviceGetName(100, device)).split(b"\\0")[0].decode(),
             pynvml.nvmlDeviceGetName(its)],
    "uuid": [good(driver.cuDeviceGetUuid(device)).bytes.hex(),
             pynvml.nvmlDeviceGetUUID(its)[4:].replace("-", "")],
    "bus": [good(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device)),
            pynvml.nvmlDeviceGetPciInfo(gpu).bus],
    "ecc": [good(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_ECC_ENABLED, device)),
            pynvml.nvmlDeviceGetEccMode(gpu)[0]],
    "version": [good(driver.cuDriverGetVersion()), pynvml.nvmlSystemGetCudaDriverVersion()],
    "grown": [64 << 20, after - before],
    "pids": [[os.getpid()],
             [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(its)]],
}))
"""


@pytest.mark.parametrize("profile", ["1g.10gb", "whole"])
def test_nvml_and_the_driver_say_the_same(tmp_path: Path, profile: str) -> None:
    done = run(tmp_path, sys.executable, "-c", PROGRAM, profile=profile)
    assert done.returncode == 0, done.stderr
    reported: dict[str, list[Any]] = json.loads(done.stdout)
    assert {name: cuda for name, (cuda, _) in reported.items()} == {
        name: nvml for name, (_, nvml) in reported.items()
    }
