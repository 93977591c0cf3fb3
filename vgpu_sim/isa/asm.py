"""The assembler. Each line has one directive, label or instruction::

    .isa 1
    .capability 8 0                     // least compute capability
    .ptx 7 0                            // PTX version of the source
    .variable table space CONST align 4 size 8 offset 0 init "0100000002000000"
    .variable where space GLOBAL align 8 size 8 offset 8
        .address 0 size 8 shift 0 bits 64 of table addend 4     // of the last variable, at byte 0

    .function scale
        .parameter data offset 0 size 8 align 8 pointer GLOBAL
        .parameter_bytes 8
        .registers r0-r0 64             // bits of each register: 16, 32 or 64
        .registers r1-r2 32
        .predicates 1
    {
          LD.PARAM.U64         r0, [0]
          LD.GLOBAL.V2.F32     {r1, r2}, [r0+16]    // ptx:12
          SETP.LT.F32          p0, r1, 0x3f800000
    @!p0  BRA                  done
          MOV.U64              r0, &(table+4)
    done:
          RET
    }
    .refused kernel other               // or variable: the source's other kernels and variables
        .reason 14 5 "instruction 'call' is not supported yet" "call f;"    // line, column
    .source "one line of PTX\\n"

Also ``.parameter_image name``, ``.shared``, ``.local``, ``.required_block x y z``,
``.maximum_block x y z``, ``.required_cluster x y z``, ``.maximum_cluster N``, ``.counts_clusters``
and ``.physical peak N spill N slots N...``. Names that are not plain are quoted as in JSON.
Mnemonics are described in ``mnemonic``. Literals are integers, taken modulo 2^64; floats by
their bits. A comment ``// ptx:N`` gives the word its PTX line; other comments are skipped.
"""

from dataclasses import replace

from vgpu_sim.isa.asm_function import FunctionParser, parse_space
from vgpu_sim.isa.errors import AssemblyError, InvalidFunction
from vgpu_sim.isa.module import Diagnostic, Function, Module, Refused, Relocation, Variable
from vgpu_sim.isa.tokens import Line
from vgpu_sim.isa.verify import check_module


def assemble(text: str) -> Module:
    """Assemble a module.

    Raises:
        AssemblyError: with line and column of the first error.
    """
    parser = _ModuleParser()
    for number, line in enumerate(text.split("\n"), start=1):
        parser.read(Line(line.removesuffix("\r"), number))
    return parser.finish()


class _ModuleParser:
    def __init__(self) -> None:
        self._versioned = False
        self._capability = (5, 0)
        self._ptx = (0, 0)
        self._source: list[str] = []
        self._variables: list[tuple[Variable, list[Relocation]]] = []
        self._functions: list[Function] = []
        self._parse_refused: list[tuple[Refused, list[Diagnostic]]] = []
        self._places: dict[str, int] = {}
        self._function: FunctionParser | None = None
        self._parsers: dict[str, FunctionParser] = {}
        self._last_line = 1

    def read(self, line: Line) -> None:
        self._last_line = line.number
        if line.empty:
            return
        if not self._versioned:
            self._read_version(line)
        elif self._function is not None:
            if self._function.read(line):
                self._functions.append(self._function.finish())
                self._parsers[self._function.name] = self._function
                self._function = None
        else:
            self._directive(line)
            line.finish()

    def finish(self) -> Module:
        if not self._versioned:
            raise AssemblyError(self._last_line, 1, "the text does not begin with .isa")
        if self._function is not None:
            raise AssemblyError(self._last_line, 1, "the last function is not closed")
        module = Module(
            tuple(self._functions),
            tuple(
                replace(variable, relocations=tuple(relocations))
                for variable, relocations in self._variables
            ),
            self._capability,
            self._ptx,
            "".join(self._source),
            tuple(
                replace(refusal, reasons=tuple(reasons)) for refusal, reasons in self._parse_refused
            ),
        )
        try:
            check_module(module)
        except InvalidFunction as error:
            raise self._locate(error) from error
        return module

    def _locate(self, error: InvalidFunction) -> AssemblyError:
        parser = self._parsers.get(error.function)
        if parser is not None:
            line, column = parser.position_of(error.word)
            return AssemblyError(line, column, error.reason)
        line = self._places.get(error.function, 1)
        return AssemblyError(line, 1, f"{error.function}: {error.reason}")

    def _read_version(self, line: Line) -> None:
        if line.current.text != ".isa":
            raise line.fail("the text does not begin with .isa")
        line.next("directive", ".isa")
        token = line.current
        if line.integer() != 1:
            raise line.fail("unsupported version: only version 1 is supported", token)
        line.finish()
        self._versioned = True

    def _directive(self, line: Line) -> None:
        token = line.next("directive", "a directive")
        match token.text:
            case ".capability":
                self._capability = (line.integer(), line.integer())
            case ".ptx":
                self._ptx = (line.integer(), line.integer())
            case ".source":
                self._source.append(line.string())
            case ".variable":
                variable = _variable(line)
                self._places[variable.name] = line.number
                self._variables.append((variable, []))
            case ".address" if self._variables:
                self._variables[-1][1].append(_relocation(line))
            case ".refused":
                refused = _parse_refused(line)
                self._places[refused.name] = line.number
                self._parse_refused.append((refused, []))
            case ".reason" if self._parse_refused:
                self._parse_refused[-1][1].append(_reason(line))
            case ".function":
                column = token.column
                self._function = FunctionParser(line.name(), line.number, column)
            case _:
                raise line.fail(f"unknown directive {token.text}", token)


def _relocation(line: Line) -> Relocation:
    numbers = [line.integer()]
    for word in ("size", "shift", "bits"):
        line.expect(word)
        numbers.append(line.integer())
    offset, size, shift, bits = numbers
    line.expect("of")
    name = line.name()
    line.expect("addend")
    return Relocation(offset, size, name, line.integer(), shift, bits)


def _parse_refused(line: Line) -> Refused:
    is_kernel = line.accept("kernel")
    if not is_kernel:
        line.expect("variable")
    return Refused(line.name(), (), is_kernel)


def _reason(line: Line) -> Diagnostic:
    return Diagnostic(
        line=line.integer(),
        column=line.integer(),
        message=line.string(),
        text="" if line.empty else line.string(),
    )


def _variable(line: Line) -> Variable:
    name = line.name()
    line.expect("space")
    space = parse_space(line)
    line.expect("align")
    align = line.integer()
    line.expect("size")
    size = line.integer()
    line.expect("offset")
    offset = line.integer()
    initial = b""
    if line.accept("init"):
        token = line.current
        try:
            initial = bytes.fromhex(line.string())
        except ValueError:
            raise line.fail("initial bytes must be hexadecimal", token) from None
    return Variable(name, space, align, size, offset, initial)
