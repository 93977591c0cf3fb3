"""Runs the machine in QEMU: with KVM where this machine has it, else by translating its code."""

import os
import shutil
import subprocess
from pathlib import Path

from support.tools.machine.packages import MissingPackageError

PROGRAM = "qemu-system-x86_64"
MEMORY_MIB = 3072
STOPPED_EARLY = 125
# A machine that is translated on a busy computer is slow, so neither a watchdog nor the check of the timer
# may stop it.
_KERNEL_OPTIONS = (
    "console=ttyS0 quiet panic=-1 mitigations=off nowatchdog no_timer_check random.trust_cpu=on"
    " rcupdate.rcu_cpu_stall_suppress=1 cgroup_no_v1=all"
)
# Some machines that are themselves virtual have a KVM with which QEMU cannot set this register, and the guest,
# which runs without mitigations, does not read it.
_VIRTUALIZATION = ("-accel", "kvm", "-cpu", "host,arch-capabilities=off")
_BOOT_S = 30
# The machine's clock advances by 1 ns with each instruction, so that time-outs in the machine do not expire
# while other work delays QEMU.
_TRANSLATION = ("-accel", "tcg", "-icount", "shift=0", "-cpu", "max,la57=off")


def run(image: Path, initial_files: Path, status: Path) -> int:
    """Run a machine until its command ends; its output goes to standard output.

    Returns the command's exit status, or STOPPED_EARLY.

    Raises:
        MissingPackageError: QEMU is not installed.
    """
    if shutil.which(PROGRAM) is None:
        raise MissingPackageError(
            f"{PROGRAM} is missing: apt-get install --no-install-recommends qemu-system-x86"
        )
    subprocess.run(command_line(image, initial_files, status), check=False)
    text = status.read_text(encoding="ascii").strip() if status.exists() else ""
    return int(text) if text.isdecimal() else STOPPED_EARLY


def command_line(image: Path, initial_files: Path, status: Path) -> list[str]:
    """Return QEMU's command. The machine writes the exit status to its second serial port."""
    root = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
    return [
        PROGRAM,
        *(_VIRTUALIZATION if _boots_with_kvm(image) else _TRANSLATION),
        # One processor, for which the slices compete.
        "-smp", "1", "-m", str(MEMORY_MIB),
        "-kernel", str(image), "-initrd", str(initial_files), "-append", _KERNEL_OPTIONS,
        "-fsdev", root, "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
        "-serial", "stdio", "-serial", f"file:{status}",
        "-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot",
    ]  # fmt: skip


def _boots_with_kvm(image: Path) -> bool:
    """Boot a kernel without a root file system, which it reports by a restart.

    With the KVM of some machines that are themselves virtual, a kernel does not get that far.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    command = [
        PROGRAM, *_VIRTUALIZATION, "-m", "512",
        "-kernel", str(image), "-append", _KERNEL_OPTIONS,
        "-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot",
    ]  # fmt: skip
    try:
        boot = subprocess.run(command, capture_output=True, check=False, timeout=_BOOT_S)
    except subprocess.TimeoutExpired:
        return False
    return boot.returncode == 0
