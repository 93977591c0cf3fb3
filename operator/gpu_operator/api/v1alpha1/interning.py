"""Sharing of equal parts between models, of which thousands are stored, to save memory.

A GPU with seven slices consists of some twenty small models. Its instances are equal to those of
thousands of GPUs. Models also have a set with the names of their given fields, and strings and
numbers that occur in most other models.
"""

import sys
from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from gpu_operator.api.v1alpha1.gpu import PlacedInstance

_WORD: Final = 64  # longer strings are rarely equal
_MOST: Final = 4096  # distinct values of each type; few occur: users set few fields
_WIDE: Final = 2  # fields; more take less memory in a dictionary that shares its keys
# Fields whose values seldom repeat:
_UNIQUE: Final = frozenset({"uid", "uuid", "name", "memory_used_bytes", "last_transition_time"})

ModelT = TypeVar("ModelT", bound=BaseModel)
_given: dict[tuple[type[BaseModel], frozenset[str]], set[str]] = {}
_values: dict[type, dict[Hashable, Any]] = {}
_holders: dict[type[BaseModel], type] = {}  # by model, a class whose instances share keys


def intern_model(model: ModelT) -> ModelT:
    """Intern the parts of a frozen model, to save memory; return the same model.

    Equal small models, strings and numbers exist once. Models of one type in which the same fields
    are set share one set of field names.
    """
    fields_set = model.__pydantic_fields_set__
    if len(_given) < _MOST:
        # The shared set is never modified: changing a frozen model copies the model with its set.
        shared = _given.setdefault((type(model), frozenset(fields_set)), fields_set)
        object.__setattr__(model, "__pydantic_fields_set__", shared)
    fields = model.__dict__
    for name, value in fields.items():
        if name not in _UNIQUE and value is not None:
            fields[name] = _intern_value(value)
    if len(fields) > _WIDE:
        object.__setattr__(model, "__dict__", _share_keys(type(model), fields))
    return model


def _share_keys(of: type[BaseModel], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields in a dictionary that shares its keys with those of other models (PEP 412).

    Pydantic fills dictionaries of their own, which take about twice the memory. The dictionary
    belongs to a plain class: CPython 3.11 reserves less room for shared keys with each instance
    of a class, so a model's own class has none left after some 30 validated models.
    """
    holder = _holders.get(of)
    if holder is None:
        holder = _holders[of] = type(of.__name__, (), {})
    plain_object = holder()
    for name, value in fields.items():
        setattr(plain_object, name, value)
    shared: Mapping[str, Any] = plain_object.__dict__
    return shared


def _intern_value(value: Any) -> Any:
    """Return the value, or an equal one that is already stored."""
    match value:
        case str():
            return sys.intern(value) if type(value) is str and len(value) < _WORD else value
        case bool():
            return value
        case int():
            return _share(value)
        case tuple():
            items = tuple(_intern_value(item) for item in value)
            instances = all(isinstance(item, PlacedInstance) for item in items)
            return _share(items) if instances else items
        case PlacedInstance():
            return _share(intern_model(value))
        case BaseModel():
            return intern_model(value)
        case _:
            return value


def _share(value: Any) -> Any:
    shared_values = _values.setdefault(type(value), {})
    return (
        shared_values.setdefault(value, value)
        if len(shared_values) < _MOST
        else shared_values.get(value, value)
    )
