"""``tessera run``: a program on a simulated slice or HCA, without a cluster and without root."""

import math
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from boards.record import ARCHITECTURES
from facts.document import GpuFacts
from hca.binding.wire import WireInterface
from mig.geometry import WHOLE, Board
from rdma.errors import PolicyError
from vgpu_sim import config, frameworks
from vgpu_sim.cli import boards, quantity, rdma_files, topologies
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.cli.clients.fabric import FabricFailed
from vgpu_sim.cli.clients.fabric_policy import Document
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions, StartFailed
from vgpu_sim.cli.clocks import check_modelled, clock_option
from vgpu_sim.cli.errors import fail, report
from vgpu_sim.cli.interrupts import Interrupts
from vgpu_sim.cli.placing import configure, layout
from vgpu_sim.cli.run import checks, devices, live, preload, python_options, run_hca, run_stats
from vgpu_sim.hal.compute import limits
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.system.python_process import interpreter

# As in env(1) and timeout(1): the tool itself failed, or the program cannot be executed or found.
EXIT_FAILED = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127

_FORWARDED = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)
_SI_KERNEL = 0x80  # siginfo: sent by the terminal, which has sent it to its whole foreground group


def _parse_capability(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    capabilities = {f"{major}.{minor}": (major, minor) for major, minor in ARCHITECTURES}
    if value is not None and value not in capabilities:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(capabilities)}")
    return capabilities[value] if value is not None else None


def _finite(
    _context: click.Context, _parameter: click.Parameter, value: float | None
) -> float | None:
    """Refuse infinity and NaN, which click's ranges accept. Raises click.BadParameter."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number of seconds")
    return value


def _complete_profile(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = (
        profile.name for board in boards.select_boards(ctx) for profile in board.device_profiles
    )
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _complete_command(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=f"Variables that frameworks need are set unless they are set: {frameworks.describe()}."
    " The flag is appended to other flags of XLA_FLAGS. The line that a framework's import prints"
    " has the values.",
)
@boards.optional
@click.option(
    "--slice",
    "profile_name",
    metavar="PROFILE",
    shell_complete=_complete_profile,
    help="MIG profile such as 1g.10gb or 1c.3g.40gb; an unknown one lists the board's. Without this"
    " option COMMAND gets a whole GPU with MIG disabled.",
)
@click.option(
    "--hca",
    is_flag=True,
    help="Give COMMAND a virtual HCA (RDMA adapter), with or without a slice.",
)
@click.option(
    "--system-verbs",
    is_flag=True,
    help="Use the system's libibverbs.so.1 (rdma-core 39 to 56) with Tessera's provider.",
)
@click.option(
    "--fabric",
    callback=run_hca.check_name,
    metavar="NAME",
    help="Put the HCA on the fabric of that name, with other runs; default: a new fabric.",
)
@click.option(
    "--rdma-labels",
    callback=run_hca.parse_labels,
    metavar="KEY=VALUE,...",
    help="Labels that identify this run to the fabric's policies, as a pod in namespace default.",
)
@click.option(
    "--rdma-policy",
    "rdma_policies",
    type=click.Path(path_type=Path),
    multiple=True,
    callback=rdma_files.read,
    metavar="FILE",
    help="Manifest whose RDMANetworkPolicies and RDMANetworks are put on the fabric.",
)
@click.option(
    "--wire",
    callback=run_hca.find_wire,
    metavar="INTERFACE|ADDRESS",
    help="Connect the HCA to other machines by RoCEv2, with that interface's addresses; the"
    " fabric's first"
    " run chooses the interface.",
)
@click.option(
    "--wire-gso",
    is_flag=True,
    help="Use the kernel's segmentation offload for the wire's packets (UDP_SEGMENT, UDP_GRO):"
    " faster,"
    " where nothing on the path must see single packets.",
)
@click.option(
    "--wire-rate",
    callback=run_hca.read_rate,
    metavar="BYTES",
    help="Limit each address of the wire to so many bytes a second, such as 400Mi; QoS classes"
    " share"
    " the limit.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of whole GPUs, or of slices for programs with several processes: as in CUDA, a"
    " process"
    " has one MIG device, the first or the one that CUDA_VISIBLE_DEVICES names.",
)
@click.option(
    "--backend",
    type=click.Choice(["jit", "interp"]),
    default="jit",
    show_default=True,
    help="How kernels are executed: as compiled code, or by the interpreter of Tessera's ISA.",
)
@click.option(
    "--cc",
    "capability",
    callback=_parse_capability,
    metavar="M.m",
    help="Report a compute capability below the board's.",
)
@click.option(
    "--budget",
    "budget_bytes",
    callback=quantity.convert,
    metavar="SIZE",
    help="Host memory for all slices together, such as 4Gi; default: half of the host's or of the"
    " container's, and at any moment at most what is available less 2 GiB: a larger allocation"
    " gets out-of-memory.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, limits.MAX_WORKER_THREADS),
    help="Native threads of each context; default: the number of CPUs.",
)
@click.option(
    "--kernel-timeout",
    "kernel_timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    callback=_finite,
    metavar="SECONDS",
    help="End a kernel that runs longer, with CUDA_ERROR_LAUNCH_TIMEOUT; default: no limit.",
)
@clock_option
@topologies.option
@click.option("--stats", is_flag=True, help="At the end, print each kernel's time on stderr.")
@click.option(
    "--ui",
    "page",
    is_flag=True,
    help="Serve a page about the run on loopback while COMMAND runs; its URL is printed on stderr.",
)
@click.option(
    "--device-files",
    is_flag=True,
    help="Show COMMAND empty files /dev/nvidiactl and /dev/nvidia0, for programs that only test"
    " that they exist. JAX needs none: it detects the GPU by the folder of its slices.",
)
@click.option(
    "--preload",
    "preload_choice",
    type=click.Choice(preload.CHOICES),
    help="Load Tessera's CUDA libraries before those that wheels install. auto (the default): each"
    " Python of the run does so when it imports PyTorch, JAX, TensorFlow or ONNX Runtime, for the"
    " CUDA version of that package, and prints a line. 12 and 13: every program of the run, by"
    " LD_PRELOAD.",
)
@click.argument(
    "command_line",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    shell_complete=_complete_command,
    metavar="[--] COMMAND [ARGUMENTS]...",
)
def command(
    board: Board | None,
    profile_name: str | None,
    hca: bool,
    system_verbs: bool,
    fabric: str | None,
    rdma_labels: dict[str, str],
    rdma_policies: list[Document],
    wire: WireInterface | None,
    wire_gso: bool,
    wire_rate: int,
    count: int,
    backend: str,
    capability: tuple[int, int] | None,
    budget_bytes: int | None,
    threads: int | None,
    kernel_timeout_s: float | None,
    clock: str,
    topology: str,
    stats: bool,
    page: bool,
    device_files: bool,
    preload_choice: str | None,
    command_line: tuple[str, ...],
) -> None:
    """Run COMMAND with a simulated GPU, or a MIG slice of one, as its CUDA device.

    With --hca it gets a virtual HCA (an RDMA adapter), in addition to a slice or instead of one;
    programs on the same fabric reach each other, as far as the fabric's policies allow.

    A second Ctrl-C (SIGINT) ends COMMAND, even while it waits for a kernel that never ends.

    The exit status is the command's; 128+n if signal n ended it; 2 for wrong arguments; 125 if
    the slice or the HCA could not be created; 126 or 127 if the command cannot be executed or
    found.
    """
    # some parents ignore SIGCHLD, and exit statuses would be lost
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    policies = rdma_labels or rdma_policies
    run_hca.check_options(hca, wire, wire_gso or wire_rate, policies, fabric, system_verbs)
    if board is None and not hca:
        raise click.UsageError("Missing option '--board' (or --hca).")
    if board is None:
        gpu_options = (
            (profile_name, "--slice"),
            (stats, "--stats"),
            (device_files, "--device-files"),
            (page, "--ui"),
            (preload_choice, "--preload"),
        )
        for value, option in gpu_options:
            if value:
                raise click.UsageError(f"{option} needs --board")
    token_hex = secrets.token_hex(TOKEN_BYTES)
    environment = config.own_environment()
    preparations: list[Callable[[], None]] = []
    fabric_name = run_hca.fabric_name(fabric)
    try:
        with ExitStack() as stack:
            node = None
            if board is not None:
                options = StandaloneOptions(
                    backend=backend,
                    capability=None if capability is None else f"{capability[0]}.{capability[1]}",
                    cache_dir=config.user_cache_dir(),
                    budget_bytes=budget_bytes,
                    threads=threads,
                    kernel_timeout_s=kernel_timeout_s,
                    report_usage=stats or page,
                    clock=clock,
                    hca_socket=run_hca.direct_socket(fabric_name) if hca else None,
                )
                device = checks.find_device(board, profile_name or WHOLE)
                checks.check_capability(board, capability)
                check_modelled(board, device, clock)
                placed = layout(board, device, count)
                topologies.check(topology, len(placed))
                _require("libcuda.so.1", config.LIBRARIES_DIR)
                node = stack.enter_context(StandaloneNode(config.private_dir_parents(), options))
                with node.admin() as admin:
                    configure(admin, board, placed, GpuFacts(topology=topology))
                token_hex = node.token_hex
                environment = config.program_environment(
                    node.slices_dir, token_hex, config.LIBRARIES_DIR
                )
                environment = config.with_ptxas_check(environment, interpreter())
                environment = preload.with_choice(environment, preload_choice or preload.AUTO)
                python_options.warn_of_ignored_path(command_line)
                _say_how_to_choose(1 if device.profile.is_whole else count)
            if hca:
                _require("libibverbs.so.1", config.RDMA_LIBRARIES_DIR)
                member = stack.enter_context(
                    run_hca.member(
                        fabric_name,
                        token_hex,
                        labels=rdma_labels,
                        policies=rdma_policies,
                        wire=wire,
                        gso=wire_gso,
                        bytes_per_second=wire_rate,
                    )
                )
                environment = config.with_hca(
                    environment,
                    libraries=run_hca.verbs_dir(system_verbs),
                    socket=member.socket_path,
                    token_hex=token_hex,
                    address=member.address,
                )
                preparations.append(run_hca.sysfs_mounter(member, system_verbs))
            if node is not None and device_files:
                preparations.append(devices.file_mounter(node.slices_dir.with_name("devices")))
            key = board.key if board is not None else ""
            with (
                live.serve_page(node if page else None, key, command_line),
                run_stats.print_statistics(node if stats else None),
            ):
                status = run_program(command_line, environment, preparations)
    except (StartFailed, AdminRefused, FabricFailed, PolicyError) as err:
        report(str(err))
        status = EXIT_FAILED
    except OSError as err:
        device_kind = "slice" if board is not None else "HCA"
        where = f"{err.filename}: " if err.filename else f"the {device_kind} cannot be made: "
        report(f"{where}{err.strerror or err}")
        status = EXIT_FAILED
    sys.exit(status)


def _require(library: str, directory: Path) -> None:
    """Exit with build instructions if a client library is missing."""
    if (directory / library).exists():
        return
    fail(
        f"no {library} in {directory}: build it with `python -m vgpu_sim.native.build`", EXIT_FAILED
    )


def run_program(
    command_line: Sequence[str],
    environment: Mapping[str, str],
    preparations: Sequence[Callable[[], None]] = (),
) -> int:
    """Run a program to its end, forwarding signals; return the status to exit with.

    ``preparations`` are called in the new process before it executes the program.

    The first SIGINT and all other signals are forwarded to the program. The second SIGINT ends
    it, however it handles the first: a program that waits for a kernel cannot run its handler.

    The signals stay blocked in this process afterwards, so that nothing interrupts the clean-up.
    """
    watched = _FORWARDED | {signal.SIGCHLD}
    earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)

    def begin() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
        for prepare in preparations:
            prepare()

    try:
        program = subprocess.Popen(command_line, env=environment, preexec_fn=begin)
    except OSError as err:
        name = command_line[0]
        # An unsearchable directory in PATH turns a missing command's error into "not permitted".
        elsewhere = os.path.dirname(name) == "" and shutil.which(name, os.F_OK) is None
        if isinstance(err, FileNotFoundError) or elsewhere:
            report(f"{name or repr(name)}: command not found")
            return EXIT_NOT_FOUND
        report(f"{name}: {err.strerror}")
        return EXIT_NOT_EXECUTABLE
    interrupts = Interrupts()
    while program.poll() is None:
        received = signal.sigwaitinfo(watched)
        if received.si_signo == signal.SIGINT and interrupts.count(time.monotonic()):
            click.echo("tessera run: interrupted twice: ending the program", err=True)
            program.kill()
        elif received.si_signo != signal.SIGCHLD and received.si_code != _SI_KERNEL:
            program.send_signal(received.si_signo)
    status = program.returncode
    return 128 - status if status < 0 else status


def _say_how_to_choose(count: int) -> None:
    """With several slices and none chosen, explain how each process selects its slice."""
    if count > 1 and not config.user_selects_devices():
        click.echo(
            f"tessera run: {count} slices; as in CUDA each process has one of them as its device:"
            f" the first, or the one that its CUDA_VISIBLE_DEVICES (0 to {count - 1}) names",
            err=True,
        )
