"""What a function has computed already, so that no expression is written twice.

Value numbering on the text: lane groups that lie above each other in a block have the same
addresses, and a masked region reads what was read before it. It is done here because LLVM's own
pass for it, as far as llvmlite offers one, fails an assertion on valid code (NewGVN, LLVM 22.1),
and that ends the process.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_WITHOUT_EFFECT = ("llvm.", "directed.")
_WRITES = ("store ", "call ", "fence ")


class Known:
    """Names of expressions, as far as they dominate the present place.

    Whoever begins a block that is not reached from the text before it alone says so (``forget``).
    """

    def __init__(self) -> None:
        self._lasting: dict[str, str] = {}
        self._scopes: list[dict[str, str]] = [{}]
        self._writes = 0

    def find(self, expression: str, *, lasting: bool = False) -> str | None:
        """Return the name that holds the value of ``expression`` here, if there is one.

        With ``lasting`` here is the prologue, which no other text comes before.
        """
        key = self._key(expression)
        if key is None:
            return None
        for scope in () if lasting else reversed(self._scopes):
            if key in scope:
                return scope[key]
        return self._lasting.get(key)

    def add(self, expression: str, name: str, *, lasting: bool = False) -> None:
        """Remember ``name``, everywhere if it is ``lasting`` (if it stands in the prologue)."""
        key = self._key(expression)
        if key is None:
            self.written()
        elif lasting:
            self._lasting[key] = name
        else:
            self._scopes[-1][key] = name

    def done(self, statement: str) -> None:
        """Take note of an instruction without a result, which may write memory."""
        if statement.startswith(_WRITES):
            self.written()

    def written(self) -> None:
        """Forget what was read from memory: it may have changed, or may change in a loop."""
        self._writes += 1

    def forget(self) -> None:
        """Forget all that does not last: what follows may be reached from elsewhere."""
        self._scopes = [{} for _ in self._scopes]  # those that are open stay open

    @contextmanager
    def within(self) -> Iterator[None]:
        """Forget afterwards what is computed meanwhile: it may have been branched around."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def _key(self, expression: str) -> str | None:
        """Return under what a value is remembered; None if it is another one each time."""
        if expression.startswith("load "):
            lasts = expression.endswith("!invariant.load !0")
            return expression if lasts else f"{self._writes}:{expression}"
        if not expression.startswith("call "):
            return expression
        callee = expression.partition("@")[2]
        if callee.startswith("llvm.masked."):
            return f"{self._writes}:{expression}"
        return expression if callee.startswith(_WITHOUT_EFFECT) else None
