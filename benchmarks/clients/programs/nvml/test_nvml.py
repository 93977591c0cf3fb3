"""Clients of NVML: pynvml, nvitop and gpustat show the slice, its GPU and their memory."""

import json
import subprocess
import sys

import pynvml
import pytest


@pytest.fixture
def gpu():
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


def test_pynvml_keeps_the_parents_memory_from_a_slice_as_hardware_does(gpu):
    assert "H100" in pynvml.nvmlDeviceGetName(gpu)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetMemoryInfo(gpu)


def test_pynvml_reports_the_link(gpu):
    assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu) == 5
    assert pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu) == 16
    assert pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu) in range(1, 6)
    assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu) == 16


def test_pynvml_reports_the_slice(gpu):
    current, _ = pynvml.nvmlDeviceGetMigMode(gpu)
    assert current == pynvml.NVML_DEVICE_MIG_ENABLE
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(part)
    assert 0 < memory.total <= 80 << 30


def _run(*command):
    process = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_gpustat_shows_the_gpu():
    (gpu,) = json.loads(_run("gpustat", "--json"))["gpus"]
    assert "H100" in gpu["name"]
    assert gpu["memory.total"] is None, "a slice's program may not read the GPU's memory"


def test_nvitop_shows_the_slice_and_the_gpu():
    text = _run("nvitop", "--once", "--no-unicode")
    assert "H100" in text
    from nvitop import Device

    (device,) = Device.all()
    assert device.memory_total() > 0
    (part,) = device.mig_devices()
    assert part.memory_total() > 0
