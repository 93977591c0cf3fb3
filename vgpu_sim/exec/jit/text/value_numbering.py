"""Value numbering of the text, so that no expression is written twice.

Lane groups that are one above the other in a block have the same addresses, and a masked region
reads what was read before it. This is done here because LLVM's own pass, as far as llvmlite
exposes one, fails an assertion on valid code (NewGVN, LLVM 22.1), which aborts the process.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_WITHOUT_EFFECT = ("llvm.", "directed.")
_WRITES = ("store ", "call ", "fence ")


class AvailableExpressions:
    """The names of LLVM values whose definitions dominate the current position, by expression.

    A block with predecessors other than the preceding text must begin with ``forget``.
    """

    def __init__(self) -> None:
        self._lasting: dict[str, str] = {}
        self._scopes: list[dict[str, str]] = [{}]
        self._epoch = self._last = 0  # between two writes; the last one that has been used

    def find(self, expression: str, *, lasting: bool = False) -> str | None:
        """Return the name that holds the value of ``expression`` here, or None.

        ``lasting`` states that the current position is the prologue, which precedes all other text.
        """
        key = self._key(expression)
        if key is None:
            return None
        for scope in () if lasting else reversed(self._scopes):
            if key in scope:
                return scope[key]
        return self._lasting.get(key)

    def add(self, expression: str, name: str, *, lasting: bool = False) -> None:
        """Record ``name`` as the value of ``expression``.

        ``lasting`` states that ``name`` is defined in the prologue, which dominates all other text.
        """
        key = self._key(expression)
        if key is None:
            self.invalidate_loads()
        elif lasting:
            self._lasting[key] = name
        else:
            self._scopes[-1][key] = name

    def record_statement(self, statement: str) -> None:
        """Record an instruction that has no result. The instruction may write memory."""
        if statement.startswith(_WRITES):
            self.invalidate_loads()

    def invalidate_loads(self) -> None:
        """Invalidate loads: memory may have changed, or may change in a loop."""
        self._last += 1
        self._epoch = self._last

    @contextmanager
    def keep_loads(self) -> Iterator[None]:
        """Within the ``with`` block, writes do not invalidate loads, which read other memory."""
        outer_epoch = self._epoch
        try:
            yield
        finally:
            self._epoch = outer_epoch

    def forget(self) -> None:
        """Forget all expressions except the lasting ones. This is necessary before code that has
        predecessors other than the preceding text.
        """
        self._scopes = [{} for _ in self._scopes]  # the open scopes remain open

    @contextmanager
    def open_scope(self) -> Iterator[None]:
        """Open a scope for code that may be branched around.

        Expressions that are recorded within it are forgotten at its end.
        """
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def _key(self, expression: str) -> str | None:
        """Return the key of an expression; None if its value differs each time."""
        if expression.startswith("load "):
            lasts = expression.endswith("!invariant.load !0")
            return expression if lasts else f"{self._epoch}:{expression}"
        if not expression.startswith("call "):
            return expression
        callee = expression.partition("@")[2]
        if callee.startswith("llvm.masked."):
            return f"{self._epoch}:{expression}"
        return expression if callee.startswith(_WITHOUT_EFFECT) else None
