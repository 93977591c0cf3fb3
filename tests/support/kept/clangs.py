"""The clang with which ``tessera cc`` compiles the tests' programs: the oldest or the newest one.

Both are tested, because code that one compiles has ended the other in a crash. The day selects one,
so that a run compiles each program once.
"""

import functools

from support.watches import rotation
from vgpu_sim.sdk import clang
from vgpu_sim.sdk.clang import Clang
from vgpu_sim.sdk.errors import CompileError

_LATER = 40  # clang's versions of some years


@functools.cache
def list_clangs() -> tuple[Clang, ...]:
    """Return the suitable clangs of this machine, in the order of their versions.

    Raises:
        CompileError: there is none; the text states what to install.
    """
    clangs = {newest.version: newest for newest in (clang.find(),)}
    for version in range(clang.OLDEST, _LATER):
        try:
            clangs.setdefault(version, clang.find(f"clang++-{version}"))
        except CompileError:
            continue
    return tuple(clangs[version] for version in sorted(clangs))


def of_day() -> Clang:
    """Return the oldest clang of this machine on one day, and the newest on the next."""
    return list_clangs()[-(rotation.number_of_day() % 2)]
