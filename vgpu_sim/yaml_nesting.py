"""A limit of nesting for YAML from people and files.

PyYAML composes nodes recursively, libyaml's loader on C's stack: some thousand brackets end the
process.
"""

from typing import Any, Final

import yaml

DEEPEST: Final = 64  # levels


class NestingError(yaml.MarkedYAMLError):
    """A document is nested more deeply than ``DEEPEST`` levels."""


def check_nesting(text: str, loader: Any) -> None:
    """Refuse deep nesting by the parser's events, which are read without recursion.

    Raises:
        NestingError: names the line.
        yaml.YAMLError: the text is not YAML.
    """
    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                problem = f"nested more than {DEEPEST} levels deep"
                raise NestingError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
