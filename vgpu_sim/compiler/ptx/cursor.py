"""A position among tokens, with the operations that a recursive-descent parser needs."""

from collections.abc import Iterator

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx.lexer import Kind, Token

_MAX_SHOWN_CHARACTERS = 40


class Cursor:
    """A reader of tokens in order. ``current`` is the next token; it is never past the END
    token.
    """

    __slots__ = ("_following", "_take", "current", "depth", "errors", "version")

    def __init__(self, tokens: Iterator[Token]) -> None:
        self._take = tokens.__next__
        self._following: Token | None = None  # the token after the current one, if peeked at
        self.current = self._take()
        # State that all parsers share.
        self.depth = 0  # depth of nested expressions
        self.version = (0, 0)  # version of the file, once its first line has been read
        self.errors: list[PtxSyntaxError] = []  # errors in statements that were skipped

    def peek(self) -> Token:
        """Return the token after the current one (END if there is none)."""
        if self._following is None:
            if self.current.kind is Kind.END:
                return self.current
            self._following = self._take()
        return self._following

    def advance(self) -> Token:
        """Return the current token and advance."""
        token = self.current
        if self._following is not None:
            self.current, self._following = self._following, None
        elif token.kind is not Kind.END:
            self.current = self._take()
        return token

    def at(self, text: str) -> bool:
        """True if the current token is the punctuation or dotted word ``text``."""
        return self.current.text == text and self.current.kind is not Kind.STRING

    def accept(self, text: str) -> bool:
        """Advance past the token ``text`` if it is next; return whether it was."""
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Advance past the token ``text``, which must be next; return it.

        Raises:
            PtxSyntaxError: another token is next.
        """
        if not self.at(text):
            raise self.error(f"expected {text!r}")
        return self.advance()

    def expect_kind(self, kind: Kind, description: str) -> Token:
        """Advance past a token of ``kind``, which must be next; return it.

        ``description`` describes the expected token in the error.
        """
        if self.current.kind is not kind:
            raise self.error(f"expected {description}")
        return self.advance()

    def error(self, message: str, token: Token | None = None) -> PtxSyntaxError:
        """Return an error at ``token`` (by default the current one), including the token's text."""
        at = token or self.current
        excerpt = at.text[:_MAX_SHOWN_CHARACTERS]
        token_text = "the end of the file" if at.kind is Kind.END else repr(excerpt)
        return PtxSyntaxError(at.line, at.column, f"{message}, found {token_text}")
