"""Reads the LLVM IR text that the JIT writes: blocks, instructions, operands, accesses."""

import functools
import re
from dataclasses import dataclass, field

STOP = "call through a pointer"
MASKED = {"load": (0, 1), "store": (1, 2), "gather": (0, 1), "scatter": (1, 2)}  # pointer, mask
_OPAQUE_BITS = {"half": 16, "float": 32, "double": 64, "ptr": 64}


class NotRead(AssertionError):
    """Text that this reader does not support."""


@dataclass
class Line:
    """One instruction: its name (or ''), opcode, type, operands."""

    name: str
    op: str
    type: str
    operands: list[str]
    text: str
    block: str


@dataclass
class Block:
    lines: list[Line] = field(default_factory=list)
    successors: list[str] = field(default_factory=list)
    condition: str = ""


_MARK = re.compile(r"[][,(){}<>]")


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for mark in _MARK.finditer(text):
        letter = mark[0]
        if letter != ",":
            depth += 1 if letter in "([<{" else -1
        elif not depth:
            parts.append(text[start : mark.start()].strip())
            start = mark.end()
    parts.append(text[start:].strip())
    return parts


TYPE = re.compile(r"(<\d+ x \w+>|\w+) ?(.*)", re.DOTALL)
_DROPPED = re.compile(r", ?!(dbg|invariant\.load) !\d+")
_FLAGS = re.compile(r"\b(nuw|nsw|exact|disjoint|nneg|contract|inbounds|samesign) ")

_STOP_CALL = re.compile(r"(void|i32|i64) (%[\w.]+)\(ptr %thread(?:, i(?:32|64) [\w%-]+)*\)")


def parse_line(raw: str, block: str) -> Line:
    text = _DROPPED.sub("", raw).strip()
    name, _, rest = text.rpartition(" = ") if text.startswith("%") else ("", "", text)
    op, _, rest = rest.partition(" ")
    rest = _FLAGS.sub("", rest)
    if op in ("load", "store"):
        rest = rest.removeprefix("volatile ")
    if op == "atomicrmw":
        rest = rest.partition(" ")[2]  # the type of its result
    if op in ("icmp", "fcmp"):
        how, _, rest = rest.partition(" ")
        op = f"{op} {how}"
    stop = _STOP_CALL.fullmatch(rest) if op == "call" else None
    if stop is not None:
        return Line(name, STOP, stop[1], [stop[2]], text, block)
    if op == "call":
        match = re.match(r"(.+?) @([\w.]+)\((.*)\)", rest, re.DOTALL)
        assert match, raw
        operands = [_bare(part) for part in _split(match[3])]
        return Line(name, f"@{match[2]}", match[1], operands, text, block)
    if op in ("atomicrmw", "cmpxchg"):
        place, value, *_ = _split(rest)
        return Line(name, op, value.split(" ")[0], [_bare(place)], text, block)
    if op in ("load", "store", "getelementptr", "select", "insertelement", "shufflevector"):
        parts = _split(rest)
        match = TYPE.match(parts[0])
        assert match, raw
        kind = match[1]
        if op == "getelementptr":
            kind, parts = "ptr", parts[1:]
        if op == "load":
            parts = parts[1:]
        return Line(name, op, kind, [_bare(part) for part in parts], text, block)
    match = TYPE.match(rest)
    kind, rest = (match[1], match[2]) if match else ("", rest)
    if op == "phi":
        return Line(name, op, kind, _split(rest), text, block)
    value, _, target = rest.rpartition(" to ")
    if op in ("zext", "sext", "trunc", "bitcast", "inttoptr", "ptrtoint"):
        return Line(name, op, f"{kind}>{target}", [value], text, block)
    return Line(name, op, kind, _split(rest), text, block)


def _bare(operand: str) -> str:
    """Return an operand without its type."""
    match = re.match(r"(?:<\d+ x \w+>|\w+) (.*)", operand, re.DOTALL)
    return match[1] if match else operand


def bits_of(kind: str) -> int:
    scalar = kind.split(" x ")[-1].rstrip(">")
    return _OPAQUE_BITS.get(scalar) or int(scalar[1:])


def bytes_of(kind: str) -> int:
    lanes = int(kind[1:].split(" ")[0]) if kind.startswith("<") else 1
    return lanes * -(-bits_of(kind) // 8)


def constants(operand: str) -> list[int] | None:
    """Return the integers of a constant operand, scalar or vector; None if it is not one."""
    return None if operand.startswith("%") else _numbers(operand)


@functools.lru_cache(maxsize=1 << 14)  # texts repeat few constants; no caller changes the list
def _numbers(operand: str) -> list[int] | None:
    if operand in ("zeroinitializer", "false"):
        return [0]
    if operand == "true":
        return [1]
    found = re.fullmatch(r"splat \(i\d+ (\S+)\)", operand)
    parts = [found[1]] if found else [operand]
    if operand.startswith("<"):
        parts = [part.strip().split(" ")[-1] for part in operand[1:-1].split(",")]
    parts = [{"true": "1", "false": "0"}.get(part, part) for part in parts]
    return list(map(int, parts)) if all(re.fullmatch(r"-?\d+", part) for part in parts) else None


def ways_of(line: Line) -> list[tuple[str, str]]:
    """Return the values of a phi, each with its predecessor block."""
    ways = []
    for part in line.operands:
        value, _, label = part.strip("[] ").rpartition(", %")
        ways.append((value.strip(), label.strip()))
    return ways


TABLE_CALLS = ("@combine.enter", "@combine.settle")
"""Functions of the text that receive the caller's own table, and no other memory to write."""


# The largest tile of palette 1 (Intel 64 SDM, "Intel AMX"), whatever the tile's configuration.
_TILE_ROWS, _TILE_ROW_BYTES, _TILE_CONFIGURATION_BYTES = 16, 64, 64
_TILES = ("@llvm.x86.tileloadd64", "@llvm.x86.tilestored64")
_CONTROL_WORD = ("@llvm.x86.sse.stmxcsr", "@llvm.x86.sse.ldmxcsr")
_OF_POINTERS = re.compile(r"\bptr\b")


def access_of(line: Line) -> tuple[str | None, int]:
    """Return the pointer operand of an access, and its size."""
    if line.op in ("load", "atomicrmw", "cmpxchg"):
        return line.operands[0], bytes_of(line.type)
    if line.op == "store":
        return line.operands[1], bytes_of(line.type)
    if line.op.startswith("@llvm.masked."):
        how = line.op.split(".")[2]
        value = re.findall(r"<\d+ x \w+>", line.text)[0]
        size = -(-bits_of(value) // 8) if how in ("gather", "scatter") else bytes_of(value)
        return line.operands[MASKED[how][0]], size  # for a vector of pointers, the size at each
    if line.op == STOP:
        return line.operands[0], 0
    if line.op in _CONTROL_WORD:
        return line.operands[0], 4
    if line.op in _TILES:
        return line.operands[1], (_TILE_ROWS - 1) * int(line.operands[2]) + _TILE_ROW_BYTES
    if line.op == "@llvm.x86.ldtilecfg":
        return line.operands[0], _TILE_CONFIGURATION_BYTES
    if line.op == "@llvm.prefetch.p0":
        return line.operands[0], 1
    if line.op.startswith("@llvm.") and _OF_POINTERS.search(line.text.partition("(")[2]):
        raise NotRead(f"an access that is not known: {line.text}")
    known = (
        "@llvm.",
        "@masked_version",
        "@exact_version",
        "@partial_version",
        *TABLE_CALLS,
        *("@product.", "@directed."),  # defined in the text, and checked themselves
    )
    if line.op.startswith("@") and not line.op.startswith(known):
        raise NotRead(f"a call that is not known: {line.text}")
    return None, 0
