"""The chart's default MIG configurations, under the names that NVIDIA's MIG manager uses.

``python -m gpu_operator.api.migparted_defaults FILE`` writes the file for all known boards.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from gpu_operator.api.mig_parted import VENDOR
from mig import geometry

_Instances = tuple[tuple[str, int], ...]
_HEAD = """\
# Made by python -m gpu_operator.api.migparted_defaults from the boards' geometry: do not edit.
# Your own configurations: chart value migManager.config (docs/mig-config.md).
"""


def document() -> dict[str, Any]:
    """Return the default mig-parted configurations, as a document.

    The configurations are: MIG off, MIG on, each profile on all GPUs, and a balanced mix.
    """
    configs: dict[str, Any] = {
        "all-disabled": [{"devices": "all", "mig-enabled": False}],
        "all-enabled": [{"devices": "all", "mig-enabled": True, "mig-devices": {}}],
    }
    by_name: dict[str, dict[_Instances, list[str]]] = {}
    for board in geometry.BOARDS.values():
        instances_by_name: dict[str, _Instances] = {
            f"all-{profile.resource_name.removeprefix('mig-')}": (
                (profile.name, profile.max_count),
            )
            for profile in board.profiles
        }
        instances_by_name["all-balanced"] = _balance(board)
        for name, instances in instances_by_name.items():
            groups = by_name.setdefault(name, defaultdict(list))
            groups[instances].append(f"0x{board.pci_device_id << 16 | VENDOR:08X}")
    for name, boards_by_instances in sorted(by_name.items()):
        configs[name] = [
            {
                "device-filter": boards,
                "devices": "all",
                "mig-enabled": True,
                "mig-devices": dict(instances),
            }
            for instances, boards in boards_by_instances.items()
        ]
    return {"version": "v1", "mig-configs": configs}


def _balance(board: geometry.Board) -> _Instances:
    """Return one instance of each size below the full board, and a second one of the smallest
    size.
    """
    sizes = {p.compute_slices: p.name for p in board.profiles if p.is_classic}
    whole = [s for s in (1, 2, 3) if s in sizes]
    if board.compute_slices < sum(whole) + 1:
        whole.remove(max(whole))
    return tuple((sizes[slices], 2 if slices == 1 else 1) for slices in whole)


def text() -> str:
    """Return the content of the file with the default mig-parted configurations."""
    return _HEAD + yaml.safe_dump(document(), sort_keys=False, width=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m gpu_operator.api.migparted_defaults", description=__doc__
    )
    parser.add_argument("file", type=Path, help="file to write")
    parser.parse_args().file.write_text(text(), encoding="utf-8")
