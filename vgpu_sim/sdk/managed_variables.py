"""Managed variables in a host's LLVM IR, where clang has made them ordinary ones.

Such a variable becomes a pointer, as in nvcc's host code: it is registered with the runtime, and
each access loads it. The first access calls ``__cudaInitModule``, which allocates the memory.
"""

import re
from collections.abc import Iterator

from vgpu_sim.sdk import annotations
from vgpu_sim.sdk.errors import CompileError

_STRING = re.compile(r'"[^"]*"')  # LLVM's text has no quote within quotes
_DEFINITION = re.compile(r"^(.*? = .*?)\b(?:global|constant) .*$")
_CONSTANT = re.compile(r"(getelementptr|ptrtoint)((?: [a-z]+(?:\([^()]*\))?)*) \($")
_ADDRESS = "@tessera.managed.address"
_REGISTER = "@__cudaRegisterVar("
_REGISTER_MANAGED = "@__cudaRegisterManagedVar("
_HANDLE = "@__cuda_gpubin_handle"
_ACCESS = f"""
define internal ptr {_ADDRESS}(ptr %variable) noinline {{
  %known = load atomic ptr, ptr %variable acquire, align 8
  %absent = icmp eq ptr %known, null
  br i1 %absent, label %first, label %found
first:
  %handle = load ptr, ptr {_HANDLE}, align 8
  %set = call signext i8 @__cudaInitModule(ptr %handle)
  %new = load atomic ptr, ptr %variable acquire, align 8
  br label %found
found:
  %address = phi ptr [ %known, %0 ], [ %new, %first ]
  ret ptr %address
}}

declare signext i8 @__cudaInitModule(ptr)

declare void @__cudaRegisterManagedVar(ptr, ptr, ptr, ptr, i32, i64, i32, i32)
"""


def rewrite_host(text: str) -> str:
    """Return a host's IR that accesses its managed variables through pointers.

    Raises:
        CompileError: the address of a managed variable is in another variable's initial value, or
            in an expression that cannot be computed when the program runs.
    """
    names = [name for name, _ in annotations.find(text, annotations.MANAGED)]
    if not names:
        return text
    if _HANDLE not in text:
        raise CompileError("this clang does not register device code as Tessera knows it")
    return "\n".join(_Rewriting(names).lines(annotations.LIST.sub("", text))) + _ACCESS


class _Rewriting:
    """Replaces uses of managed variables, one line of IR after the other."""

    def __init__(self, names: list[str]) -> None:
        self._names = frozenset(names)
        self._any = re.compile("|".join(rf"{re.escape(name)}(?![-\w.$])" for name in names))
        self._count = 0

    def lines(self, text: str) -> Iterator[str]:
        """Yield the lines of the new module."""
        pending: list[str] = []
        for line in text.splitlines():
            if line.startswith("define "):
                pending = [line]
            elif pending:
                pending.append(line)
                if line == "}":
                    yield from self._function(pending)
                    pending = []
            else:
                yield from self._top_level(line)

    def _top_level(self, line: str) -> Iterator[str]:
        if line.startswith(f"declare void {_REGISTER_MANAGED}"):
            return
        used = self._any.findall(_STRING.sub("", line))
        name = line.split(" = ")[0]
        if name in self._names:
            match = _DEFINITION.match(line)
            if not match or " external " in match[1]:
                raise CompileError(
                    f"the managed variable {name[1:]} must be defined in the source that uses it"
                )
            yield f"{match[1]}global ptr null, align 8"
            return
        if used and line.startswith("@") and not line.startswith("@llvm."):
            raise CompileError(
                f"the address of the managed variable {used[0][1:]} is known only when the program"
                f" runs: it cannot be in the initial value of {name[1:]}"
            )
        yield line

    def _function(self, lines: list[str]) -> Iterator[str]:
        """Rewrite a function. What a phi uses is computed first, where it reaches every block."""
        first, *body = lines
        yield first
        early: list[str] = []
        late: list[str] = []
        for line in body:
            if not self._any.search(line):
                late.append(line)
            elif _REGISTER in line:
                late.append(line.replace(_REGISTER, _REGISTER_MANAGED))
            else:
                is_phi = " = phi " in line
                late.extend(self._use(line, early if is_phi else late))
        if early and body and re.match(r"[-\w.$\"]+:", body[0]):
            yield late.pop(0)
        yield from early
        yield from late

    def _use(self, line: str, prelude: list[str]) -> Iterator[str]:
        """Yield an instruction that uses registers; append what computes these to ``prelude``."""
        while match := self._any.search(line):
            register = self._register()
            prelude.append(f"  {register} = call ptr {_ADDRESS}(ptr {match[0]})")
            line = line[: match.start()] + register + line[match.end() :]
            start = match.start()
            while outer := _enclosing(line, start, register):
                start, end, instruction = outer
                register = self._register()
                prelude.append(f"  {register} = {instruction}")
                line = line[:start] + register + line[end:]
        yield line

    def _register(self) -> str:
        self._count += 1
        return f"%tessera.managed.{self._count}"


def _enclosing(line: str, at: int, register: str) -> tuple[int, int, str] | None:
    """Return the constant expression around a register, as an instruction; None if there is none.

    Raises:
        CompileError: it is an expression of another kind.
    """
    opened = _opening(line, at)
    if opened is None:
        return None
    head = line[: opened + 1]
    match = _CONSTANT.search(head)
    if not match:
        word = head[:-1].rstrip().rsplit(" ", 1)[-1]
        if word.startswith(("@", "%")) or word.endswith('"'):  # arguments of a call or of asm
            return None
        raise CompileError(
            f"the address of a managed variable is in a constant expression ({word}), which"
            " Tessera does not rewrite: compute it from a pointer variable instead"
        )
    end = _closing(line, opened)
    inside = line[opened + 1 : end]
    return match.start(), end + 1, f"{match[1]}{match[2]} {inside}"


def _opening(line: str, at: int) -> int | None:
    """Return where the innermost parenthesis before a place opens that is open there."""
    depth = 0
    for i in range(at - 1, -1, -1):
        if line[i] == ")":
            depth += 1
        elif line[i] == "(":
            if depth == 0:
                return i
            depth -= 1
    return None


def _closing(line: str, opened: int) -> int:
    depth = 0
    for i in range(opened, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if depth == 0:
            return i
    raise CompileError(f"clang's IR has an expression without an end: {line.strip()}")
