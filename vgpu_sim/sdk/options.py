"""The command line of ``tessera cc``, in nvcc's spelling."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from vgpu_sim.records import dataclass
from vgpu_sim.sdk.errors import CompileError


@dataclass
class Options:
    """A parsed command line. Lists keep the order of the arguments."""

    phase: str = "link"  # or preprocess, compile, ptx, fatbin, device-link, archive, dependencies
    inputs: list[str] = field(default_factory=list)
    output: str | None = None
    relocatable: bool = False
    shared: bool = False
    architecture: str | None = None
    generate: list[str] = field(default_factory=list)
    both: list[str] = field(default_factory=list)  # to host and device compilation
    host: list[str] = field(default_factory=list)  # -Xcompiler
    dependencies: list[str] = field(default_factory=list)  # -MD and those that go with it
    device: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)  # libraries, their folders, -Xlinker
    language: str | None = None
    optimization: str = "-O3"
    device_debug: bool = False
    standard: str = "c++17"
    ccbin: str | None = None
    cudart: str = "shared"
    dry_run: bool = False
    verbose: bool = False
    keep: bool = False
    keep_dir: str = "."
    action: str | None = None  # "help" or "version": print it and end
    ignored: list[str] = field(default_factory=list)


PER_THREAD = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"  # renames functions in the headers

_Setter = Callable[[Options, str], None]


def _phase(name: str, *, relocatable: bool | None = None) -> _Setter:
    def apply(options: Options, _: str) -> None:
        options.phase = name
        if relocatable is not None:
            options.relocatable = relocatable

    return apply


def _put(name: str, value: object) -> _Setter:
    return lambda options, _: setattr(options, name, value)


def _store(name: str) -> _Setter:
    return lambda options, value: setattr(options, name, value)


def _add(name: str, prefix: str = "", *, split: bool = False) -> _Setter:
    """Append the value, or each of its comma-separated parts, behind ``prefix``."""

    def apply(options: Options, value: str) -> None:
        values = _split(value) if split else [value]
        getattr(options, name).extend(prefix + part for part in values)

    return apply


def _file(name: str) -> str:
    """Return a file's name that tools take for neither an option nor a response file."""
    return f"./{name}" if name.startswith(("@", "-")) and name != "-" else name


def _pair(name: str, first: str) -> _Setter:
    return lambda options, value: getattr(options, name).extend([first, _file(value)])


def _flag(flag: str) -> _Setter:
    return lambda options, _: options.dependencies.append(flag)


def _depend(flag: str) -> _Setter:
    return lambda options, value: options.dependencies.append(flag + _file(value))


def _compiler(options: Options, value: str) -> None:
    """Pass words to the host compiler; those about dependencies belong to compilation alone."""
    words = iter(_split_words(value))
    for word in words:
        if word in _DEPENDENCY_VALUES:
            options.dependencies.append(word + _file(next(words, "")))
        elif word.startswith("-M"):
            options.dependencies.append(word)
        else:
            options.host.append(word)


def _linker(options: Options, value: str) -> None:
    for word in _split_words(value):
        options.link += ["-Xlinker", word]


def _split(value: str) -> list[str]:
    """Split a list at its commas; a backslash before a comma keeps the comma."""
    return [part.replace("\0", ",") for part in value.replace("\\,", "\0").split(",") if part]


def _split_words(value: str) -> list[str]:
    """Split a list of options at commas and, as a shell does, at blanks outside quotes."""
    return [word for part in _split(value) for word in _split_blanks(part, value)]


def _split_blanks(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as err:
        raise CompileError(f"{source}: {str(err).lower()}") from err


def _boolean(name: str) -> _Setter:
    def apply(options: Options, value: str) -> None:
        if value not in ("true", "false"):
            raise CompileError(f"'{value}' is neither true nor false")
        setattr(options, name, value == "true")

    return apply


def _set_ftz(options: Options, value: str) -> None:
    if value == "true":
        options.device += ["-fcuda-flush-denormals-to-zero"]


def _set_fmad(options: Options, value: str) -> None:
    options.device.append("-ffp-contract=fast" if value == "true" else "-ffp-contract=off")


def _set_fast_math(options: Options, _: str) -> None:
    # nvcc's option approximates functions and flushes subnormal numbers; it reorders nothing.
    options.device += ["-fcuda-approx-transcendentals", "-fcuda-flush-denormals-to-zero"]


def _set_default_stream(options: Options, value: str) -> None:
    if value not in ("legacy", "null", "per-thread"):
        raise CompileError(f"--default-stream {value}: expected legacy or per-thread")
    if value == "per-thread":
        options.both.append(PER_THREAD)


def _set_language(options: Options, value: str) -> None:
    if value not in _LANGUAGES:
        raise CompileError(f"-x {value}: expected one of {', '.join(_LANGUAGES)}")
    options.language = value


def _set_cudart(options: Options, value: str) -> None:
    if value not in ("shared", "none"):
        raise CompileError(
            f"--cudart {value}: only the shared library exists here; use shared (the default)"
        )
    options.cudart = value


def _refuse(text: str) -> _Setter:
    def apply(_: Options, __: str) -> None:
        raise CompileError(text)

    return apply


def _ignore(options: Options, value: str) -> None:
    options.ignored.append(value)


_LANGUAGES = ("cu", "cuda", "c++", "c")
_DEPENDENCY_VALUES = ("-MF", "-MT", "-MQ")
_CUBIN = "a cubin is machine code of NVIDIA's GPUs, which Tessera has none of; use -ptx or -fatbin"

# Options without a value.
_FLAGS: dict[str, _Setter] = {
    **dict.fromkeys(("c", "compile"), _phase("compile")),
    **dict.fromkeys(("dc", "device-c"), _phase("compile", relocatable=True)),
    **dict.fromkeys(("dw", "device-w"), _phase("compile", relocatable=False)),
    **dict.fromkeys(("ptx",), _phase("ptx")),
    **dict.fromkeys(("fatbin",), _phase("fatbin")),
    **dict.fromkeys(("E", "preprocess"), _phase("preprocess")),
    **dict.fromkeys(("M", "generate-dependencies"), _phase("dependencies")),
    **dict.fromkeys(("dlink", "device-link"), _phase("device-link", relocatable=True)),
    **dict.fromkeys(("lib",), _phase("archive")),
    **dict.fromkeys(("link",), _phase("link")),
    **dict.fromkeys(("cubin",), _refuse(_CUBIN)),
    **dict.fromkeys(("shared",), _put("shared", True)),
    **dict.fromkeys(("g", "debug"), lambda o, _: o.host.append("-g")),
    **dict.fromkeys(("G", "device-debug"), _put("device_debug", True)),
    **dict.fromkeys(("lineinfo", "generate-line-info"), lambda o, _: o.device.append("-g1")),
    **dict.fromkeys(("use_fast_math",), _set_fast_math),
    **dict.fromkeys(("w", "disable-warnings"), lambda o, _: o.both.append("-w")),
    **dict.fromkeys(("v", "verbose"), _put("verbose", True)),
    **dict.fromkeys(("dryrun", "dry-run"), _put("dry_run", True)),
    **dict.fromkeys(("keep", "save-temps"), _put("keep", True)),
    **dict.fromkeys(("h", "help"), _put("action", "help")),
    "include-dir": _put("action", "include-dir"),
    "cuda-home": _put("action", "cuda-home"),
    **dict.fromkeys(("V", "version"), _put("action", "version")),
    **dict.fromkeys(("MD", "generate-dependencies-with-compile"), _flag("-MD")),
    **dict.fromkeys(
        ("MMD", "generate-nonsystem-dependencies-with-compile"), _flag("-MMD")
    ),
    **dict.fromkeys(("MP", "generate-dependency-targets"), _flag("-MP")),
    # clang allows what these permit; the others name steps that do not exist here.
    **dict.fromkeys(
        (
            "expt-relaxed-constexpr", "expt-extended-lambda", "extended-lambda", "m64",
            "forward-unknown-to-host-compiler", "forward-unknown-opts", "restrict", "res-usage",
            "source-in-ptx", "no-align-double", "disable-optimizer-constants",
            "static-global-template-stub", "display-error-number", "no-display-error-number",
            "err-no",
            "extra-device-vectorization", "dlto",
        ),
        _ignore,
    ),
}  # fmt: skip

# Options with a value, in the next argument or behind "=". Names of one or two letters may be
# followed by the value at once (_JOINED).
_VALUES: dict[str, _Setter] = {
    **dict.fromkeys(("o", "output-file"), lambda o, v: setattr(o, "output", _file(v))),
    **dict.fromkeys(("I", "include-path"), _add("both", "-I", split=True)),
    **dict.fromkeys(("isystem", "system-include"), _pair("both", "-isystem")),
    **dict.fromkeys(("include", "pre-include"), _pair("both", "-include")),
    **dict.fromkeys(("D", "define-macro"), _add("both", "-D")),
    **dict.fromkeys(("U", "undefine-macro"), _add("both", "-U")),
    **dict.fromkeys(("L", "library-path"), _add("link", "-L", split=True)),
    **dict.fromkeys(("l", "library"), _add("link", "-l", split=True)),
    **dict.fromkeys(("O", "optimize"), lambda o, v: setattr(o, "optimization", f"-O{v}")),
    **dict.fromkeys(("std",), _store("standard")),
    **dict.fromkeys(("arch", "gpu-architecture"), _store("architecture")),
    **dict.fromkeys(("code", "gpu-code"), _ignore),
    **dict.fromkeys(("gencode", "generate-code"), _add("generate")),
    **dict.fromkeys(("rdc", "relocatable-device-code"), _boolean("relocatable")),
    **dict.fromkeys(("x", "x-language"), _set_language),
    **dict.fromkeys(("Xcompiler", "compiler-options"), _compiler),
    **dict.fromkeys(("Xlinker", "linker-options"), _linker),
    **dict.fromkeys(("ccbin", "compiler-bindir"), _store("ccbin")),
    **dict.fromkeys(("cudart",), _set_cudart),
    **dict.fromkeys(("default-stream",), _set_default_stream),
    **dict.fromkeys(("ftz",), _set_ftz),
    **dict.fromkeys(("fmad",), _set_fmad),
    **dict.fromkeys(("keep-dir",), _store("keep_dir")),
    **dict.fromkeys(("Werror",), lambda o, v: o.both.append("-Werror")),
    **dict.fromkeys(("MF", "dependency-output"), _depend("-MF")),
    **dict.fromkeys(("MT", "dependency-target-name"), _depend("-MT")),
    **dict.fromkeys(("maxrregcount",), _ignore),
    **dict.fromkeys(
        (
            "prec-div", "prec-sqrt", "Xptxas", "ptxas-options", "Xnvlink", "nvlink-options",
            "Xfatbin", "Xcudafe", "diag-suppress", "diag-error", "diag-warn", "threads", "t",
            "split-compile",
            "machine", "Xarchive", "archive-options", "device-entity-has-hidden-visibility",
            "ptxas-path", "objtemp",
        ),
        _ignore,
    ),
}  # fmt: skip

_JOINED = ("I", "D", "U", "L", "l", "O", "o", "x")
_CLANG_ONLY = ("-W", "-f", "-m", "-pthread")  # flags of the host compiler that people give directly


def parse(arguments: list[str]) -> Options:
    """Parse the arguments.

    Raises:
        CompileError: an option is unknown, lacks its value, or names what cannot exist here.
    """
    options = Options()
    remaining_arguments = iter(_expand(arguments))
    for argument in remaining_arguments:
        if not argument.startswith("-") or argument == "-":
            options.inputs.append(_file(argument))
            options.link.append(_file(argument))  # keeps its place among the libraries
        else:
            _apply(options, argument, remaining_arguments)
    return options


def _apply(options: Options, argument: str, remaining_arguments: Iterator[str]) -> None:
    name, equals, value = argument.lstrip("-").partition("=")
    single = not argument.startswith("--")
    if name in _FLAGS and not equals:
        _FLAGS[name](options, argument)
    elif name == "O" and single and not equals:  # gcc's -O
        options.optimization = "-O1"
    elif name in _VALUES:
        if not equals:
            try:
                value = next(remaining_arguments)
            except StopIteration:
                raise CompileError(f"{argument}: an argument is missing") from None
        _VALUES[name](options, value)
    elif single and argument[1] in _JOINED:
        _VALUES[argument[1]](options, argument[2:])
    elif argument == "-pthread":
        options.link.append(argument)
        options.host.append(argument)
    elif single and argument.startswith(_CLANG_ONLY):
        options.host.append(argument)
    else:
        raise CompileError(f"unknown option '{argument}'; `tessera cc --help` lists all")


def _expand(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments, with those of ``-optf FILE`` and ``--options-file=FILE`` in place."""
    remaining_arguments = iter(arguments)
    for argument in remaining_arguments:
        name, _, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and name in ("optf", "options-file"):
            path = value or next(remaining_arguments, "")
            try:
                words = Path(path).read_text()
            except OSError as err:
                raise CompileError(f"{path}: {err.strerror}") from err
            except UnicodeDecodeError as err:
                raise CompileError(f"{path}: not a text in UTF-8") from err
            yield from _split_blanks(words, path)
        else:
            yield argument
