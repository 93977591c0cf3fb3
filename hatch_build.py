"""Build hook: compiles the C parts (client libraries, worker runtime) before packaging."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_INSTALLED = "vgpu_sim/native/lib"


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs ``vgpu_sim.native.build`` before the wheel (or the editable install) is assembled.

    A wheel's libraries, and the C code generated for them, are built outside the checkout, which
    may be read-only; an editable install uses the checkout, so they are built in it. A wheel takes
    the libraries that are up to date in the checkout.
    """

    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a missing compiler ends the build with one line that names it."""
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(Path(self.root)))
        try:
            from vgpu_sim.native import build, catalogue, platform_tag
        finally:
            sys.path.pop(0)
        directory, generated = build.LIBRARIES, catalogue.GENERATED
        if version != "editable":
            self._scratch = Path(tempfile.mkdtemp(prefix="tessera-build-"))
            directory, generated = self._scratch / "lib", self._scratch / "generated"
        try:
            build.build_all(directory, generated=generated, reuse=build.LIBRARIES)
        except build.BuildError as err:
            self._remove_scratch()
            sys.exit(f"error: {err}")  # a traceback would hide the one line that helps
        tag = build.platform_tag()
        if version != "editable":
            tag = platform_tag.tag_of(directory)
            build_data["shared_data"].update(self._write_manuals())
            build_data["force_include"].update(
                {
                    str(library): f"{_INSTALLED}/{library.relative_to(directory)}"
                    for library in directory.rglob("*")
                    # hidden files are the build's records for its next run
                    if not library.name.startswith(".") and not library.is_dir()
                }
            )
        else:
            # Without plugins/start: pytest takes its sitecustomize.py in such an installation for
            # the module of that name, which a distribution's Python has imported already.
            build_data["force_include_editable"] = {"plugins/torch": "vgpu_sim/plugins/torch"}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"

    def _write_manuals(self) -> dict[str, str]:
        """Return manual pages and completions, by the name of the file, and where they belong.

        They are written from the programs' help, so the programs' dependencies must be there: a
        build in isolation has none, and its wheel has no manual pages.
        """
        assert self._scratch is not None
        path = os.pathsep.join((self.root, f"{self.root}/operator"))
        done = subprocess.run(
            [sys.executable, "-P", "-m", "vgpu_sim.cli.manual", str(self._scratch / "share")],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
            self.app.display_warning(f"no manual pages: {reason}")
            return {}
        share = self._scratch / "share"
        files = (path for path in share.rglob("*") if path.is_file())
        return {str(path): f"share/{path.relative_to(share)}" for path in files}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the build directory, whose contents are now in the wheel."""
        del version, build_data, artifact_path
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
