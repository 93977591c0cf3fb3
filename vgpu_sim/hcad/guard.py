"""What policy asks of one program's objects: which peers, and how many of each."""

import errno
import os
from pathlib import Path

from vgpu_sim.fabric.addresses import Address
from vgpu_sim.fabric.engine import Engine, EngineQp
from vgpu_sim.hal.hca import HcaQpAttributes
from vgpu_sim.hcad.enforcement import Enforcer
from vgpu_sim.hcad.functions import Function, Functions


class Guard:
    """Asks the enforcer on behalf of one function. Its programs share what they may have."""

    def __init__(self, enforcer: Enforcer, function: Function) -> None:
        self._enforcer = enforcer
        self.function = function

    def connect(self, qp: EngineQp, number: int, attributes: HcaQpAttributes) -> None:
        """Let a queue pair have the peer that its attributes name. Raises OSError (EACCES)."""
        self._enforcer.connect(self.function, qp, number, attributes)

    def forget(self, qp: EngineQp) -> None:
        """A queue pair has no peer any more."""
        self._enforcer.forget(qp)

    def take_qp(self) -> None:
        """Count one queue pair more. Raises OSError (EDQUOT)."""
        most = self._enforcer.limits_of(self.function).queue_pairs
        if most is not None and self.function.queue_pairs >= most:
            raise OSError(errno.EDQUOT, f"{self.function.owner}: policy lets it have {most} QPs")
        self.function.queue_pairs += 1

    def give_qp(self) -> None:
        """Count one queue pair less."""
        self.function.queue_pairs -= 1

    def take_bytes(self, size: int) -> None:
        """Count bytes of a memory region more. Raises OSError (EDQUOT)."""
        most = self._enforcer.limits_of(self.function).region_bytes
        if most is not None and self.function.region_bytes + size > most:
            raise OSError(
                errno.EDQUOT, f"{self.function.owner}: policy lets it register {most} bytes"
            )
        self.function.region_bytes += size

    def give_bytes(self, size: int) -> None:
        """Count bytes of a memory region less."""
        self.function.region_bytes -= size


def unmanaged(engine: Engine, gids: tuple[bytes, ...]) -> Guard:
    """Return one that lets everything pass: of a program that is on no fabric."""
    functions = Functions(Path(os.devnull))
    return Guard(Enforcer(engine, functions), Function("", 0, Address(b"", gids), Path(os.devnull)))
