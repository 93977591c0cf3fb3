"""Links several PTX files into one module, as cuLink... and nvlink do (PTX ISA, "Linking
Directives").

Files are linked as trees, before lowering. A name without linkage is local to its file;
``.visible`` definitions exist once; a ``.weak`` one yields to them, a ``.common`` one to both.
Declarations (``.extern``, functions without a body) refer to definitions in another file.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from vgpu_sim.compiler import adapters, pipeline, system_calls
from vgpu_sim.compiler.errors import Diagnostic, LinkError, PtxError
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.lower.symbols.findings import Refusal
from vgpu_sim.compiler.lower.symbols.shared_memory import is_shared, size_and_alignment
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.ptx import limits, parse, tree
from vgpu_sim.compiler.ptx.parser import Place
from vgpu_sim.isa import Module, Refused
from vgpu_sim.records import dataclass

MAX_INPUTS = 64
_MARK = "// linked: "
_FIRST_OF_ALL = [stage.name for stage in pipeline.STAGES].index("lower")
_OF_ONE_FILE = pipeline.STAGES[:_FIRST_OF_ALL]
_OF_ALL_FILES = pipeline.STAGES[_FIRST_OF_ALL:]
_STRENGTH = {tree.Linkage.COMMON: 0, tree.Linkage.WEAK: 1}
_STRONG = 2

_Definition = tree.Function | tree.Variable
_Node = TypeVar("_Node", tree.Function, tree.Variable, tree.Alias)


@dataclass(frozen=True, slots=True)
class Input:
    """A PTX file; messages call it ``name``."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    first_line: int  # line in the text of all files, from 0
    syntax: tree.Module


def split_files(name: str, source: str) -> list[Input]:
    """Return the files that a module's source contains: one, or several if they were linked."""
    if not source.startswith(_MARK):
        return [Input(name, source)]
    pieces = re.split(f"^{_MARK}(.*)\n", source, flags=re.MULTILINE)[1:]
    return [Input(*pair) for pair in zip(pieces[::2], pieces[1::2], strict=True)]


def check(file: Input, capability: tuple[int, int]) -> None:
    """Check everything about a file that does not depend on the other files.

    Raises:
        PtxError: as ``compile_ptx``.
    """
    pipeline.run(pipeline.Compilation(file.source, capability, file.name), _OF_ONE_FILE)


def link(inputs: Sequence[Input], capability: tuple[int, int]) -> Module:
    """Link and compile PTX files, as with ``compile_ptx(partial=True)``.

    Raises:
        LinkError: a name is undefined, or defined more than once.
        PtxError: as ``compile_ptx``; the diagnostics name their file.
    """
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise LinkError([Diagnostic(0, 0, f"1 to {MAX_INPUTS} inputs can be linked")])
    files, pieces, place = [], [], Place(1, 0)
    for file in inputs:
        check(file, capability)
        heading = f"{_MARK}{' '.join(file.name.split())}\n"
        text = file.source if file.source.endswith("\n") else file.source + "\n"
        place = Place(place.line + 1, place.offset + len(heading))
        if place.offset + len(text) > limits.MAX_SOURCE_CHARACTERS:
            limit = f"more than {limits.MAX_SOURCE_CHARACTERS} characters in all"
            raise LinkError([Diagnostic(0, 0, f"error : {limit}")], "<linked>")
        files.append(_File(file.name, place.line - 1, parse(text, place)))
        place = Place(place.line + text.count("\n"), place.offset + len(text))
        pieces += [heading, text]
    source = "".join(pieces)
    merged = _Linker(files).merge()
    start = pipeline.Compilation(source, capability, "<linked>", syntax=merged)
    try:
        module = pipeline.run(start, _OF_ALL_FILES).module
    except PtxError as error:
        diagnostics = [_locate(diagnostic, files) for diagnostic in error.diagnostics]
        raise type(error)(diagnostics, "<linked>") from error
    assert module is not None
    return replace(
        module, refused=tuple(_located_refusal(refusal, files) for refusal in module.refused)
    )


def _locate(diagnostic: Diagnostic, files: Sequence[_File]) -> Diagnostic:
    file = next((file for file in reversed(files) if file.first_line < diagnostic.line), files[0])
    where = f"{file.name}, line {diagnostic.line - file.first_line}"
    return replace(diagnostic, message=f"{diagnostic.message} ({where})")


def _located_refusal(refused: Refused, files: Sequence[_File]) -> Refused:
    return replace(refused, reasons=tuple(_locate(reason, files) for reason in refused.reasons))


class _Linker:
    """Resolves the names of several files."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._files = files
        self._errors: list[Diagnostic] = []
        self._defined: dict[str, tuple[_File, _Definition]] = {}
        self._own: dict[str, dict[str, _Definition]] = {}  # by file: names without linkage

    def merge(self) -> tree.Module:
        """Return one syntax tree with the contents of all files.

        Raises:
            LinkError: see ``link``.
        """
        for index, file in enumerate(self._files):
            self._define(index, file)
        renamed = [self._renames(index, file) for index, file in enumerate(self._files)]
        functions: list[tree.Function] = []
        variables: list[tree.Variable] = []
        aliases: list[tree.Alias] = []
        undefined = self._find_undefined_shared()
        declared_names: set[str] = set()
        for index, file in enumerate(self._files):
            for definition in self._definitions_of(index, file, undefined, declared_names):
                if isinstance(definition, tree.Function):
                    functions.append(_rename(definition, renamed[index]))
                else:
                    variables.append(_rename(definition, renamed[index]))
            aliases += [_rename(alias, renamed[index]) for alias in file.syntax.aliases]
            functions += self._adapters(index, file)
        if self._errors:
            raise LinkError(self._errors, "<linked>")
        trees = [file.syntax for file in self._files]
        return tree.Module(
            version=max(syntax.version for syntax in trees),
            targets=tuple(syntax.targets[0] for syntax in trees),
            address_size=next((o.address_size for o in trees if o.address_size != 64), 64),
            functions=tuple(functions),
            variables=tuple(variables),
            aliases=tuple(aliases),
            files=tuple(listed_file for each in trees for listed_file in each.files),
            sections=tuple(section for each in trees for section in each.sections),
            pragmas=tuple(pragma for each in trees for pragma in each.pragmas),
        )

    def _define(self, index: int, file: _File) -> None:
        own = self._own.setdefault(str(index), {})
        for definition in _definitions(file.syntax):
            if _is_own(definition):
                if definition.name in own:
                    self._error(f"Multiple definition of '{definition.name}' in '{file.name}'")
                own[definition.name] = definition
                continue
            earlier_definition = self._defined.get(definition.name)
            if earlier_definition is None or _strength(definition) > _strength(
                earlier_definition[1]
            ):
                self._defined[definition.name] = file, definition
            elif _strength(definition) == _strength(earlier_definition[1]) == _STRONG:
                message = f"Multiple definition of '{definition.name}' in '{file.name}'"
                self._error(f"{message}, first defined in '{earlier_definition[0].name}'")

    def _renames(self, index: int, file: _File) -> dict[str, str]:
        """Return new names for a file's local definitions whose names other files use too."""
        used_names = set(self._defined)
        for file_key, own in self._own.items():
            if file_key != str(index):
                used_names |= own.keys()
        new = {name: f"{name}.{index}" for name in self._own[str(index)] if name in used_names}
        for function in self._adapted(index, file):
            new[function.name] = _adapter_name(function.name, index)
        return new

    def _adapted(self, index: int, file: _File) -> Iterator[tree.Function]:
        """Yield the functions that a file declares with a result and another file defines without
        one, or the reverse. Linkers of other vendors do not compare results, and a caller that
        does not use the result is right.
        """
        used = _find_used(file.syntax)
        for function in file.syntax.functions:
            located_definition = self._defined.get(function.name)
            definition = located_definition[1] if located_definition is not None else None
            if (
                _declares(function)
                and function.name in used
                and function.name not in self._own[str(index)]
                and isinstance(definition, tree.Function)
                and len(definition.returns) != len(function.returns)
                and _kind(definition) == _kind(function)
            ):
                yield function

    def _adapters(self, index: int, file: _File) -> list[tree.Function]:
        """Return functions with the results that a file declares, which call the real ones."""
        adapter_of = {}
        for function in self._adapted(index, file):
            definition = self._defined[function.name][1]
            assert isinstance(definition, tree.Function)
            adapter_of[function.name] = adapters.adapt(
                function, definition, _adapter_name(function.name, index)
            )
        return list(adapter_of.values())

    def _find_undefined_shared(self) -> dict[str, tree.Variable]:
        """Return the shared variables that files declare and use, and none defines, by name.

        All declarations of a name are one variable, with the greatest of their alignments.
        """
        first_declarations: dict[str, tuple[_File, tree.Variable]] = {}
        for index, file in enumerate(self._files):
            declared = [
                variable
                for variable in file.syntax.variables
                if is_shared(variable) and _declares(variable)
            ]
            used = _find_used(file.syntax) if declared else set()
            for variable in declared:
                if (
                    variable.name not in used
                    or variable.name in self._defined | self._own[str(index)]
                ):
                    continue
                where, first = first_declarations.setdefault(variable.name, (file, variable))
                (size, align), (other_size, other_align) = _measure(first), _measure(variable)
                if size != other_size:
                    self._error(_other_type(file, variable, where))
                first_declarations[variable.name] = (
                    where,
                    replace(first, align=max(align, other_align)),
                )
        return {name: first for name, (_, first) in first_declarations.items()}

    def _definitions_of(
        self, index: int, file: _File, undefined: dict[str, tree.Variable], declared_names: set[str]
    ) -> Iterator[_Definition]:
        """Yield the definitions that a file contributes to the module, and undefined
        declarations.
        """
        own = self._own[str(index)]
        used = _find_used(file.syntax)
        everything: tuple[_Definition, ...] = (*file.syntax.variables, *file.syntax.functions)
        for definition in everything:
            located_definition = self._defined.get(definition.name)
            if own.get(definition.name) is definition or (
                located_definition is not None and located_definition[1] is definition
            ):
                yield definition
            elif _declares(definition) and definition.name not in own:
                if located_definition is not None:
                    self._compare(file, definition, *located_definition)
                elif definition.name not in used or definition.name in declared_names:
                    continue
                elif definition.name in undefined:
                    declared_names.add(definition.name)
                    yield undefined[definition.name]
                elif definition.name in system_calls.NAMES:
                    declared_names.add(definition.name)
                    yield definition
                else:
                    self._error(f"Undefined reference to '{definition.name}' in '{file.name}'")

    def _compare(
        self, file: _File, declared: _Definition, where: _File, definition: _Definition
    ) -> None:
        if type(declared) is not type(definition) or _kind(declared) != _kind(definition):
            self._error(_other_type(file, definition, where))

    def _error(self, message: str) -> None:
        self._errors.append(Diagnostic(0, 0, f"error : {message}"))


def _definitions(module: tree.Module) -> Iterator[_Definition]:
    yield from (definition for definition in module.variables if not _declares(definition))
    yield from (definition for definition in module.functions if not _declares(definition))


def _declares(definition: _Definition) -> bool:
    if isinstance(definition, tree.Function):
        return definition.body is None
    return definition.linkage is tree.Linkage.EXTERN


def _is_own(definition: _Definition) -> bool:
    """True if a definition is local to its file; kernels never are: programs look them up by
    name.
    """
    is_kernel = isinstance(definition, tree.Function) and definition.is_entry
    return definition.linkage is tree.Linkage.NONE and not is_kernel


def _measure(variable: tree.Variable) -> tuple[int | None, int]:
    """Return size and alignment of a shared variable; nothing if lowering will refuse it."""
    try:
        return size_and_alignment(variable)
    except Refusal:
        return None, variable.align or 1


def _other_type(file: _File, definition: _Definition, where: _File) -> str:
    message = f"'{definition.name}' is declared with another type in '{file.name}'"
    return f"{message} than in '{where.name}'"


def _strength(definition: _Definition) -> int:
    return _STRENGTH.get(definition.linkage, _STRONG)


def _kind(definition: _Definition) -> tuple[object, ...]:
    """Return the properties that all declarations of a name must share."""
    if isinstance(definition, tree.Function):
        return (definition.is_entry, len(definition.parameters))
    type_ = DATA_TYPES.get(definition.type[1:])
    return (
        definition.space,
        type_.bytes if type_ is not None else definition.type,
        definition.vector,
    )


def _adapter_name(name: str, index: int) -> str:
    return f"{name}.{index}.adapter"


def _find_used(module: tree.Module) -> set[str]:
    used_names: set[str] = set()
    for function in module.functions:
        if function.body is not None:
            used_names |= names.find_used(function.body)
    for variable in module.variables:
        if variable.initial is not None:
            used_names |= names.in_value(variable.initial)
    return used_names | {alias.aliasee for alias in module.aliases}


def _rename(node: _Node, new: dict[str, str]) -> _Node:
    """Rename a definition and its references, except where inner scopes hide the names."""
    if not new:
        return node
    if isinstance(node, tree.Function):
        if node.body is None:
            return replace(node, name=new.get(node.name, node.name))
        hidden = names.find_declared(node.body) | {
            p.name for p in (*node.parameters, *node.returns)
        }
        new_inside = {old: name for old, name in new.items() if old not in hidden}
        node = replace(node, body=_rewrite(node.body, new_inside))
    elif isinstance(node, tree.Variable):
        node = replace(node, initial=_rewrite(node.initial, new))
    elif isinstance(node, tree.Alias):
        node = replace(node, aliasee=new.get(node.aliasee, node.aliasee))
    return replace(node, name=new.get(node.name, node.name))


def _rewrite(node: Any, new: dict[str, str]) -> Any:
    """Rename within a part of a tree; a part without these names is returned as the same object."""
    if isinstance(node, tree.Name):
        return replace(node, text=new[node.text]) if node.text in new else node
    if isinstance(node, tree.BranchTargets):
        return replace(node, names=tuple(new.get(name, name) for name in node.names))
    if isinstance(node, tuple):
        parts_ = tuple(_rewrite(part, new) for part in node)
        return node if _same(parts_, node) else parts_
    if is_dataclass(node) and not isinstance(node, type):
        changed = {}
        for part in fields(node):
            old = getattr(node, part.name)
            rewritten = _rewrite(old, new)
            if rewritten is not old:
                changed[part.name] = rewritten
        return replace(node, **changed) if changed else node
    return node


def _same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))
