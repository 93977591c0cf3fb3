"""Regenerates the message and service modules: ``python -m device_plugin.proto.generate``.

Needs grpcio-tools (dependency group ``dev``); its output is committed, so that neither a user
nor an image build needs a protobuf compiler.
"""

import argparse
import sys
from pathlib import Path

PROTOS = ("deviceplugin", "dra", "drahealth", "podresources", "registration")


def generate(output: Path) -> None:
    """Write ``device_plugin/proto/*_pb2*.py`` below ``output``.

    Raises:
        RuntimeError: the protobuf compiler refuses a file.
    """
    from grpc_tools import protoc

    root = Path(__file__).resolve().parent.parent.parent
    for name in PROTOS:
        status = protoc.main(
            [
                "protoc",
                f"-I{root}",
                f"--python_out={output}",
                f"--grpc_python_out={output}",
                f"device_plugin/proto/{name}.proto",
            ]
        )
        if status != 0:
            raise RuntimeError(f"protoc failed on {name}.proto with status {status}")


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m device_plugin.proto.generate", description=__doc__
    ).parse_args()
    generate(Path(__file__).resolve().parent.parent.parent)
    sys.exit(0)
