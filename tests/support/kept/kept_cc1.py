"""GCC's compiler proper (``cc1``) with a memory: ``kept_cc1.py CC1 FOLDER ARGUMENTS``.

The tests compile a thousand C files, most of them with the same text as in the run before. GCC's
driver starts ``cc1`` for each file, and looks for it in ``COMPILER_PATH`` first (``c_compiler``).
This program preprocesses the file, and copies the assembly that an earlier run stored under the
preprocessed text, the arguments and the identity of ``cc1``. Assembler and linker run as always.

It starts once for each file, so it imports only what starts fast: no site, no OpenSSL.
"""

import os
import sys
import zlib
from _blake2 import blake2b

_DIGEST_BYTES = 32
_OUTPUT, _ERRORS = 1, 2
# With these, cc1 writes more files than its output, or reads files that are not in the text.
_REFUSED = (
    *("-E", "-M", "-f", "-aux-info", "-d", "-gsplit-dwarf", "-save-temps", "-Wp,"),
    *("--coverage", "-pg", "-version", "--help", "-specs"),
)
# Of the options that begin with -f, those that only change the code.
_HARMLESS = (
    *("-fPIC", "-fPIE", "-fpic", "-fpie", "-fvisibility=", "-fsanitize=", "-fno-", "-ffile-prefix-map="),
    *("-fstack-protector", "-fomit-", "-ffunction-sections", "-fdata-sections", "-fexceptions"),
    *("-fasynchronous-unwind-tables", "-fcf-protection", "-fwrapv", "-ffp-contract=", "-fopenmp"),
    *("-fstrict-", "-frounding-math", "-ftrivial-auto-var-init="),
)  # fmt: skip


def request_of(arguments: list[str]) -> tuple[str, list[str]] | None:
    """Return the path of the assembly and the remaining arguments; None if only cc1 may do this."""
    others: list[str] = []
    output, names = "", iter(arguments)
    for name in names:
        if name == "-o":
            output = next(names, "")
        elif name.startswith("-dump"):  # where other files would be: a directory of this run
            next(names, "")
        elif name.startswith(_REFUSED) and not name.startswith(_HARMLESS):
            return None
        else:
            others.append(name)
    sources = [one for one in others if one.endswith(".c")]
    return (output, others) if len(sources) == 1 and output.endswith(".s") else None


def keeps_paths(arguments: list[str]) -> bool:
    """Return whether the assembly contains the paths of sources: debug information, sanitizers."""
    return any(one.startswith(("-g", "-fsanitize")) and one != "-g0" for one in arguments)


def without_folders(arguments: list[str]) -> list[str]:
    """Return the arguments without the folders of headers, and the source without its own."""
    kept: list[str] = []
    names = iter(arguments)
    for name in names:
        if name in ("-I", "-isystem", "-iquote"):
            next(names, "")
        elif not name.startswith("-I"):
            kept.append(os.path.basename(name) if name.endswith(".c") else name)
    return kept


def digest(*parts: bytes) -> bytes:
    """Return a digest of these parts; their lengths are part of it."""
    found = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return bytes(found.digest())


def identity(cc1: str) -> bytes:
    """Return what distinguishes one cc1 from another: a package never changes it in place."""
    status = os.stat(cc1)
    return repr((os.path.realpath(cc1), status.st_size, status.st_mtime_ns)).encode()


def read_entry(path: str, key: bytes) -> bytes | None:
    """Return what is stored; an incomplete or changed entry, or another's, counts as absent."""
    try:
        with open(path, "rb") as file:
            entry = file.read()
        os.utime(path)  # ``store.prune`` removes what was not read for longest
    except OSError:
        return None
    if entry[:_DIGEST_BYTES] != digest(key, entry[_DIGEST_BYTES:]):
        return None
    return zlib.decompress(entry[_DIGEST_BYTES:])


def write_entry(path: str, key: bytes, content: bytes) -> None:
    """Store content; a full disk only means that it is compiled again."""
    packed = zlib.compress(content, 1)
    fresh = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(fresh, "xb") as file:
            file.write(digest(key, packed) + packed)
        os.replace(fresh, path)
    except OSError:
        if os.path.exists(fresh):
            os.unlink(fresh)


def run(cc1: str, arguments: list[str], output: int) -> tuple[int, bytes]:
    """Run cc1; return its status and what it wrote on ``output``: standard output or error.

    What it writes on standard error besides is lost.
    """
    reader, writer = os.pipe()
    actions: list[tuple[object, ...]] = []
    actions += [(os.POSIX_SPAWN_OPEN, _ERRORS, os.devnull, os.O_WRONLY, 0)] * (output != _ERRORS)
    actions.append((os.POSIX_SPAWN_DUP2, writer, output))
    pid = os.posix_spawn(cc1, [cc1, *arguments], os.environ, file_actions=actions)
    os.close(writer)
    with open(reader, "rb") as file:
        written = file.read()
    return os.waitpid(pid, 0)[1], written


def compile_once(cc1: str, folder: str, arguments: list[str]) -> int:
    """Do what ``cc1`` does with these arguments; return its exit status."""
    request = request_of(arguments)
    if request is None:
        os.execv(cc1, [cc1, *arguments])
    output, others = request
    named = keeps_paths(others)
    status, text = run(cc1, ["-E", *([] if named else ["-P"]), *others], _OUTPUT)
    if status or b".incbin" in text:
        os.execv(cc1, [cc1, *arguments])  # so that messages come from the compiler itself
    key = digest(identity(cc1), repr(others if named else without_folders(others)).encode(), text)
    path = os.path.join(folder, key.hex()[:2], key.hex())
    found = read_entry(path, key)
    if found is not None:
        with open(output, "wb") as file:
            file.write(found)
        return 0
    status, messages = run(cc1, arguments, _ERRORS)
    os.write(_ERRORS, messages)
    if status == 0 and not messages:  # a warning is to be seen again
        with open(output, "rb") as file:
            write_entry(path, key, file.read())
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(compile_once(sys.argv[1], sys.argv[2], sys.argv[3:]))
