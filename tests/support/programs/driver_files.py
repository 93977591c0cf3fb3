"""The files of a kernel module that describe a gpud's GPUs, for NVIDIA's programs that read them.

``/proc/modules``, ``/proc/driver/nvidia-caps/mig-minors`` and the GPUs below
``/sys/bus/pci/devices`` are files in a mount namespace of one program. The product has none of them
(docs/compatibility.md has the reasons); ids and numbers are those that NVML, and so gpud, reports.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from vgpu_sim.hal.management import admin

_FIRST_MINOR = 3  # 1 and 2 are the capabilities to configure and to monitor MIG

# Replaces a directory by a writable one with links to all its entries.
_ENTER = """
set -eu
again() { # directory copy: what was in it, as links, on a file system that can be written
  mkdir -p "$2"; mount --rbind "$1" "$2"; mount -t tmpfs tmpfs "$1"
  for entry in "$2"/* "$2"/.[!.]*; do [ -e "$entry" ] || [ -L "$entry" ] || continue; ln -s "$entry" "$1"/; done
}
again /proc "$0"/proc
rm -f /proc/modules /proc/driver; cp "$0"/modules /proc/modules
mkdir -p /proc/driver/nvidia-caps; cp "$0"/mig-minors /proc/driver/nvidia-caps/
again /sys "$0"/sys
rm -f /sys/bus; mkdir -p /sys/bus/pci; cp -r "$0"/devices /sys/bus/pci/
exec "$@"
"""


def command(
    room: Path, gpus: Sequence[admin.Gpu], pci_device: str, line: Sequence[str]
) -> list[str]:
    """Return the command line that runs a program with these files; ``pci_device`` is the GPUs' PCI
    id.
    """
    room.mkdir(exist_ok=True)
    (room / "modules").write_text("nvidia 1 0 - Live 0x0000000000000000\n")
    (room / "mig-minors").write_text("".join(_minors(gpus)))
    for gpu in gpus:
        device = room / "devices" / gpu.pci_bus_id.lower()[-12:]
        device.mkdir(parents=True, exist_ok=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "device").write_text(f"{pci_device}\n")
        (device / "class").write_text("0x030200\n")
        (device / "numa_node").write_text("-1\n")
        (device / "resource").write_text(
            "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
        )
        (device / "config").write_bytes(bytes(256))
    return [
        *("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", _ENTER, str(room)),
        *line,
    ]


def shell(room: Path, gpus: Sequence[admin.Gpu], pci_device: str, line: Sequence[str]) -> str:
    """Return the same command as a line for the shell."""
    return f"exec {shlex.join(command(room, gpus, pci_device, line))}"


def _minors(gpus: Sequence[admin.Gpu]) -> list[str]:
    lines, minor = ["config 1\n", "monitor 2\n"], _FIRST_MINOR
    for gpu in gpus:
        for instance in gpu.instances:
            if not gpu.mig_enabled:
                continue
            where = f"gpu{gpu.index}/gi{instance.gi_id}"
            lines += [f"{where}/access {minor}\n", f"{where}/ci0/access {minor + 1}\n"]
            minor += 2
    return lines
