"""Which branches a run takes, for libFuzzer, at a fraction of what Atheris' own hooks cost.

Atheris calls into C++ at each branch, and instruments all of a package where a module of it is
named. Here a branch appends its number to a list; when the run is over libFuzzer hears of each
branch once. What it hears is the same: the branch and how often it was taken, in powers of two.
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

_MOST_HITS = 1 << 20  # of a run; one that takes for ever shall not fill the memory
_BUCKETS = 8  # libFuzzer's: once, twice, three times, 4 to 7, ... 128 times or more
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
    def instrumented(self, prefixes: Sequence[str], comparisons: bool) -> Iterator[None]:
        """Instrument what is imported and begins with one of ``prefixes``.

        With ``comparisons`` libFuzzer hears of what is compared, too, which costs more than the
        branches do.
        """
        atheris._reserve_counter = _reserve_buckets
        finder = _Finder(tuple(prefixes), comparisons)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)

    def begin(self) -> None:
        """Listen to the branches of the input that is about to be run.

        Atheris puts its hook where the branches find it when the first input is there already.
        """
        if atheris._trace_branch != self._append:
            self._tell, atheris._trace_branch = atheris._trace_branch, self._append
        self._hits.clear()

    def tell(self) -> None:
        """Tell libFuzzer which branches the input took."""
        for branch, count in Counter(self._hits).items():
            self._tell(branch + _BUCKET_OF[min(count, 128)])


def _reserve_buckets() -> int:
    """Return the first of the counters of a branch: one for each number of times."""
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
