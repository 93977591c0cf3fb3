"""The class of all groups of verbs: help lists each verb with its whole summary."""

from typing import Final

import click

_UNCUT: Final = 10_000


class VerbGroup(click.Group):
    """A group whose help wraps summaries of verbs that are longer than a line; click cuts them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of the verbs."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(_UNCUT))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
