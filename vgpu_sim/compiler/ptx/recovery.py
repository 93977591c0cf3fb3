"""Error recovery of the parser: after an error it continues, so that one run finds all errors.

It continues after the statement with the error. A statement ends at its semicolon. If that is
missing, the next statement begins on a later line. The result is only reported: a file with an
error has no syntax tree.
"""

from vgpu_sim.compiler.errors import Diagnostic, PtxSyntaxError
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.lexer import Kind, Token

MAX_ERRORS = 1000
_BEHIND_OPERANDS = frozenset({",", ";"})
_MODULE_WORDS = frozenset(
    {
        ".visible",
        ".extern",
        ".weak",
        ".common",
        ".entry",
        ".func",
        ".global",
        ".const",
        ".file",
        ".section",
        ".alias",
        ".pragma",
    }
)


def skip_statement(cursor: Cursor, start: Token, error: PtxSyntaxError) -> None:
    """Record an error in the statement that began at ``start``, and continue after the statement.

    Raises:
        PtxSyntaxError: the file ends, or there are too many errors.
    """
    _record(cursor, error)
    if _may_begin(cursor.current) and cursor.current.line > start.line:
        return  # the semicolon is missing
    depth = 0
    while cursor.current.kind is not Kind.END:
        if cursor.at("{"):
            depth += 1
        elif cursor.at("}"):
            # The brace closes a vector operand, or the body, which the caller must handle.
            if depth == 0 and cursor.peek().text not in _BEHIND_OPERANDS:
                return
            depth = max(0, depth - 1)
        elif cursor.at(";") and depth == 0:
            cursor.advance()
            return
        cursor.advance()
    raise error


def skip_item(cursor: Cursor, start: Token, error: PtxSyntaxError) -> None:
    """Record an error that is not in a function's body. Continue after the declaration or function
    that contains the error.

    Raises:
        PtxSyntaxError: as ``skip_statement``.
    """
    _record(cursor, error)
    depth = 0
    while cursor.current.kind is not Kind.END:
        if depth == 0 and cursor.current is not start and _begins_item(cursor.current, start):
            return
        if cursor.at("{"):
            depth += 1
        elif cursor.at("}"):
            depth -= 1
        ends = cursor.at(";") if depth == 0 else False
        ends |= cursor.at("}") and depth <= 0
        cursor.advance()
        if ends:
            return


def combine_errors(cursor: Cursor, last: PtxSyntaxError | None = None) -> PtxSyntaxError:
    """Return all recorded errors as one error, which has the place of the first one.

    ``last`` is the error that ended parsing, if there was one.
    """
    errors = list(cursor.errors)
    if last is not None and last not in errors:
        errors.append(last)
    first, *later_errors = errors
    later_diagnostics = tuple(
        Diagnostic(error.line, error.column, error.message) for error in later_errors
    )
    return PtxSyntaxError(first.line, first.column, first.message, others=later_diagnostics)


def _record(cursor: Cursor, error: PtxSyntaxError) -> None:
    if len(cursor.errors) > MAX_ERRORS:
        raise error
    if not cursor.errors or error is not cursor.errors[-1]:
        cursor.errors.append(error)
    if len(cursor.errors) == MAX_ERRORS:
        message = "too many errors: the rest is not read"
        cursor.errors.append(PtxSyntaxError(error.line, error.column, message))
        raise error


def _may_begin(token: Token) -> bool:
    return token.kind in (Kind.NAME, Kind.DOTTED) or token.text in ("@", "}", "{")


def _begins_item(token: Token, start: Token) -> bool:
    return token.kind is Kind.DOTTED and token.text in _MODULE_WORDS and token.line > start.line
