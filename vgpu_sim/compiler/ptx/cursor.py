"""A position in a token list, with the few moves that a recursive-descent parser needs."""

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx.lexer import Kind, Token

_MAX_SHOWN_CHARACTERS = 40


class Cursor:
    """Reads tokens in order. ``current`` is the next one; it is never past the END token."""

    __slots__ = ("_index", "_tokens", "current", "depth", "version")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self.current = tokens[0]
        # Kept here because all parsers share them.
        self.depth = 0  # of nested expressions
        self.version = (0, 0)  # of the file, once its first line has been read

    def peek(self, ahead: int = 1) -> Token:
        """Return the token ``ahead`` of the current one (END when there is none)."""
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Return the current token and move on."""
        token = self.current
        if token.kind is not Kind.END:
            self._index += 1
            self.current = self._tokens[self._index]
        return token

    def at(self, text: str) -> bool:
        """Return whether the current token is the punctuation or dotted word ``text``."""
        return self.current.text == text and self.current.kind is not Kind.STRING

    def accept(self, text: str) -> bool:
        """Move past ``text`` if it is next."""
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Move past ``text``.

        Raises:
            PtxSyntaxError: when something else comes.
        """
        if not self.at(text):
            raise self.error(f"expected {text!r}")
        return self.advance()

    def expect_kind(self, kind: Kind, what: str) -> Token:
        """Move past a token of ``kind``; ``what`` says in an error what was expected."""
        if self.current.kind is not kind:
            raise self.error(f"expected {what}")
        return self.advance()

    def error(self, message: str, token: Token | None = None) -> PtxSyntaxError:
        """Return an error at ``token`` (the current one unless given), saying what stands there."""
        at = token or self.current
        shown = at.text[:_MAX_SHOWN_CHARACTERS]
        found = "the end of the file" if at.kind is Kind.END else repr(shown)
        return PtxSyntaxError(at.line, at.column, f"{message}, found {found}")
