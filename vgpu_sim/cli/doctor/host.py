"""Checks of the machine for ``tessera run``: the kernel, the sandbox, memory and folders.

Every check reads the system, and none changes it, except for files that are removed at once.
"""

import os
import platform
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from diagnosis.findings import FAIL, OK, WARN, Finding
from vgpu_sim import config
from vgpu_sim.cli.clients import run_dirs
from vgpu_sim.gpud.limits import host_memory
from vgpu_sim.sdk import clang
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.system import python_process
from vgpu_sim.worker import sandbox

_AREA: Final = "host"
_MIB: Final = 1 << 20
_LITTLE_MEMORY: Final = 2 << 30
_LANDLOCK_SINCE: Final = (5, 13)
_FEW_FILES: Final = 1024
_LIBRARY: Final = "libcuda.so.1"
_COMPUTE_TIMEOUT_S: Final = 120


def check_all(*, compute: bool = True) -> list[Finding]:
    """Return the findings; ``compute`` also runs a program on a simulated GPU."""
    checks: tuple[Callable[[], Finding], ...] = (
        check_kernel,
        check_libraries,
        check_sandbox,
        check_ptrace,
        check_address_space,
        check_files,
        check_memory,
        check_run_folder,
        check_temporary_folder,
        check_cache,
        check_c_compiler,
        check_clang,
        check_kubectl_plugin,
    )
    host_findings = [check() for check in checks]
    return [*host_findings, check_compute()] if compute else host_findings


def check_kernel() -> Finding:
    """Check the processor, the operating system and the kernel's version."""
    text = f"{platform.system()} {platform.release()} on {platform.machine()}"
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return Finding(_AREA, "kernel", FAIL, text, "use Linux on x86-64")
    if _version(platform.release()) < _LANDLOCK_SINCE:
        return Finding(
            _AREA,
            "kernel",
            WARN,
            f"{text}: no Landlock before Linux 5.13",
            "update the kernel, or allow user namespaces, which Tessera uses instead",
        )
    return Finding(_AREA, "kernel", OK, text)


def check_libraries(folder: Path = config.LIBRARIES_DIR) -> Finding:
    """Check that the client libraries are built, on a file system from which they can be loaded."""
    if not (folder / _LIBRARY).exists():
        return Finding(
            _AREA,
            "libraries",
            FAIL,
            f"no {_LIBRARY} in {folder}",
            "build it with `python -m vgpu_sim.native.build`, which needs gcc",
        )
    if is_noexec(folder):
        return Finding(
            _AREA,
            "libraries",
            FAIL,
            f"{folder} is mounted noexec",
            "install Tessera on a file system without the option noexec",
        )
    return Finding(_AREA, "libraries", OK, str(folder))


def check_sandbox() -> Finding:
    """Check that workers can be confined, by confining a child of this process."""
    level = sandbox.probe(None)
    names = {
        "seccomp": level.seccomp,
        "Landlock": level.landlock,
        "namespaces": level.namespaces,
        "no new privileges": level.no_new_privileges,
    }
    active = ", ".join(name for name, is_active in names.items() if is_active) or "nothing"
    missing = ", ".join(name for name, is_active in names.items() if not is_active)
    text = f"active: {active}" + (f"; not active: {missing}" if missing else "")
    if level.confined:
        return Finding(_AREA, "sandbox", OK, text)
    return Finding(
        _AREA,
        "sandbox",
        FAIL,
        text,
        "allow seccomp filters, and Landlock (boot option lsm=landlock,...) or user namespaces"
        " (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1,"
        " kernel.apparmor_restrict_unprivileged_userns=0); in a container, relax its seccomp"
        " profile; on a cluster the value gpud.allowWeakSandbox=true does without",
    )


def check_ptrace(file: Path = Path("/proc/sys/kernel/yama/ptrace_scope")) -> Finding:
    """Report whether debuggers can attach to programs on a simulated GPU."""
    try:
        scope = int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Finding(_AREA, "ptrace", OK, "not restricted by Yama")
    texts = {
        0: "a debugger can attach to processes of the same user",
        1: "a debugger can attach to the programs that it starts",
        2: "only root can attach a debugger",
    }
    if scope < 2:
        return Finding(_AREA, "ptrace", OK, texts[scope])
    return Finding(
        _AREA,
        "ptrace",
        WARN,
        texts.get(scope, "no debugger can attach"),
        "Tessera works; for gdb or strace, set the sysctl kernel.yama.ptrace_scope=1"
        + (" and restart the machine, because 3 cannot be lowered" if scope > 2 else ""),
    )


def check_address_space(
    overcommit: Path = Path("/proc/sys/vm/overcommit_memory"),
) -> Finding:
    """Check that programs can reserve the addresses of a GPU's memory."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        return Finding(
            _AREA,
            "addresses",
            FAIL,
            f"limited to {soft // _MIB} MiB a process",
            "remove the limit, because programs reserve terabytes of addresses: `ulimit -v"
            " unlimited`",
        )
    try:
        strict = overcommit.read_text(encoding="ascii").strip() == "2"
    except OSError:
        strict = False
    if strict:
        return Finding(
            _AREA,
            "addresses",
            WARN,
            "the kernel does not overcommit memory",
            "set the sysctl vm.overcommit_memory=0 if programs fail with CUDA_ERROR_OUT_OF_MEMORY",
        )
    return Finding(_AREA, "addresses", OK, "not limited")


def check_files() -> Finding:
    """Check the limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{soft} open files a process"
    if 0 <= soft < _FEW_FILES:
        remedy = f"`ulimit -n {max(_FEW_FILES, min(hard, 4096))}`: each context needs descriptors"
        return Finding(_AREA, "files", WARN, text, remedy)
    return Finding(_AREA, "files", OK, text)


def check_memory(
    meminfo: Path = Path("/proc/meminfo"), groups: Sequence[Path] | None = None
) -> Finding:
    """Compare the memory that is available with the default budget of a run."""
    available = host_memory.available_bytes(meminfo, groups)
    budget = host_memory.default_budget_bytes(meminfo, groups)
    text = (
        f"{available // _MIB} MiB available; a run may use {budget // _MIB} MiB for device memory"
    )
    if budget < _LITTLE_MEMORY:
        remedy = "stop other programs, or limit a run with `tessera run --budget 1Gi`"
        return Finding(_AREA, "memory", WARN, text, remedy)
    return Finding(_AREA, "memory", OK, text)


def check_run_folder(parents: Iterable[Path] | None = None) -> Finding:
    """Check that a run can create its private folder, with a path that is short enough."""
    candidates = tuple(config.private_dir_parents() if parents is None else parents)
    try:
        folder = run_dirs.make(candidates)
    except OSError as err:
        remedy = "set XDG_RUNTIME_DIR or TMPDIR to a writable folder with a path below 40 bytes"
        return Finding(_AREA, "run folder", FAIL, str(err), remedy)
    folder.rmdir()
    return Finding(_AREA, "run folder", OK, str(folder.parent))


def check_temporary_folder(folder: Path | None = None) -> Finding:
    """Check that temporary files can be made, and executed as frameworks do."""
    where = folder or Path(tempfile.gettempdir())
    if not os.access(where, os.W_OK | os.X_OK):
        return Finding(
            _AREA, "temporary", FAIL, f"{where} is not writable", "set TMPDIR to another folder"
        )
    if is_noexec(where):
        return Finding(
            _AREA,
            "temporary",
            WARN,
            f"{where} is mounted noexec",
            "set TMPDIR to another folder: Triton and PyTorch load modules that they compile there",
        )
    return Finding(_AREA, "temporary", OK, str(where))


def check_cache() -> Finding:
    """Check that compiled kernels can be kept."""
    folder = config.user_cache_dir()
    if folder is None:
        return Finding(
            _AREA,
            "cache",
            WARN,
            "this user has no home",
            "set XDG_CACHE_HOME: without a cache, every run compiles its kernels",
        )
    existing_folder = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing_folder, os.W_OK | os.X_OK):
        return Finding(
            _AREA,
            "cache",
            WARN,
            f"{folder} is not writable",
            "set XDG_CACHE_HOME: without a cache, every run compiles its kernels",
        )
    return Finding(_AREA, "cache", OK, str(folder))


def check_c_compiler() -> Finding:
    """Check for a C compiler, which Triton and `torch.compile` need."""
    for name in ("cc", "gcc", "clang"):
        if (compiler_path := shutil.which(name)) is not None:
            return Finding(_AREA, "C compiler", OK, compiler_path)
    return Finding(
        _AREA,
        "C compiler",
        WARN,
        "none on PATH",
        "Triton and torch.compile need one: install gcc and the C library's headers",
    )


def check_clang() -> Finding:
    """Check for the clang that `tessera cc` needs."""
    try:
        compiler = clang.find(None)
    except CompileError as err:
        return Finding(_AREA, "clang", WARN, "`tessera cc` does not work", str(err))
    return Finding(_AREA, "clang", OK, f"{compiler.path} ({compiler.version})")


def check_kubectl_plugin() -> Finding:
    """Check that kubectl, if it is here, finds its plugin."""
    if shutil.which("kubectl") is None:
        return Finding(_AREA, "kubectl", OK, "not on PATH; only clusters need it")
    if (plugin_path := shutil.which("kubectl-tessera")) is not None:
        return Finding(_AREA, "kubectl", OK, f"the plugin is {plugin_path}")
    return Finding(
        _AREA,
        "kubectl",
        WARN,
        "the plugin kubectl-tessera is not on PATH",
        "add the folder of `tessera` to PATH, and `pip install 'tessera[console]'`",
    )


def check_compute(board: str = "a30") -> Finding:
    """Run `tessera validate` on a simulated GPU."""
    main = "vgpu_sim.cli.main"
    program = python_process.module_command(main, "validate")
    command = python_process.module_command(main, "run", "--board", board, "--", *program)
    environment = {**config.own_environment(), **_import_path()}
    try:
        process = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_COMPUTE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        text = f"no result within {_COMPUTE_TIMEOUT_S} s"
        return Finding(_AREA, "compute", FAIL, text, "repair what the lines above name")
    lines = (process.stdout if process.returncode == 0 else process.stderr).strip().splitlines()
    text = lines[-1] if lines else "no output"
    if process.returncode == 0:
        return Finding(_AREA, "compute", OK, text)
    text = f"status {process.returncode}: {text}"
    return Finding(_AREA, "compute", FAIL, text, "repair what the lines above name")


def is_noexec(folder: Path) -> bool:
    """Return whether the file system of a folder, or of its nearest parent, is mounted noexec."""
    existing_folder = next(path for path in (folder, *folder.parents) if path.exists())
    return bool(os.statvfs(existing_folder).f_flag & os.ST_NOEXEC)


def _import_path() -> dict[str, str]:
    return {config.PYTHON_PATH_VARIABLE: python_process.module_environment()["PYTHONPATH"]}


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])
