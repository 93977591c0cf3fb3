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


def check(one: Input, capability: tuple[int, int]) -> None:
    """Check everything about a file that does not depend on the other files.

    Raises:
        PtxError: as ``compile_ptx``.
    """
    pipeline.run(pipeline.Compilation(one.source, capability, one.name), _OF_ONE_FILE)


def link(inputs: Sequence[Input], capability: tuple[int, int]) -> Module:
    """Link and compile PTX files, as with ``compile_ptx(partial=True)``.

    Raises:
        LinkError: a name is undefined, or defined more than once.
        PtxError: as ``compile_ptx``; the diagnostics name their file.
    """
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise LinkError([Diagnostic(0, 0, f"1 to {MAX_INPUTS} inputs can be linked")])
    files, pieces, place = [], [], Place(1, 0)
    for one in inputs:
        check(one, capability)
        heading = f"{_MARK}{' '.join(one.name.split())}\n"
        text = one.source if one.source.endswith("\n") else one.source + "\n"
        place = Place(place.line + 1, place.offset + len(heading))
        if place.offset + len(text) > limits.MAX_SOURCE_CHARACTERS:
            said = f"more than {limits.MAX_SOURCE_CHARACTERS} characters in all"
            raise LinkError([Diagnostic(0, 0, f"error : {said}")], "<linked>")
        files.append(_File(one.name, place.line - 1, parse(text, place)))
        place = Place(place.line + text.count("\n"), place.offset + len(text))
        pieces += [heading, text]
    source = "".join(pieces)
    merged = _Linker(files).merge()
    start = pipeline.Compilation(source, capability, "<linked>", syntax=merged)
    try:
        module = pipeline.run(start, _OF_ALL_FILES).module
    except PtxError as error:
        found = [_locate(one, files) for one in error.diagnostics]
        raise type(error)(found, "<linked>") from error
    assert module is not None
    return replace(module, refused=tuple(_located_refusal(one, files) for one in module.refused))


def _locate(found: Diagnostic, files: Sequence[_File]) -> Diagnostic:
    file = next((file for file in reversed(files) if file.first_line < found.line), files[0])
    where = f"{file.name}, line {found.line - file.first_line}"
    return replace(found, message=f"{found.message} ({where})")


def _located_refusal(refused: Refused, files: Sequence[_File]) -> Refused:
    return replace(refused, reasons=tuple(_locate(one, files) for one in refused.reasons))


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
        kept: set[str] = set()
        for index, file in enumerate(self._files):
            for definition in self._definitions_of(index, file, undefined, kept):
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
            version=max(one.version for one in trees),
            targets=tuple(one.targets[0] for one in trees),
            address_size=next((o.address_size for o in trees if o.address_size != 64), 64),
            functions=tuple(functions),
            variables=tuple(variables),
            aliases=tuple(aliases),
            files=tuple(one for each in trees for one in each.files),
            sections=tuple(one for each in trees for one in each.sections),
            pragmas=tuple(one for each in trees for one in each.pragmas),
        )

    def _define(self, index: int, file: _File) -> None:
        own = self._own.setdefault(str(index), {})
        for one in _definitions(file.syntax):
            if _is_own(one):
                if one.name in own:
                    self._error(f"Multiple definition of '{one.name}' in '{file.name}'")
                own[one.name] = one
                continue
            before = self._defined.get(one.name)
            if before is None or _strength(one) > _strength(before[1]):
                self._defined[one.name] = file, one
            elif _strength(one) == _strength(before[1]) == _STRONG:
                said = f"Multiple definition of '{one.name}' in '{file.name}'"
                self._error(f"{said}, first defined in '{before[0].name}'")

    def _renames(self, index: int, file: _File) -> dict[str, str]:
        """Return new names for a file's local definitions whose names other files use too."""
        taken = set(self._defined)
        for other, own in self._own.items():
            if other != str(index):
                taken |= own.keys()
        new = {name: f"{name}.{index}" for name in self._own[str(index)] if name in taken}
        for one in self._adapted(index, file):
            new[one.name] = _adapter_name(one.name, index)
        return new

    def _adapted(self, index: int, file: _File) -> Iterator[tree.Function]:
        """Yield the functions that a file declares with a result and another file defines without
        one, or the reverse. Linkers of other vendors do not compare results, and a caller that
        does not use the result is right.
        """
        used = _find_used(file.syntax)
        for one in file.syntax.functions:
            found = self._defined.get(one.name)
            definition = found[1] if found is not None else None
            if (
                _declares(one)
                and one.name in used
                and one.name not in self._own[str(index)]
                and isinstance(definition, tree.Function)
                and len(definition.returns) != len(one.returns)
                and _kind(definition) == _kind(one)
            ):
                yield one

    def _adapters(self, index: int, file: _File) -> list[tree.Function]:
        """Return functions with the results that a file declares, which call the real ones."""
        made = {}
        for one in self._adapted(index, file):
            definition = self._defined[one.name][1]
            assert isinstance(definition, tree.Function)
            made[one.name] = adapters.adapt(one, definition, _adapter_name(one.name, index))
        return list(made.values())

    def _find_undefined_shared(self) -> dict[str, tree.Variable]:
        """Return the shared variables that files declare and use, and none defines, by name.

        All declarations of a name are one variable, with the greatest of their alignments.
        """
        found: dict[str, tuple[_File, tree.Variable]] = {}
        for index, file in enumerate(self._files):
            declared = [one for one in file.syntax.variables if is_shared(one) and _declares(one)]
            used = _find_used(file.syntax) if declared else set()
            for one in declared:
                if one.name not in used or one.name in self._defined | self._own[str(index)]:
                    continue
                where, first = found.setdefault(one.name, (file, one))
                (size, align), (other, others) = _measure(first), _measure(one)
                if size != other:
                    self._error(_other_type(file, one, where))
                found[one.name] = where, replace(first, align=max(align, others))
        return {name: first for name, (_, first) in found.items()}

    def _definitions_of(
        self, index: int, file: _File, undefined: dict[str, tree.Variable], kept: set[str]
    ) -> Iterator[_Definition]:
        """Yield the definitions that a file contributes to the module, and undefined
        declarations.
        """
        own = self._own[str(index)]
        used = _find_used(file.syntax)
        everything: tuple[_Definition, ...] = (*file.syntax.variables, *file.syntax.functions)
        for one in everything:
            found = self._defined.get(one.name)
            if own.get(one.name) is one or (found is not None and found[1] is one):
                yield one
            elif _declares(one) and one.name not in own:
                if found is not None:
                    self._compare(file, one, *found)
                elif one.name not in used or one.name in kept:
                    continue
                elif one.name in undefined:
                    kept.add(one.name)
                    yield undefined[one.name]
                elif one.name in system_calls.NAMES:
                    kept.add(one.name)
                    yield one
                else:
                    self._error(f"Undefined reference to '{one.name}' in '{file.name}'")

    def _compare(self, file: _File, declared: _Definition, where: _File, one: _Definition) -> None:
        if type(declared) is not type(one) or _kind(declared) != _kind(one):
            self._error(_other_type(file, one, where))

    def _error(self, message: str) -> None:
        self._errors.append(Diagnostic(0, 0, f"error : {message}"))


def _definitions(module: tree.Module) -> Iterator[_Definition]:
    yield from (one for one in module.variables if not _declares(one))
    yield from (one for one in module.functions if not _declares(one))


def _declares(one: _Definition) -> bool:
    if isinstance(one, tree.Function):
        return one.body is None
    return one.linkage is tree.Linkage.EXTERN


def _is_own(one: _Definition) -> bool:
    """True if a definition is local to its file; kernels never are: programs look them up by
    name.
    """
    is_kernel = isinstance(one, tree.Function) and one.is_entry
    return one.linkage is tree.Linkage.NONE and not is_kernel


def _measure(one: tree.Variable) -> tuple[int | None, int]:
    """Return size and alignment of a shared variable; nothing if lowering will refuse it."""
    try:
        return size_and_alignment(one)
    except Refusal:
        return None, one.align or 1


def _other_type(file: _File, one: _Definition, where: _File) -> str:
    said = f"'{one.name}' is declared with another type in '{file.name}'"
    return f"{said} than in '{where.name}'"


def _strength(one: _Definition) -> int:
    return _STRENGTH.get(one.linkage, _STRONG)


def _kind(one: _Definition) -> tuple[object, ...]:
    """Return the properties that all declarations of a name must share."""
    if isinstance(one, tree.Function):
        return (one.is_entry, len(one.parameters))
    type_ = DATA_TYPES.get(one.type[1:])
    return (one.space, type_.bytes if type_ is not None else one.type, one.vector)


def _adapter_name(name: str, index: int) -> str:
    return f"{name}.{index}.adapter"


def _find_used(module: tree.Module) -> set[str]:
    found: set[str] = set()
    for function in module.functions:
        if function.body is not None:
            found |= names.find_used(function.body)
    for variable in module.variables:
        if variable.initial is not None:
            found |= names.in_value(variable.initial)
    return found | {alias.aliasee for alias in module.aliases}


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
