"""``tessera-device-plugin``: starts the agent, or prints which package is missing."""

import sys

_OURS = ("device_plugin", "gpu_operator", "mig", "rdma", "vgpu_sim")


def main() -> None:
    """Serve this node's slices; if a library is missing, print one line and exit with 1."""
    try:
        from device_plugin.app import main as serve
    except ModuleNotFoundError as err:
        if err.name is None or err.name.partition(".")[0] in _OURS:
            raise
        sys.exit(
            f"tessera-device-plugin: {err.name} is not installed: pip install 'tessera[plugin]'"
        )
    serve()


if __name__ == "__main__":
    main()
