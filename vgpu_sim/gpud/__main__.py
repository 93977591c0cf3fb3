"""``tessera-gpud``: what an earlier gpud of the container has left is removed, then gpud is loaded.

Loading it takes a second. A readiness file that outlived a restart of the container would meanwhile
have Kubernetes believe that this gpud serves.
"""

import sys

from vgpu_sim.gpud import readiness


def main() -> None:
    """Serve this node's simulated GPUs until SIGTERM."""
    readiness.withdraw_named(sys.argv[1:])
    from vgpu_sim.gpud import command

    command.main()


if __name__ == "__main__":
    main()
