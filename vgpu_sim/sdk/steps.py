"""Running the tools of a compilation, and its temporary files."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from vgpu_sim.records import dataclass
from vgpu_sim.sdk.errors import CompileError, KnownFailureError


@dataclass
class Steps:
    """Runs tools one after the other; prints them as nvcc does with ``-v`` and ``--dryrun``."""

    folder: Path
    verbose: bool = False
    dry_run: bool = False
    count: int = field(default=0)

    def run(self, command: Sequence[str | Path], known_failures: Sequence[str] = ()) -> None:
        """Run a tool; its messages go to the terminal.

        Raises:
            KnownFailureError: the tool failed with a message that contains a text of
                ``known_failures``; its messages are not printed.
            CompileError: the tool failed; it has the tool's exit status.
        """
        words = [_word(word) for word in command]
        if known_failures and sys.stderr.isatty():
            words.append("-fcolor-diagnostics")
        self.show(shlex.join(words))
        if self.dry_run:
            return
        try:
            process = subprocess.run(
                words, check=False, stderr=subprocess.PIPE if known_failures else None
            )
        except OSError as err:
            raise CompileError(f"{words[0]}: {err.strerror}") from err
        status = process.returncode
        if known_failures:
            messages = process.stderr.decode(errors="replace")
            if status and any(text in messages for text in known_failures):
                raise KnownFailureError(messages, status)
            sys.stderr.write(messages)
            sys.stderr.flush()
        if status < 0:
            raise CompileError(f"{words[0]} was ended by signal {-status}", 128 - status)
        if status:
            raise CompileError("", status)

    def show(self, text: str) -> None:
        """Print a step, if steps are to be printed."""
        if self.verbose or self.dry_run:
            print(f"#$ {text}", file=sys.stderr)  # noqa: T201 - this is the command's output

    def file(self, stem: str, suffix: str) -> Path:
        """Return the path of a temporary file."""
        self.count += 1
        return self.folder / f"{stem}-{self.count}{suffix}"

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, unless this is a dry run.

        Raises:
            CompileError: the file cannot be written.
        """
        self.show(f"write {path}")
        if not self.dry_run:
            try:
                path.write_bytes(content)
            except OSError as err:
                raise CompileError(f"{path}: {err.strerror}") from err

    def read(self, path: Path) -> bytes:
        """Return a file's content; in a dry run nothing, as no step has written it."""
        return b"" if self.dry_run else path.read_bytes()


def _word(argument: str | Path) -> str:
    # Tools take a name with one of these characters for a response file or an option.
    return (
        f"./{argument}"
        if isinstance(argument, Path) and str(argument).startswith(("@", "-"))
        else str(argument)
    )
