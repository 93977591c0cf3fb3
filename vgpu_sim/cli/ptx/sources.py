"""Text of the source files that PTX's directive ``.file`` names, read from where the user states.

A path in PTX is not opened: PTX may come from a stranger. Its last part selects one of the files
that the user passes, or a file of that name directly in a folder that the user passes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from vgpu_sim.cli import inputs
from vgpu_sim.records import dataclass


@dataclass(slots=True)
class Sources:
    """Lines of source files by the file's name; ``paths`` are files and folders, first match first.

    Raises:
        UnreadableFile: a file of ``paths`` cannot be read.
    """

    paths: Sequence[Path] = ()
    _lines: dict[str, list[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for path in self.paths:
            if not path.is_dir():
                self._lines.setdefault(path.name, _read(path))

    def line(self, name: str, number: int) -> str:
        """Return line ``number`` (from 1) of the file ``name``; empty if there is none."""
        if name not in self._lines:
            self._lines[name] = next(self._in_folders(name), [])
        lines = self._lines[name]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _in_folders(self, name: str) -> Iterator[list[str]]:
        for path in self.paths:
            if path.is_dir() and (path / name).is_file():
                yield _read(path / name)


def _read(path: Path) -> list[str]:
    return inputs.read(str(path)).decode(errors="replace").split("\n")
