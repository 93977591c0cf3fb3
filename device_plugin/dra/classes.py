"""The DeviceClasses: whole GPUs, MIG devices, and one for each profile of any board.

``python -m device_plugin.dra.classes FILE`` writes them for the chart, which adds the parts that
depend on its values: labels, and the extended resources that the classes serve.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_operator.api.claim_devices import CLASS_DOMAIN, DRIVER
from mig import geometry

_HEAD: Final = "# Written by python -m device_plugin.dra.classes; boards are in boards/.\n"


def classes() -> Iterator[dict[str, Any]]:
    """Yield each DeviceClass as its name, its CEL expression, and its resource without a prefix."""
    yield _class(f"gpu.{CLASS_DOMAIN}", geometry.WHOLE_RESOURCE, _is("type", "gpu"))
    yield _class(f"mig.{CLASS_DOMAIN}", "", _is("type", "mig"))
    names = {
        profile.name: profile.resource_name
        for board in geometry.BOARDS.values()
        for profile in board.profiles
    }
    for name, resource in sorted(names.items()):
        yield _class(
            f"{resource}.{CLASS_DOMAIN}", resource, _is("type", "mig"), _is("profile", name)
        )


def _is(attribute: str, value: str) -> str:
    return f'device.attributes["{DRIVER}"].{attribute} == "{value}"'


def _class(name: str, resource: str, *conditions: str) -> dict[str, Any]:
    expression = " && ".join([f'device.driver == "{DRIVER}"', *conditions])
    return {"name": name, "resource": resource, "expression": expression}


def render() -> str:
    """Return the contents of the file with the DeviceClasses."""
    return _HEAD + yaml.safe_dump(list(classes()), sort_keys=False, width=200)


def main() -> None:
    """Write the DeviceClasses to the file that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m device_plugin.dra.classes", description="Write the chart's DeviceClasses."
    )
    parser.add_argument("file", type=Path)
    parser.parse_args().file.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
