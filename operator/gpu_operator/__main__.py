"""Entry point of ``tessera-operator`` and ``python -m gpu_operator``.

Without the operator's dependencies it prints which package to install.
"""

import sys

_OURS = ("gpu_operator", "mig", "rdma")


def main() -> None:
    """Run the operator's command line. If a dependency is not installed, print one line and exit
    with status 1.
    """
    try:
        from gpu_operator.app import main as command
    except ModuleNotFoundError as err:
        if err.name is None or err.name.partition(".")[0] in _OURS:
            raise
        sys.exit(f"tessera-operator: {err.name} is not installed: pip install 'tessera[operator]'")
    command(prog_name="tessera-operator")


if __name__ == "__main__":
    main()
