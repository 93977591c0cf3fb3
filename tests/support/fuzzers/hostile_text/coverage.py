"""Branch coverage for libFuzzer, at a fraction of the cost of Atheris' own hooks.

Atheris calls into C++ at each branch, and instruments a whole package if a module of it is
named. Here a branch appends its number to a list; after the run each branch is reported to
libFuzzer once, with the same content: the branch and its count, as a power of two.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

import atheris
from atheris.instrument_bytecode import patch_code

_MOST_HITS = 1 << 20  # of a run; one that never ends must not exhaust memory
_BUCKETS = 8  # those of libFuzzer: once, twice, three times, 4 to 7, ... 128 times or more
_ENDS = (1, 2, 3, 7, 15, 31, 127)
_BUCKET_OF = tuple(sum(count > end for end in _ENDS) for count in range(129))

_reserve = atheris._reserve_counter


class Coverage:
    """The branches of the modules that are imported while they are ``instrumented``."""

    def __init__(self) -> None:
        self._hits: deque[int] = deque(maxlen=_MOST_HITS)
        self._append = self._hits.append
        self._tell: Callable[[int], None] = atheris._trace_branch

    @contextmanager
    def instrument(self, prefixes: Sequence[str], comparisons: bool) -> Iterator[None]:
        """Instrument imported modules whose names begin with one of ``prefixes``.

        With ``comparisons`` libFuzzer also receives the operands of comparisons, which costs
        more than the branches.
        """
        atheris._reserve_counter = _reserve_buckets
        finder = _Finder(tuple(prefixes), comparisons)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)

    def begin(self) -> None:
        """Start recording branches for the next input.

        Atheris installs its hook only when the first input has already been read.
        """
        if atheris._trace_branch != self._append:
            self._tell, atheris._trace_branch = atheris._trace_branch, self._append
        self._hits.clear()

    def tell(self) -> None:
        """Report the branches that the input took to libFuzzer."""
        for branch, count in Counter(self._hits).items():
            self._tell(branch + _BUCKET_OF[min(count, 128)])


def _reserve_buckets() -> int:
    """Return the first counter of a new branch, which has one for each range of counts."""
    first, *_ = (_reserve() for _ in range(_BUCKETS))
    return int(first)


class _Finder(MetaPathFinder):
    def __init__(self, prefixes: tuple[str, ...], comparisons: bool) -> None:
        self._prefixes = prefixes
        self._comparisons = comparisons

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in self._prefixes):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self._comparisons)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, comparisons: bool) -> None:
        super().__init__(name, path)
        self._comparisons = comparisons

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return None if code is None else patch_code(code, self._comparisons)
