"""``tessera run --ui``: the process that serves a page about the run, beside the program."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.cli.clients.standalone import StandaloneNode
from vgpu_sim.system import python_process

_MODULE = "vgpu_sim.cli.live_page"
_STOP_S = 5.0


@contextmanager
def serve_page(
    node: StandaloneNode | None, board: str, command_line: Sequence[str]
) -> Iterator[None]:
    """Serve a page about the run of the enclosed block; do nothing if ``node`` is None.

    The process ends when its standard input is closed, also if this process is killed.

    Raises:
        OSError: the process cannot be started, or gpud does not answer.
    """
    if node is None:
        yield
        return
    with AdminClient(node.run_dir) as events:
        events.call("subscribe")  # before the program starts, so that no context is missed
        process = subprocess.Popen(
            python_process.module_command(
                _MODULE,
                str(node.run_dir),
                board,
                _describe(command_line),
                str(events.fileno()),
            ),
            env=python_process.module_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal must reach the program, not the page
            pass_fds=(events.fileno(),),
        )
    try:
        yield
    finally:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _describe(command_line: Sequence[str]) -> str:
    """Return a command line as text; bytes that are not UTF-8 are written as ``\\xff``."""
    raw = " ".join(command_line)[:1000].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "backslashreplace")
