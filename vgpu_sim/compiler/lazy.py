"""Compiles the kernels of a large PTX file one at a time, each when it is first used.

When the file is opened, its directives, variables and functions' declarations are parsed and
checked, and its variables are placed. A kernel is then compiled as a file that consists of these
and of the functions that it reaches. The result is the same as if the whole file was compiled,
except that the variables that only this kernel has are placed after all others.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from vgpu_sim.compiler import expansion, legality, pipeline, system_calls, target
from vgpu_sim.compiler.errors import PtxSyntaxError
from vgpu_sim.compiler.lower import special
from vgpu_sim.compiler.lower.modules import lower_module
from vgpu_sim.compiler.lower.stack.call_graph import FileFacts, number, target_of
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.pipeline import Compilation, Stage
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.compiler.ptx.kernel_index import Part, Span, index_kernels
from vgpu_sim.compiler.ptx.parser import FileParser, Place, parse_function
from vgpu_sim.isa import Module

LEAST_BYTES: Final = 32 << 10
"""Smaller files are compiled as a whole, so that all their errors are found at once."""

_LEAST_KERNELS: Final = 2


class _UnusualError(Exception):
    """The file has a form for which its kernels cannot be compiled apart."""


class LazyFile:
    """A PTX file whose kernels are compiled one at a time. Several threads may compile.

    ``shared`` is the module without kernels: the variables, and those that are not supported.
    """

    def __init__(
        self, text: bytes, kernels: dict[str, Span], parts: Iterable[Part], device: tuple[int, int]
    ) -> None:
        self._text = text
        self._kernels = kernels
        self._device = device
        self._functions: dict[str, Span] = {}
        self._headers: list[tree.Function] = []  # of these functions
        self._lock, self._searching = threading.Lock(), threading.Lock()
        self._lines: dict[int, int] = {}  # of kernels and functions, by the places where they begin
        self._taken: frozenset[str] | None = None
        syntax = self._parse_parts(parts)
        target.check(syntax, device)
        source = self._source()
        legality.check(syntax, source)
        self._required = target.required_capability(syntax)
        self._syntax = system_calls.add_system_calls(syntax, unused=True)
        headers = set(map(id, self._headers))
        defined = [f.name for f in self._syntax.functions if f.body is not None or id(f) in headers]
        self._check_names(defined)
        self._numbers = number(defined)
        self._declared = frozenset(f.name for f in self._syntax.functions)
        whole = expansion.expand_vectors(self._syntax)
        facts = FileFacts(self._numbers)
        self.shared, _ = lower_module(whole, self._required, source, "<ptx>", facts)
        self.shared = replace(self.shared, source="")
        self._all_variables = whole.variables
        lost = {refusal.name for refusal in self.shared.refused}
        self._variables = tuple(
            v if v.name in lost else _without_value(v) for v in self._all_variables
        )
        values = (v.initial for v in self._variables if v.initial is not None)
        self._always = frozenset(name for value in values for name in names.in_value(value))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels, in order."""
        return tuple(self._kernels)

    def compile(self, name: str) -> Module:
        """Compile a kernel, as ``compile_ptx(partial=True)``. The module's variables begin with the
        file's, which have no initial values here; others belong to this kernel alone.

        Raises:
            KeyError: the file has no kernel of that name.
            PtxError: as ``compile_ptx``.
        """
        source = self._source()
        kernel = self._parse(self._kernels[name])
        functions, facts = self._reach(kernel)
        used = {n for f in (kernel, *functions) if f.body for n in names.find_used(f.body)}
        used |= self._always
        reached = {f.name for f in functions}
        declared = [
            replace(f, body=None)
            for f in self._syntax.functions
            if f.name in used and f.name not in reached
        ]
        other_kernels = [
            self._parse(self._kernels[n]) for n in self._kernels if n in used and n != name
        ]
        syntax = replace(
            self._syntax,
            functions=(
                *declared,
                *(replace(other_kernel, body=None) for other_kernel in other_kernels),
                *functions,
                kernel,
            ),
            variables=self._variables,
        )

        def lower(compilation: Compilation) -> Compilation:
            whole = expansion.expand_vectors(syntax)
            placed = {variable.name for variable in self._variables}
            moved = whole.variables[len(self._variables) :]
            whole = replace(
                whole, variables=(*self._variables, *(v for v in moved if v.name not in placed))
            )
            module, unsupported = lower_module(whole, self._required, source, "<ptx>", facts)
            return replace(compilation, module=module, unsupported=tuple(unsupported))

        stages = [
            Stage("lower", lower) if stage.name == "lower" else stage
            for stage in pipeline.STAGES
            if stage.name not in ("parse", "target")
        ]
        start = Compilation(source, self._device, syntax=syntax)
        module = pipeline.run(start, stages).module
        assert module is not None
        spans = [self._functions[f.name] for f in functions if f.name in self._functions]
        return replace(module, source=self._lines_of([*spans, self._kernels[name]]))

    def _source(self) -> str:
        return self._text.decode("ascii")

    def _parse_parts(self, parts: Iterable[Part]) -> tree.Module:
        """Parse the file without its kernels and without the bodies of its functions."""
        parser, line, at = FileParser(), 1, 0
        try:
            for part in parts:
                line, at = line + self._text.count(b"\n", at, part.start), part.start
                earlier_count = len(parser.functions)
                end = part.body or part.end
                text = self._text[part.start : end].decode("ascii") + (";" if part.body else "")
                parser.parse(text, Place(line, part.start))
                if part.body:
                    parsed_functions = parser.functions[earlier_count:]
                    if len(parsed_functions) != 1:
                        raise _UnusualError
                    self._headers.append(parsed_functions[0])
                    self._functions[parsed_functions[0].name] = part
            return parser.module()
        except PtxSyntaxError as error:
            raise pipeline.add_lines(error, self._source(), "<ptx>") from error

    def _check_names(self, defined: list[str]) -> None:
        """Leave it to the whole compiler to report names that are defined twice, and to provide
        addresses of kernels.
        """
        functions = self._syntax.functions
        variables = {variable.name for variable in self._syntax.variables}
        values = [v.initial for v in self._syntax.variables if v.initial is not None]
        if (
            len(set(defined)) < len(defined)
            or system_calls.launches_kernels(self._syntax)
            or any(f.is_entry or f.name in self._kernels for f in functions)
            or not variables.isdisjoint((*defined, *self._kernels))
            or any(not names.in_value(v).isdisjoint(self._kernels) for v in values)
        ):
            raise _UnusualError

    def _parse(self, span: Span) -> tree.Function:
        place = Place(self._line(span), span.start)
        text = self._text[span.start : span.end].decode("ascii")
        try:
            return parse_function(text, place, self._syntax.version)
        except PtxSyntaxError as error:
            raise pipeline.add_lines(error, self._source(), "<ptx>") from error

    def _line(self, span: Span) -> int:
        """Return the line in which a kernel or function begins; the first call counts all lines."""
        with self._lock:
            if not self._lines:
                line, at = 1, 0
                starts = [
                    extent.start for extent in (*self._kernels.values(), *self._functions.values())
                ]
                for start in sorted(starts):
                    line, at = line + self._text.count(b"\n", at, start), start
                    self._lines[start] = line
        return self._lines[span.start]

    def _reach(self, kernel: tree.Function) -> tuple[list[tree.Function], FileFacts]:
        """Return the functions that a kernel may call, and facts about the file."""
        own = {f.name: f for f in self._syntax.functions if f.body is not None}
        reached: dict[str, tree.Function] = {}
        pending = [kernel]
        everything = False
        while pending:
            body = pending.pop().body
            assert body is not None
            used_names = names.find_used(body)
            if not everything and self._calls_indirectly(body):
                everything, used_names = True, frozenset(self._numbers)
            for name in sorted(n for n in used_names if n in self._numbers and n not in reached):
                reached[name] = own.get(name) or self._parse(self._functions[name])
                pending.append(reached[name])
        ordered = [reached[name] for name in self._numbers if name in reached]
        addressed_names = self._find_taken() if everything else frozenset()
        return ordered, FileFacts(self._numbers, addressed_names)

    def _calls_indirectly(self, body: tree.Block) -> bool:
        for instruction in names.instructions(body):
            if instruction.opcode == "call":
                called = target_of(instruction)
                if called is None or called.text not in self._declared:
                    return True
        return False

    def _find_taken(self) -> frozenset[str]:
        """Return the functions whose address the file takes anywhere; this reads the whole file."""
        with self._searching:
            if self._taken is None:
                self._taken = frozenset(self._yield_taken())
            return self._taken

    def _yield_taken(self) -> Iterator[str]:
        for variable in self._all_variables:
            if variable.initial is not None:
                yield from names.in_value(variable.initial) & self._numbers.keys()
        for span in (*self._kernels.values(), *self._functions.values()):
            body = self._parse(span).body
            assert body is not None
            for instruction in names.instructions(body):
                if instruction.opcode != "call":
                    yield from names.in_operands(instruction.operands) & self._numbers.keys()

    def _lines_of(self, spans: list[Span]) -> str:
        """Return a text that has the lines of some parts in their places, and otherwise nothing."""
        parts, at = [], 0
        for span in sorted(spans, key=lambda part: part.start):
            parts += ["\n" * self._text.count(b"\n", at, span.start)]
            parts += [self._text[span.start : span.end].decode("ascii")]
            at = span.end
        return "".join(parts)


def open_file(text: bytes, device: tuple[int, int]) -> LazyFile | None:
    """Open a PTX file whose kernels can be compiled one at a time for a device of this compute
    capability; return None for a small file, and for one of an unusual form.

    Raises:
        PtxError: as ``compile_ptx``, for errors outside of functions.
    """
    index = index_kernels(text) if len(text) >= LEAST_BYTES else None
    if index is None or len(index.kernels) < _LEAST_KERNELS:
        return None
    if special.CURRENT_GRAPH.encode() in text:  # calls replace its reads in a whole file
        return None
    try:
        return LazyFile(text, index.kernels, index.parts, device)
    except _UnusualError:
        return None


def _without_value(variable: tree.Variable) -> tree.Variable:
    """Return a variable without its initial value, which does not concern code."""
    dimensions = variable.dimensions
    if dimensions and dimensions[0] is None and isinstance(variable.initial, tree.ValueList):
        dimensions = (len(variable.initial.elements), *dimensions[1:])
    return replace(variable, initial=None, dimensions=dimensions)
