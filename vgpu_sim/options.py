"""Command line options of a daemon, declared as fields of the frozen dataclasses that it reads.

``option`` declares a field that the command line sets: its names, type, default and help text, with
its unit. ``command_line`` adds the options of all such fields to a click command, in their
order, and calls it with a ``Given``, which makes the dataclasses. A new option is one new field.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import click

_METADATA: Final = "option"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Option:
    """How the command line names a field; ``settings`` are further arguments of click.option."""

    names: tuple[str, ...]
    convert: Callable[[Any], Any] | None
    after: str | None
    settings: Mapping[str, Any]


def option(
    *names: str,
    default: Any = MISSING,
    convert: Callable[[Any], Any] | None = None,
    after: str | None = None,
    **settings: Any,
) -> Any:
    """Declare a dataclass field that is an option.

    Args:
        names: the option's; without any, the field's with dashes.
        default: of the field, and of the option unless ``option_default`` is given; a field
            without one is None where its option is optional and not given.
        convert: makes the field's value of the option's, unless that is None, in ``Given.make``.
        after: name of the option that ``--help`` lists before this one, instead of the field's
            neighbour.
        settings: arguments of ``click.option``, such as ``help``; ``type`` is the field's unless
            given.
    """
    if "option_default" in settings:
        settings["default"] = settings.pop("option_default")
    elif default is not MISSING:
        settings["default"] = default
    declared = Option(names, convert, after, settings)
    return field(default=default, metadata={_METADATA: declared})


class Given:
    """What a command line gives to the dataclasses that declare its options."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """``values`` are click's, by parameter."""
        self._values = values

    def make(self, kind: type[_T], **derived: Any) -> _T:
        """Return an instance of ``kind``, whose fields in ``derived`` come from elsewhere.

        Raises:
            what a ``convert`` raises.
        """
        found = dict(derived)
        for one, declared in _options_of(kind):
            if one.name in derived:
                continue
            value = self._values[_parameter(kind, one)]
            if declared.convert is not None and value is not None:
                value = declared.convert(value)
            found[one.name] = value
        return kind(**found)

    def lacks(self, kind: type) -> list[str]:
        """Return the names of the options of ``kind`` that have no default and were not given."""
        return [
            _names(one, declared)[0]
            for one, declared in _options_of(kind)
            if one.default is MISSING and self._values[_parameter(kind, one)] is None
        ]


def command_line(*kinds: type) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Return a decorator, below ``click.command``, that adds the options of these dataclasses."""

    def decorate(serve: Callable[[Given], None]) -> Callable[..., None]:
        @functools.wraps(serve)
        def called(**values: Any) -> None:
            serve(Given(values))

        for decorator in reversed(list(_decorators(kinds))):
            called = decorator(called)
        return called

    return decorate


def words(values: object) -> list[str]:
    """Return the words of a command line that give a dataclass's fields; None is left out."""
    found: list[str] = []
    for one, declared in _options_of(type(values)):
        value = getattr(values, one.name)
        if value is True:
            found.append(_names(one, declared)[0])
        elif value is not None and value is not False:
            found.extend((_names(one, declared)[0], str(value)))
    return found


def declared_by(kind: type) -> dict[str, tuple[tuple[str, ...], Option]]:
    """Return the options of a dataclass and their names, by field."""
    return {one.name: (_names(one, declared), declared) for one, declared in _options_of(kind)}


def _decorators(kinds: Iterable[type]) -> Iterable[Callable[[Any], Any]]:
    in_order: dict[str, Callable[[Any], Any]] = {}
    for kind in kinds:
        hints = get_type_hints(kind)
        for one, declared in _options_of(kind):
            names = _names(one, declared)
            settings = {**_type_of(hints[one.name]), **declared.settings}
            made = click.option(*names, _parameter(kind, one), **settings)
            if declared.after is None:
                in_order[names[0]] = made
                continue
            rows = list(in_order.items())
            place = list(in_order).index(declared.after) + 1
            in_order = dict([*rows[:place], (names[0], made), *rows[place:]])
    return in_order.values()


def _options_of(kind: type) -> Iterator[tuple[Field[Any], Option]]:
    for one in fields(kind):
        if _METADATA in one.metadata:
            yield one, one.metadata[_METADATA]


def _names(one: Field[Any], declared: Option) -> tuple[str, ...]:
    return declared.names or (f"--{one.name.replace('_', '-')}",)


def _parameter(kind: type, one: Field[Any]) -> str:
    return f"{kind.__name__}_{one.name}"


def _type_of(hint: Any) -> dict[str, Any]:
    """Return click's type of a field's type; "X | None" is an X."""
    if get_origin(hint) is UnionType:
        hint = next(one for one in get_args(hint) if one is not type(None))
    if hint is bool:
        return {"is_flag": True}
    return {"type": click.Path(path_type=Path) if hint is Path else hint}
