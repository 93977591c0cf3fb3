"""The dependencies between the C files of a library, by calls or by data, read from object
files.
"""

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile

from vgpu_sim.native import build, catalogue

# R_X86_64_PLT32; R_AARCH64_JUMP26 and _CALL26.
CALLS = {"EM_X86_64": {4}, "EM_AARCH64": {282, 283}}


def name_of(source: Path) -> str:
    """Return the name of a source in the results: its path below the root."""
    return str(source.relative_to(catalogue.ROOT))


def compile_objects(part: catalogue.Part, directory: Path) -> dict[str, Path]:
    """Compile each source of a library by itself; keys are paths below the root."""
    objects = {}
    flags = [flag for flag in part.flags if not flag.startswith("-Wl,")]
    for source in part.sources():
        name = name_of(source)
        objects[name] = directory / name.replace("/", "-").replace(".c", ".o")
        command = [build.compiler(), "-std=c11", "-O0", "-fPIC", "-fvisibility=hidden", *flags]
        command += [f"-I{catalogue.INCLUDE}", "-c", str(source), "-o", str(objects[name])]
        subprocess.run(command, check=True)
    return objects


_DATA = {"STT_OBJECT", "STT_TLS", "STT_COMMON"}


def _read(path: Path) -> tuple[dict[str, str], set[str], set[str]]:
    """Return an object's global definitions with their types, its calls, and all of its
    references.
    """
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        symbols = elf.get_section_by_name(".symtab")
        defined = {
            one.name: one["st_info"]["type"]
            for one in symbols.iter_symbols()
            if one["st_info"]["bind"] != "STB_LOCAL" and one["st_shndx"] != "SHN_UNDEF"
        }
        called, referred = set(), set()
        for section in elf.iter_sections():
            if section["sh_type"] != "SHT_RELA":
                continue
            for one in section.iter_relocations():
                name = symbols.get_symbol(one["r_info_sym"]).name
                referred.add(name)
                if one["r_info_type"] in CALLS[elf["e_machine"]]:
                    called.add(name)
    return defined, called - set(defined), referred - set(defined)


def calls_between(objects: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return, for each file, the files whose functions it calls."""
    return _between(objects, data=False)


def uses_between(objects: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return, for each file, the files whose functions it calls or whose variables it names.

    A function whose address is only stored, in a table for instance, is not used by that file.
    """
    return _between(objects, data=True)


def _between(objects: Mapping[str, Path], *, data: bool) -> dict[str, set[str]]:
    read = {name: _read(path) for name, path in objects.items()}
    home = {symbol: name for name, (defined, _, _) in read.items() for symbol in defined}
    variables = {
        symbol
        for defined, _, _ in read.values()
        for symbol, kind in defined.items()
        if kind in _DATA
    }
    return {
        name: {
            home[symbol]
            for symbol in called | (referred & variables if data else set())
            if symbol in home
        }
        for name, (_, called, referred) in read.items()
    }


def circles(calls: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return every set of files with circular dependencies (Tarjan's components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in calls[name]:
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            at = stack.index(name)
            component = sorted(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for name in calls:
        if name not in order:
            visit(name)
    return found


def callers(calls: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return, for each file, the files that call it."""
    found = defaultdict(set)
    for name, others in calls.items():
        for other in others:
            found[other].add(name)
    return dict(found)
