"""Work at the first kernel of a process that PyTorch's compiler repeats in each process."""

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

_PARTS: Final = ("compiler/", "backends/", "language/", "runtime/cache.py", "_C/libtriton")
_CODE: Final = (".py", ".so")


class LateTemplate:
    """A template of Jinja that is compiled when it is rendered; most never are."""

    def __init__(self, make: Callable[[str], Any], source: str) -> None:
        self._make, self._source = make, source
        self._made: Any = None

    def render(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the text."""
        if self._made is None:
            self._made = self._make(self._source)
        return self._made.render(*arguments, **keywords)


def use_key_of_wheel() -> None:
    """Let Triton know its own code by the record of its wheel, if it is as installed."""
    from triton.runtime import cache

    compute = cache.triton_key

    @functools.cache
    def key() -> str:
        return package_key("triton", Path(cache.__file__).parent.parent) or compute()

    cache.triton_key = key


@functools.cache
def compile_templates_late() -> None:
    """Let Inductor compile the templates of its products and attention when it uses one.

    This must precede the import of Inductor's lowerings, which make the templates.
    """
    from torch._inductor.codegen.common import KernelTemplate

    make = KernelTemplate._template_from_string

    def make_late(source: str) -> Any:
        return LateTemplate(make, source)

    KernelTemplate._template_from_string = staticmethod(make_late)


def package_key(name: str, package: Path) -> str | None:
    """Return a key of a package's code that is equal for equal wheels; None if it was edited.

    Triton's own key is a hash of all its code, of which 500 MB are one library. The wheel's record
    has the files' hashes. The record is younger than the files unless one was changed later.
    """
    try:
        installed = importlib.metadata.distribution(name)
        record = Path(str(installed.locate_file(f"{name}-{installed.version}.dist-info/RECORD")))
        text = record.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if is_code(line.partition(",")[0], name)]
        written = record.stat().st_mtime_ns
        root = package.parent
        if (
            record.parent.parent != root
            or not lines
            or not all(_is_as_recorded(root, line, written) for line in lines)
        ):
            return None
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        return None
    present_files = {str(path.relative_to(root)) for path in _code_below(package)}
    if present_files != {line.partition(",")[0] for line in lines}:
        return None
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return f"{installed.version}-wheel-{digest}"


def is_code(path: str, name: str) -> bool:
    """Return whether a file of a wheel is part of what the package's compiler does."""
    inside = path.removeprefix(f"{name}/")
    return inside != path and inside.startswith(_PARTS) and inside.endswith(_CODE)


def _code_below(package: Path) -> Iterable[Path]:
    return (
        path
        for part in ("compiler", "backends", "language", "runtime", "_C")
        for path in (package / part).rglob("*")
        if is_code(str(path.relative_to(package.parent)), package.name)
    )


def _is_as_recorded(root: Path, line: str, written: int) -> bool:
    path, digest, size = line.rsplit(",", 2)
    status = (root / path).stat()
    return bool(digest) and status.st_size == int(size) and status.st_mtime_ns <= written
