"""Build hook: compiles the C parts (client library, worker runtime) before packaging."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs ``vgpu_sim.native.build`` before the wheel (or the editable install) is assembled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a missing compiler ends the build with one line that says what is missing."""
        del version
        sys.path.insert(0, str(Path(self.root)))
        try:
            from vgpu_sim.native import build
        finally:
            sys.path.pop(0)
        try:
            build.build_all()
        except build.BuildError as err:
            sys.exit(f"error: {err}")  # a traceback would hide the one line that helps
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{build.platform_tag()}"
