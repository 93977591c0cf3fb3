"""Capabilities of gpud's workers: the system calls that drop them, and those that remain."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim.system import identity

ROOT = Path(__file__).parents[4]
PR_CAPBSET_DROP = 24  # linux/prctl.h
NEWEST = 63  # the kernel keeps capabilities in 64 bits


class Kernel:
    """Has capabilities up to ``last``; dropping one fails with the errno ``refused``."""

    def __init__(self, last: int, refused: tuple[int, int] = (-1, 0)) -> None:
        self._last, self._refused = last, refused
        self.dropped: list[int] = []
        self.requested = 0

    def prctl(self, option: int, capability: int) -> int:
        assert option == PR_CAPBSET_DROP
        self.requested += 1
        refused, reason = self._refused
        if capability == refused:
            raise OSError(reason, "refused")
        if capability > self._last:
            raise OSError(errno.EINVAL, "no such capability")
        self.dropped.append(capability)
        return 0


@pytest.mark.parametrize("last", [0, 36, 40, NEWEST - 1, NEWEST])
def test_each_capability_that_a_kernel_has_leaves_the_bounding_set(
    monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    kernel = Kernel(last)
    monkeypatch.setattr(identity.calls, "prctl", kernel.prctl)
    identity.drop_bounding_set()
    assert kernel.dropped == list(range(last + 1))


def test_a_process_that_may_drop_none_has_none_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(40, (0, errno.EPERM))
    monkeypatch.setattr(identity.calls, "prctl", kernel.prctl)
    identity.drop_bounding_set()
    assert (kernel.requested, kernel.dropped) == (1, [])


@pytest.mark.parametrize("capability", [0, 21])
def test_a_bounding_set_that_stays_for_another_reason_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capability: int
) -> None:
    kernel = Kernel(40, (capability, errno.ENOSYS))
    monkeypatch.setattr(identity.calls, "prctl", kernel.prctl)
    with pytest.raises(OSError, match="refused"):
        identity.drop_bounding_set()
    assert kernel.dropped == list(range(capability))


DROPPED = """
import sys
from vgpu_sim.system import identity
for step in sys.argv[1:]:
    getattr(identity, step)()
print(open("/proc/self/status").read())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root has capabilities to lose")
@pytest.mark.parametrize(
    ("steps", "empty"),
    [
        ((), set()),
        (("drop_bounding_set",), {"CapBnd"}),
        (("drop_capabilities",), {"CapPrm", "CapEff"}),
        (("drop_bounding_set", "drop_capabilities"), {"CapBnd", "CapPrm", "CapEff"}),
    ],
)
def test_the_kernel_has_no_capability_left_in_what_was_dropped(
    steps: tuple[str, ...], empty: set[str]
) -> None:
    """Inheritable and ambient sets are empty from the start."""
    done = subprocess.run(
        [sys.executable, "-c", DROPPED, *steps],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    sets = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Cap"))
    none_left = {name for name, bits in sets.items() if int(bits, 16) == 0}
    assert none_left - {"CapInh", "CapAmb"} == empty
