"""Linking device code of separate compilation (``-dc``, ``-rdc=true``).

Each object contains bitcode. clang links the bitcode of all objects and writes PTX, which becomes
the program's one fat binary. clang's host code of each object calls
``__cudaRegisterLinkedBinary_<id>``, which a link step has to define: a small C file defines it for
every object, and registers the fat binary with the runtime.
"""

import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from vgpu_sim.sdk import fatbin, repairs
from vgpu_sim.sdk.clang import Clang
from vgpu_sim.sdk.errors import CompileError
from vgpu_sim.sdk.options import Options
from vgpu_sim.sdk.steps import Steps

_SECTION = "__nv_relfatbin"
_REGISTER = re.compile(r"__cudaRegisterLinkedBinary[A-Za-z0-9_.]*")
_STATIC = re.compile(rb"^@([\w.$]+)__static__[0-9a-f]+(?= =)", re.MULTILINE)
_ARCHIVE = b"!<arch>\n"
_MEMBER_HEADER_BYTES = 60

_STUB = """
typedef void (*callback)(void **);
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **);
extern void __cudaUnregisterFatBinary(void **);
extern const char tessera_linked_device_code[];
__asm__(".section .nv_fatbin,\\"a\\"\\n.balign 8\\n.globl tessera_linked_device_code\\n"
        ".hidden tessera_linked_device_code\\n"
        "tessera_linked_device_code:\\n.incbin \\"%(container)s\\"\\n.previous");
static struct { int magic, version; const void *data; void *unused; } wrapper
    __attribute__((section(".nvFatBinSegment"), used)) =
    { 0x466243b1, 1, tessera_linked_device_code, 0 };
static void **handle;
static void add(callback register_globals) {
  if (!handle) handle = __cudaRegisterFatBinary(&wrapper);
  register_globals(handle);
}
static void __attribute__((destructor)) remove_all(void) {
  if (handle) __cudaUnregisterFatBinary(handle);
}
/* Linked behind every object, so that it runs after their constructors. */
static void __attribute__((constructor)) end_registration(void) {
  if (handle) __cudaRegisterFatBinaryEnd(handle);
}
%(functions)s
"""
_FUNCTION = """
void %s(callback register_globals, void *unused_wrapper, void *unused_id, void (*unused)(void *)) {
  (void)unused_wrapper, (void)unused_id, (void)unused;
  add(register_globals);
}
"""


def _members(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the object that a file is, or the objects in an archive."""
    content = Path(name).read_bytes()
    if not content.startswith(_ARCHIVE):
        yield name, content
        return
    at = len(_ARCHIVE)
    while at + _MEMBER_HEADER_BYTES <= len(content):
        header = content[at : at + _MEMBER_HEADER_BYTES]
        try:
            size = int(header[48:58])
        except ValueError:
            raise CompileError(f"{name}: not an archive that ar wrote") from None
        start = at + _MEMBER_HEADER_BYTES
        member = header[:16].rstrip().decode("ascii", "replace")
        yield f"{name}({member.rstrip('/')})", content[start : start + size]
        at = start + size + size % 2


def _device_code(name: str, content: bytes) -> tuple[dict[str, bytes], list[str]]:
    """Return an object's bitcode by architecture, and the registration functions that it calls."""
    if not content.startswith(b"\x7fELF"):
        return {}, []
    try:
        elf = ELFFile(io.BytesIO(content))
        section = elf.get_section_by_name(_SECTION)
        if section is None or elf["e_type"] == "ET_DYN":
            return {}, []
        symbols = [
            symbol.name
            for table in elf.iter_sections()
            if isinstance(table, SymbolTableSection)
            for symbol in table.iter_symbols()
            if symbol["st_shndx"] == "SHN_UNDEF" and _REGISTER.fullmatch(symbol.name)
        ]
        return dict(fatbin.unpack_bitcode(section.data(), name)), symbols
    except ELFError as err:
        raise CompileError(f"{name}: {err}") from err


def find_archives(folders: Sequence[Path], libraries: Sequence[str]) -> list[str]:
    """Return the static libraries that ``-l`` names and ``-L`` finds, where no shared one is."""
    archives = []
    for library in libraries:
        for folder in folders:
            if (folder / f"lib{library}.so").exists():
                break
            if (folder / f"lib{library}.a").exists():
                archives.append(str(folder / f"lib{library}.a"))
                break
    return archives


def assemble(clang: Clang, steps: Steps, text: bytes, target: str, stem: str) -> bytes:
    """Return the bitcode of a source's LLVM IR, with each static variable under one name.

    clang renames a static variable that the host refers to, but not in functions that it has
    compiled before it sees the reference.
    """
    for definition in _STATIC.finditer(text):
        name, renamed = definition[1], definition[0]
        declaration = re.compile(rb"^@%s = external .*\n" % re.escape(name), re.MULTILINE)
        if declaration.search(text):
            text = declaration.sub(b"", text)
            text = re.sub(rb"@%s(?![\w.$])" % re.escape(name), renamed, text)
    source, output = steps.file(stem, ".ll"), steps.file(stem, ".bc")
    steps.write(source, text)
    steps.run([*_device(clang, target), source, "-emit-llvm", "-c", "-O0", "-o", output])
    return steps.read(output)


def _device(clang: Clang, target: str) -> list[str]:
    return [
        str(clang.path), "--target=nvptx64-nvidia-cuda", f"-march=sm_{target}", "-x", "ir",
        "-Wno-override-module", "-Xclang", "-target-feature", "-Xclang", f"+ptx{clang.ptx}",
    ]  # fmt: skip


def link(
    clang: Clang, steps: Steps, inputs: Sequence[str], targets: Sequence[str], options: Options
) -> list[str]:
    """Link the device code of objects and archives; return the object to link, if there is any.

    Raises:
        CompileError: an object was compiled for other architectures, or a tool failed.
    """
    if steps.dry_run:
        return ["device-link.o"] if options.relocatable else []
    parts: list[tuple[str, dict[str, bytes]]] = []
    functions: dict[str, None] = {}
    for name in inputs:
        for member, content in _members(name):
            code, symbols = _device_code(member, content)
            if code:
                parts.append((member, code))
            functions.update(dict.fromkeys(symbols))
    if not parts:
        return []
    images = {target: _link_target(clang, steps, parts, target, options) for target in targets}
    container = steps.file("linked", ".fatbin")
    steps.write(container, fatbin.pack_ptx(images))
    source = steps.file("register", ".c")
    text = "".join(_FUNCTION % name for name in functions)
    words = {"container": _quote(container), "functions": text}
    steps.write(source, (_STUB % words).encode())
    output = steps.file("register", ".o")
    clang_c = [str(clang.path), "-x", "c", "-O1", "-fPIC", "-w"]
    steps.run([*clang_c, "-c", str(source), "-o", str(output)])
    return [str(output)]


def _quote(path: Path) -> str:
    """Return a path as the text of an assembler's string within a string of C."""
    return "".join(
        chr(byte) if byte < 128 and (chr(byte).isalnum() or byte in b"/._-") else f"\\\\{byte:03o}"
        for byte in os.fsencode(path)
    )


def _link_target(
    clang: Clang,
    steps: Steps,
    parts: Sequence[tuple[str, dict[str, bytes]]],
    target: str,
    options: Options,
) -> bytes:
    files = []
    for member, code in parts:
        if target not in code:
            names = ", ".join(f"compute_{name}" for name in code)
            raise CompileError(
                f"{member}: its device code is for {names}, but the link is for compute_{target};"
                " give the same -arch to both"
            )
        path = steps.file("part", ".bc")
        steps.write(path, code[target])
        files.append(path)
    output = steps.file("linked", ".ptx")
    write_ptx(clang, steps, target, options, files, output)
    return steps.read(output)


def write_ptx(
    clang: Clang,
    steps: Steps,
    target: str,
    options: Options,
    files: Sequence[Path],
    output: Path,
) -> None:
    """Compile modules of LLVM IR, as text or bitcode, to PTX together."""
    level = "-O0" if options.device_debug else options.optimization
    bitcode_arguments = [
        word for path in files[1:] for word in ("-Xclang", "-mlink-bitcode-file", "-Xclang", path)
    ]
    command = [
        *_device(clang, target), *clang.expansions, files[0], level, "-S", *bitcode_arguments,
    ]  # fmt: skip
    repairs.run_clang(steps, command, output, "linked device code")
    repairs.correct_file(steps, output)
