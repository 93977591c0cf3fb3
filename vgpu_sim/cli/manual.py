"""Manual pages and shell completion files: ``python -m vgpu_sim.cli.manual DIRECTORY``.

They are written from the commands' own help when a wheel is built, and installed below
``share``, where man, bash, zsh and fish look for them.
"""

import importlib
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from vgpu_sim.cli.main import main as tessera

COMPLETIONS: Final = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
_PLUGIN: Final = "console.kubectl.command"
_SEE_ALSO: Final = "docs/README.md in the source distribution lists all pages."


def write_all(directory: Path) -> None:
    """Write all files below a directory. Raises ImportError if a program cannot be imported."""
    programs = {"tessera": tessera, "kubectl-tessera": importlib.import_module(_PLUGIN).command}
    pages = directory / "man" / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    for name, program in programs.items():
        for path, context in walk(program, name):
            text = page(path, context)
            (pages / f"{'-'.join(path)}.1").write_text(text, encoding="utf-8")
    for shell, place in COMPLETIONS.items():
        file = directory / place.format("tessera")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(completion(shell), encoding="utf-8")


def walk(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Yield every command below a program, with its name as a path of words."""
    names = path or (command.name or "",)
    parent = click.Context(click.Group(), info_name=" ".join(names[:-1])) if names[1:] else None
    context = click.Context(command, parent, info_name=names[-1])
    yield names, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from walk(below, *names, name)


def page(path: tuple[str, ...], context: click.Context) -> str:
    """Return a manual page in man(7)'s macros."""
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    text = re.sub(r"[\b\f]", "", command.help or "").strip()
    first, _, description = text.partition("\n\n")
    summary = " ".join(first.split()).rstrip(".")
    name = "-".join(path)
    version = _version()
    lines = [
        f'.TH "{name.upper()}" "1" "" "Tessera {version}" "Tessera"',
        ".SH NAME",
        f"{_escape(name)} \\- {_escape(summary)}",
        ".SH SYNOPSIS",
        f"\\fB{_escape(' '.join(path))}\\fR {_escape(usage)}",
    ]
    if description:
        lines.append(".SH DESCRIPTION")
        for paragraph in description.split("\n\n"):
            lines += [".PP", _escape(" ".join(paragraph.split()))]
    options = [
        record
        for parameter in command.get_params(context)
        if (record := _record(parameter, context))
    ]
    if options:
        lines.append(".SH OPTIONS")
        for option, meaning in options:
            lines += [".TP", f"\\fB{_escape(option)}\\fR", _escape(" ".join(meaning.split()))]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below in command.list_commands(context):
            subcommand = command.get_command(context, below)
            if subcommand is not None and not subcommand.hidden:
                meaning = subcommand.get_short_help_str(limit=200)
                lines += [".TP", f"\\fB{_escape(f'{name}-{below}')}\\fR(1)", _escape(meaning)]
    lines += [".SH SEE ALSO", _SEE_ALSO]
    return "\n".join(lines) + "\n"


def completion(shell: str) -> str:
    """Return the completion of ``tessera`` for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    text = kind(tessera, {}, "tessera", "_TESSERA_COMPLETE").source()
    return f"#compdef tessera\n{text}" if shell == "zsh" and "#compdef" not in text else text


def _record(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    return parameter.get_help_record(context)


def _escape(text: str) -> str:
    """Return text whose backslashes, hyphens and leading dots man prints as they are."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped)


def _version() -> str:
    """Return the version: of the checkout, if this module is in one."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return importlib.metadata.version("tessera")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
