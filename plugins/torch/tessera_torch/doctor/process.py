"""Checks with PyTorch imported: which libraries won, whether the plug-in is loaded, the device."""

import os
import re
import time
from collections.abc import Iterable

from tessera_torch import driver
from tessera_torch.doctor.finding import ERROR, OK, Finding

LIBRARIES = (
    "libcuda",
    "libcudart",
    "libcublas",
    "libcublasLt",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcusparseLt",
    "libcupti",
    "libcufile",
    "libnccl",
    "libnvshmem_host",
)
_FILE = re.compile(r"^(lib\w+)\.so(\.\d+)*$")
_REMEDY = (
    "start the program with `tessera run --preload 13`; in a pod set"
    " LD_PRELOAD=/usr/lib/tessera/math/libtessera-cuda13.so"
)


def list_libraries(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return CUDA's libraries in lines of ``/proc/self/maps``: paths by name without version."""
    paths_by_name: dict[str, dict[str, None]] = {}
    for line in lines:
        path = line.split(maxsplit=5)[-1].strip()
        match = _FILE.match(os.path.basename(path)) if path.startswith("/") else None
        if match and match[1] in LIBRARIES:
            paths_by_name.setdefault(match[1], {})[path] = None
    return {name: tuple(paths) for name, paths in paths_by_name.items()}


def check_libraries(paths_by_name: dict[str, tuple[str, ...]]) -> list[Finding]:
    """Check that Tessera's library of each name is loaded.

    PyTorch opens NVIDIA's libcublasLt by its path, also if Tessera's is preloaded, which then
    still precedes: its symbols are found first.
    """
    foreign = {
        name: paths[0]
        for name, paths in paths_by_name.items()
        if not any(driver.has_mark(path) for path in paths)
    }
    findings = []
    if "libcuda" not in paths_by_name:
        remedy = "start the program with `tessera run --board BOARD`, or in a pod with a slice"
        findings.append(Finding("libraries", ERROR, "no libcuda.so.1 is loaded", remedy))
    elif "libcuda" not in foreign:
        ours = sorted(paths_by_name.keys() - foreign.keys())
        listed = f"of Tessera, {', '.join(ours)}; libcuda from {paths_by_name['libcuda'][0]}"
        findings.append(Finding("libraries", OK, listed))
    if foreign:
        folders = sorted({os.path.dirname(path) for path in foreign.values()})
        listed = f"not Tessera's: {', '.join(sorted(foreign))}, from {', '.join(folders)}"
        findings.append(Finding("libraries", ERROR, listed, _REMEDY))
    return findings


def check_plugin() -> Finding:
    """Check that the plug-in has registered its operators, after ``import torch``."""
    from tessera_torch import loading

    if loading.is_loaded():
        return Finding("operators", OK, "registered")
    reason = "not registered"
    if not driver.is_tessera():
        return Finding("operators", ERROR, f"{reason}: the driver is not Tessera's", _REMEDY)
    return Finding("operators", ERROR, reason, "read the line of tessera-torch on stderr")


def check_device() -> list[Finding]:
    """Check that there is a device, and that it computes."""
    import torch

    if not torch.cuda.is_available():
        missing = f"none; PyTorch was built for CUDA {torch.version.cuda}"
        return [Finding("device", ERROR, missing, "request a slice, or use `tessera run --board`")]
    properties = torch.cuda.get_device_properties(0)
    size = f"{properties.multi_processor_count} SMs, {properties.total_memory >> 20} MiB"
    device = Finding(
        "device", OK, f"{properties.name}, {size}, {torch.cuda.device_count()} visible"
    )
    started = time.perf_counter()
    try:
        values = (torch.ones(3, device="cuda") + 1).tolist()
    except Exception as err:  # noqa: BLE001 whatever PyTorch, Triton or the compiler raises
        first = str(err).strip().split("\n")[0]
        return [device, Finding("computes", ERROR, f"{type(err).__name__}: {first}")]
    seconds = time.perf_counter() - started
    state = OK if values == [2, 2, 2] else ERROR
    return [device, Finding("computes", state, f"ones(3) + 1 is {values}, {seconds:.1f} s")]


def check_all() -> list[Finding]:
    """Import PyTorch and return the findings of all checks of this module."""
    started = time.perf_counter()
    try:
        import torch  # noqa: F401
    except Exception as err:  # noqa: BLE001 a library that is missing raises OSError or ImportError
        return [Finding("import", ERROR, f"import torch: {err}")]
    took = f"import torch took {time.perf_counter() - started:.1f} s"
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths_by_name = list_libraries(maps)
    findings = [Finding("import", OK, took), *check_libraries(paths_by_name), check_plugin()]
    return (
        findings
        if any(finding.state == ERROR for finding in findings)
        else [*findings, *check_device()]
    )
