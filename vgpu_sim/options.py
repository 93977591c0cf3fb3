"""Command line options of a daemon, declared as fields of the frozen dataclasses that use them.

``option`` declares a field that the command line sets: the option's names, type, default, and a
help text that states the unit. ``command_line`` adds the options of all such fields to a click
command, in the order of the fields. It calls the command with a ``Given``, which creates the
dataclasses. To add an option, add one field.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import click

from vgpu_sim.records import dataclass

_METADATA: Final = "option"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Option:
    """The command line option of a dataclass field; ``settings`` are further arguments of
    click.option.
    """

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
    """Declare a dataclass field that is a command line option.

    Args:
        names: the option's names; by default the field's name, with dashes.
        default: the default of the field, and of the option unless ``option_default`` is given;
            a field without a default is None if its option is optional and absent.
        convert: converts the option's value to the field's value. ``Given.make`` calls it, but not
            for None.
        after: name of the option after which ``--help`` lists this one; by default the order is
            that of the fields.
        settings: arguments of ``click.option``, such as ``help``. ``type`` is by default the
            field's type.
    """
    if "option_default" in settings:
        settings["default"] = settings.pop("option_default")
    elif default is not MISSING:
        settings["default"] = default
    declared = Option(names, convert, after, settings)
    return field(default=default, metadata={_METADATA: declared})


class Given:
    """The option values of one command line. Options are declared by dataclasses, and ``make``
    creates an instance of such a dataclass from the values.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Hold the option values as click passes them, keyed by click's parameter names."""
        self._values = values

    def make(self, kind: type[_T], **derived: Any) -> _T:
        """Create an instance of ``kind``; ``derived`` supplies the fields that are not options.

        Raises:
            any error that a ``convert`` raises.
        """
        field_values = dict(derived)
        for option_field, declared in _options_of(kind):
            if option_field.name in derived:
                continue
            value = self._values[_parameter(kind, option_field)]
            if declared.convert is not None and value is not None:
                value = declared.convert(value)
            field_values[option_field.name] = value
        return kind(**field_values)

    def missing_options(self, kind: type) -> list[str]:
        """Return the names of the options of ``kind`` that have no default and are absent."""
        return [
            _names(option_field, declared)[0]
            for option_field, declared in _options_of(kind)
            if option_field.default is MISSING
            and self._values[_parameter(kind, option_field)] is None
        ]


def command_line(*kinds: type) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Return a decorator that adds the options of these dataclasses; apply it below
    ``click.command``.
    """

    def decorate(serve: Callable[[Given], None]) -> Callable[..., None]:
        @functools.wraps(serve)
        def callback(**values: Any) -> None:
            serve(Given(values))

        for decorator in reversed(list(_decorators(kinds))):
            callback = decorator(callback)
        return callback

    return decorate


def to_arguments(values: object) -> list[str]:
    """Return command line arguments that set a dataclass's options to its field values. Fields that
    are None or False are omitted.
    """
    arguments: list[str] = []
    for option_field, declared in _options_of(type(values)):
        value = getattr(values, option_field.name)
        if value is True:
            arguments.append(_names(option_field, declared)[0])
        elif value is not None and value is not False:
            arguments.extend((_names(option_field, declared)[0], str(value)))
    return arguments


def declared_by(kind: type) -> dict[str, tuple[tuple[str, ...], Option]]:
    """Return the options of a dataclass by field. The value for each field has the option's names
    and the ``Option``.
    """
    return {
        option_field.name: (_names(option_field, declared), declared)
        for option_field, declared in _options_of(kind)
    }


def _decorators(kinds: Iterable[type]) -> Iterable[Callable[[Any], Any]]:
    in_order: dict[str, Callable[[Any], Any]] = {}
    for kind in kinds:
        hints = get_type_hints(kind)
        for option_field, declared in _options_of(kind):
            names = _names(option_field, declared)
            settings = {**_type_of(hints[option_field.name]), **declared.settings}
            decorator = click.option(*names, _parameter(kind, option_field), **settings)
            if declared.after is None:
                in_order[names[0]] = decorator
                continue
            rows = list(in_order.items())
            place = list(in_order).index(declared.after) + 1
            in_order = dict([*rows[:place], (names[0], decorator), *rows[place:]])
    return in_order.values()


def _options_of(kind: type) -> Iterator[tuple[Field[Any], Option]]:
    for option_field in fields(kind):
        if _METADATA in option_field.metadata:
            yield option_field, option_field.metadata[_METADATA]


def _names(option_field: Field[Any], declared: Option) -> tuple[str, ...]:
    return declared.names or (f"--{option_field.name.replace('_', '-')}",)


def _parameter(kind: type, option_field: Field[Any]) -> str:
    return f"{kind.__name__}_{option_field.name}"


def _type_of(hint: Any) -> dict[str, Any]:
    """Return click's type for a field's type; "X | None" is treated as X."""
    if get_origin(hint) is UnionType:
        hint = next(member for member in get_args(hint) if member is not type(None))
    if hint is bool:
        return {"is_flag": True}
    return {"type": click.Path(path_type=Path) if hint is Path else hint}
