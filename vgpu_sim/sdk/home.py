"""A folder laid out as CUDA's toolkit, for builds that look for one in CUDA_HOME."""

import hashlib
import shlex
import shutil
import tempfile
from pathlib import Path

from vgpu_sim import config
from vgpu_sim.sdk.driver import INCLUDE
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.system.python_process import interpreter

_RUN = "import sys; from vgpu_sim.cli.main import main; sys.argv[:1] = ['tessera', 'cc']; main()"
# The runtime is the one for which the headers are, whichever PyTorch or another client loads. The
# linker looks for what a library needs in the folder in which it found the library.
_LIBRARIES = ("libcudart.so", "libcudart.so.12", "libcuda.so", "libcuda.so.1")


def make() -> Path:
    """Return the folder in the user's cache: ``bin/nvcc``, ``include`` and ``lib64``.

    It contains links into this installation. Another installation, or another interpreter, has
    another folder.

    Raises:
        CompileError: the user has no cache directory.
        OSError: the folder cannot be written.
    """
    cache = config.user_cache_dir()
    if cache is None:
        raise CompileError("--cuda-home needs a home directory, or XDG_CACHE_HOME")
    libraries = {f"lib64/{name}": config.LIBRARIES_DIR / name for name in _LIBRARIES}
    links = {"include": INCLUDE, **libraries}
    script = f'#!/bin/sh\nexec {shlex.quote(interpreter())} -P -c {shlex.quote(_RUN)} "$@"\n'
    key = hashlib.sha256(repr((script, sorted(links.items()))).encode()).hexdigest()[:12]
    home = cache / f"cuda-home-{key}"
    if home.exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    begun = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=cache))
    try:
        for folder in ("bin", "lib64"):
            (begun / folder).mkdir()
        for name, target in links.items():
            (begun / name).symlink_to(target)
        (begun / "bin" / "nvcc").write_text(script)
        (begun / "bin" / "nvcc").chmod(0o755)
        begun.rename(home)
    except OSError:
        shutil.rmtree(begun, ignore_errors=True)
        if not home.exists():  # another process was first
            raise
    return home
