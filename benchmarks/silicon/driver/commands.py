"""nvidia-smi: the text and the exit status of each form."""

import re
import subprocess
from typing import Final

FORMS: Final = (
    "", "-L", "-q", "-q -x", "-h", "--help-query-gpu", "--help-query-compute-apps", "-B", "--version",
    "--help-query-accounted-apps", "--help-query-retired-pages", "--help-query-remapped-rows",
    "--list-excluded-gpus", "-i 0", "-i 1", "-i 99", "-i x", "--nonsense", "-q -i 0", "-q -d MEMORY",
    *(f"-q -d {section}" for section in ("UTILIZATION", "ECC", "TEMPERATURE", "POWER", "CLOCK", "COMPUTE", "PIDS", "PERFORMANCE", "SUPPORTED_CLOCKS", "PAGE_RETIREMENT", "ACCOUNTING", "ENCODER_STATS", "SUPPORTED_GPU_TARGET_TEMP", "VOLTAGE", "FBC_STATS", "ROW_REMAPPER", "RESET_STATUS", "GSP_FIRMWARE_VERSION", "POWER_SMOOTHING", "POWER_PROFILES", "NONSENSE", "MEMORY,ECC")),
    "--query-compute-apps=pid,used_memory --format=csv", "--query-compute-apps=nonsense --format=csv",
    "--query-gpu=name --format=csv", "--query-gpu=name --format=csv,noheader", "--query-gpu=name",
    "--query-gpu=name --format=csv,noheader,nounits", "--query-gpu=nonsense --format=csv",
    "--query-gpu=name --format=xml", "--query-gpu=memory.total,power.limit,clocks.max.sm --format=csv,nounits",
    "--query-supported-clocks=memory,graphics --format=csv", "--query-remapped-rows=gpu_bus_id --format=csv",
    "topo -m", "topo -h", "topo -mp", "topo -p2p r", "topo -p2p w", "topo -p2p n", "topo -p2p a", "topo -p2p p",
    "topo --matrix", "topo -c 0", "topo -n 0 -i 0", "topo nonsense", "nvlink -s", "nvlink -h", "nvlink -c", "nvlink -e",
    "nvlink -p", "nvlink -R", "nvlink --status", "nvlink -s -i 0", "nvlink -s -i 9", "nvlink nonsense",
    "mig -h", "mig -lgip", "mig -lgi", "mig -lci", "mig -lcip", "mig -lgipp", "mig nonsense",
    "dmon -h", "dmon -c 1", "dmon -c 1 -s pucvmet", "dmon -c 1 -s x", "pmon -h", "pmon -c 1",
    "clocks -h", "vgpu", "vgpu -h", "boost-slider -l", "boost-slider -h", "power-hint -l", "power-hint -h",
    "conf-compute -h", "conf-compute -f", "compute-policy -l", "compute-policy -h", "c2c -s", "c2c -h", "gpm -h",
    "gpm -g 0", "pci -h", "pci -i 0", "power-smoothing -h", "power-profiles -h", "power-profiles -l", "drain -h",
    "stats -h", "daemon -h", "replay -h", "caps -l", "caps -h", "encodersessions -h", "fbcsessions", "-a", "--id=0 -L",
)  # fmt: skip
SECRET = (
    (re.compile(r"GPU-[0-9a-f-]{36}"), "GPU-UUID"),
    (re.compile(r"\b[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0\b"), "BUS"),
    (re.compile(r"\b0x[0-9A-Fa-f]{10,}\b"), "HEX"),
    (re.compile(r"\b\d{13}\b"), "SERIAL"),
)


def questions() -> list[str]:
    """Return the forms, and one query for each field."""
    return [*FORMS, "every field"]


def run(form: str) -> list[object]:
    """Return the exit status and the text of a form, without identities."""
    try:
        process = subprocess.run(
            ["nvidia-smi", *form.split()], capture_output=True, text=True, timeout=25, check=False
        )
    except FileNotFoundError:
        return ["no nvidia-smi"]
    except subprocess.TimeoutExpired:
        return ["timeout"]
    texts = []
    for text in (process.stdout, process.stderr):
        for pattern, name in SECRET:
            text = pattern.sub(name, text)
        texts.append(text)
    return [process.returncode, *texts]


def ask(question: str) -> object:
    """Return what nvidia-smi answers."""
    if question != "every field":
        return run(question)
    text = str(run("--help-query-gpu")[1])
    names = re.findall(r'^"([\w.-]+)"', text, re.MULTILINE)
    together = run(f"--query-gpu={','.join(names)} --format=csv")
    if together[0] == 0:
        lines = str(together[1]).splitlines()
        return [names, *(line.split(", ") for line in lines)]
    return [names, together]
