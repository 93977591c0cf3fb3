"""Parses a PTX file to its syntax tree (PTX ISA, "PTX Module Directives", "Linking Directives")."""

from collections.abc import Sequence
from dataclasses import field

from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.cursor import Cursor
from vgpu_sim.compiler.ptx.debugging import (
    parse_file,
    parse_intermediate_source,
    parse_location,
    parse_section,
)
from vgpu_sim.compiler.ptx.declarations import (
    LINKAGES,
    SPACES,
    parse_attributes,
    parse_parameters,
    parse_plain_integer,
    parse_variables,
)
from vgpu_sim.compiler.ptx.functions import parse_directives
from vgpu_sim.compiler.ptx.lexer import START, Kind, Place, tokenize
from vgpu_sim.compiler.ptx.recovery import combine_errors, skip_item
from vgpu_sim.compiler.ptx.statements import parse_body, parse_pragma
from vgpu_sim.records import dataclass

_ADDRESS_SIZES = (32, 64)


@dataclass(slots=True)
class _Contents:
    """The parts of a file that were parsed so far."""

    targets: list[tree.Target] = field(default_factory=list)
    address_size: int | None = None
    functions: list[tree.Function] = field(default_factory=list)
    variables: list[tree.Variable] = field(default_factory=list)
    aliases: list[tree.Alias] = field(default_factory=list)
    files: list[tree.File] = field(default_factory=list)
    sections: list[tree.Section] = field(default_factory=list)
    pragmas: list[tree.Pragma] = field(default_factory=list)


def decode(source: str | bytes) -> str:
    """Return PTX text without the NULs at its end, which C strings have.

    Bytes that are not UTF-8 are replaced. Replaced characters are harmless in comments and
    strings, and refused elsewhere.
    """
    data = source.encode("utf-8", errors="replace") if isinstance(source, str) else source
    return data.decode("utf-8", errors="replace").rstrip("\0")


def parse(source: str | bytes, place: Place = START) -> tree.Module:
    """Parse a PTX file. ``place`` is where the file begins in a text of several files.

    Raises:
        PtxSyntaxError: some statements are not PTX. The error lists each of them, and has the
            position of the first. No other exception is raised, whatever the input.
    """
    parser = FileParser()
    parser.parse(decode(source), place)
    return parser.module()


class FileParser:
    """Parses the parts of a PTX file, in order; each part consists of whole statements.

    ``functions`` are those parsed so far.
    """

    def __init__(self) -> None:
        self._contents = _Contents()
        self._cursor: Cursor | None = None

    @property
    def functions(self) -> Sequence[tree.Function]:
        return self._contents.functions

    def parse(self, source: str, place: Place) -> None:
        """Parse the next part, whose place in the file is ``place``.

        Raises:
            PtxSyntaxError: as the function ``parse``.
        """
        cursor = Cursor(tokenize(source, place))
        cursor.version = _parse_version(cursor) if self._cursor is None else self._cursor.version
        self._cursor = cursor
        _parse_all_items(cursor, self._contents)

    def module(self) -> tree.Module:
        """Return the file's syntax tree, after the last part.

        Raises:
            PtxSyntaxError: the file has no ``.target``.
        """
        contents, cursor = self._contents, self._cursor
        if cursor is None or not contents.targets:
            raise (cursor or Cursor(tokenize(""))).error("expected a '.target' directive")
        return tree.Module(
            version=cursor.version,
            targets=tuple(contents.targets),
            address_size=contents.address_size,
            functions=tuple(contents.functions),
            variables=tuple(contents.variables),
            aliases=tuple(contents.aliases),
            files=tuple(contents.files),
            sections=tuple(contents.sections),
            pragmas=tuple(contents.pragmas),
        )


def parse_function(source: str, place: Place, version: tuple[int, int]) -> tree.Function:
    """Parse one function or kernel, which is a part of a file of this PTX version.

    Raises:
        PtxSyntaxError: as ``parse``; also if the part is anything else.
    """
    cursor = Cursor(tokenize(source, place))
    cursor.version = version
    contents = _Contents(targets=[tree.Target(place.line, 1, ())])
    _parse_all_items(cursor, contents)
    items = [*contents.functions, *contents.variables]
    if len(items) != 1 or not isinstance(items[0], tree.Function):
        raise PtxSyntaxError(place.line, 1, "expected one function")
    return items[0]


def _parse_all_items(cursor: Cursor, contents: _Contents) -> None:
    try:
        _parse_items(cursor, contents)
    except StopIteration:  # after a lexical error no further errors are found
        pass
    except PtxSyntaxError as error:
        raise combine_errors(cursor, error) from error
    if cursor.errors:
        raise combine_errors(cursor)


def _parse_items(cursor: Cursor, contents: _Contents) -> None:
    while cursor.current.kind is not Kind.END:
        start = cursor.current
        try:
            _parse_item(cursor, contents)
        except PtxSyntaxError as error:
            skip_item(cursor, start, error)


def _parse_version(cursor: Cursor) -> tuple[int, int]:
    if not cursor.at(".version"):
        raise cursor.error("a PTX file must begin with '.version'")
    cursor.advance()
    token = cursor.expect_kind(Kind.FLOAT, "a version such as 9.0")
    major, _, minor = token.text.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise cursor.error("expected a version such as 9.0", token)
    return int(major), int(minor)


def _parse_item(cursor: Cursor, contents: _Contents) -> None:
    word = cursor.current.text if cursor.current.kind is Kind.DOTTED else ""
    match word:
        case ".target":
            contents.targets.append(_parse_target(cursor))
        case ".address_size":
            contents.address_size = _parse_address_size(cursor)
        case ".file":
            contents.files.append(parse_file(cursor))
        case ".section":
            contents.sections.append(parse_section(cursor))
        case ".nv_intermediate_source_section":
            contents.sections.append(parse_intermediate_source(cursor))
        case ".pragma":
            contents.pragmas.append(parse_pragma(cursor))
        case ".alias":
            contents.aliases.append(_parse_alias(cursor))
        case ".loc":
            parse_location(cursor)
        case _ if cursor.accept(";"):
            pass
        case _:
            _parse_definition(cursor, contents)


def _parse_definition(cursor: Cursor, contents: _Contents) -> None:
    start = cursor.current
    linkage = tree.Linkage.NONE
    if start.text in LINKAGES and start.kind is Kind.DOTTED:
        linkage = LINKAGES[cursor.advance().text]
    if not contents.targets:
        raise cursor.error("expected a '.target' directive before this statement", start)
    if cursor.at(".entry") or cursor.at(".func"):
        contents.functions.append(_parse_function(cursor, linkage))
    elif cursor.current.kind is Kind.DOTTED and cursor.current.text in SPACES:
        contents.variables.extend(parse_variables(cursor, linkage))
    else:
        raise cursor.error("expected a declaration or a directive")


def _parse_target(cursor: Cursor) -> tree.Target:
    start = cursor.expect(".target")
    options = [cursor.expect_kind(Kind.NAME, "a target such as sm_90").text]
    while cursor.accept(","):
        options.append(cursor.expect_kind(Kind.NAME, "a target option").text)
    return tree.Target(start.line, start.column, tuple(options))


def _parse_address_size(cursor: Cursor) -> int:
    cursor.expect(".address_size")
    token = cursor.expect_kind(Kind.INTEGER, "32 or 64")
    size = parse_plain_integer(cursor, token)
    if size not in _ADDRESS_SIZES:
        raise cursor.error("expected the address size 32 or 64", token)
    return size


def _parse_alias(cursor: Cursor) -> tree.Alias:
    start = cursor.expect(".alias")
    name = cursor.expect_kind(Kind.NAME, "a function name").text
    cursor.expect(",")
    aliasee = cursor.expect_kind(Kind.NAME, "a function name").text
    cursor.expect(";")
    return tree.Alias(start.line, start.column, name, aliasee)


def _parse_function(cursor: Cursor, linkage: tree.Linkage) -> tree.Function:
    is_entry = cursor.advance().text == ".entry"
    attributes = parse_attributes(cursor) if cursor.at(".attribute") else ()
    returns = parse_parameters(cursor) if cursor.at("(") and not is_entry else ()
    name = cursor.expect_kind(Kind.NAME, "a function name")
    parameters = parse_parameters(cursor) if cursor.at("(") else ()
    directives = parse_directives(cursor)
    body = None
    if not cursor.accept(";"):
        if not cursor.at("{"):
            raise cursor.error("expected a function body or ';'")
        body = parse_body(cursor)
    return tree.Function(
        line=name.line,
        column=name.column,
        is_entry=is_entry,
        name=name.text,
        linkage=linkage,
        returns=returns,
        parameters=parameters,
        attributes=attributes,
        directives=directives,
        body=body,
    )


__all__ = ["FileParser", "Place", "PtxSyntaxError", "decode", "parse", "parse_function"]
