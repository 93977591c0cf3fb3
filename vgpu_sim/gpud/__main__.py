"""``tessera-gpud``: removes the previous gpud's readiness file, then loads gpud.

Loading takes a second. A readiness file that survived a restart of the container would make
Kubernetes report this gpud as ready during that time.
"""

import gc
import sys

from vgpu_sim.gpud import readiness


def main() -> None:
    """Serve this node's simulated GPUs until SIGTERM."""
    readiness.withdraw_named(sys.argv[1:])
    gc.disable()  # what gpud loads stays, so a collection would find no garbage
    from vgpu_sim.gpud import command

    gc.freeze()
    gc.enable()
    command.main()


if __name__ == "__main__":
    main()
