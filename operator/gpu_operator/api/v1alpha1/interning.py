"""Sharing of equal parts between models, of which thousands are stored, to save memory.

A GPU with seven slices consists of some twenty small models. Each model has a set with the names
of its given fields, and strings that occur in most other models, too. These sets and strings
take more than half of a GPU's memory.
"""

import sys
from typing import Any, TypeVar

from pydantic import BaseModel

_WORD = 64  # longer strings are rarely equal
_MOST = 4096  # distinct sets; few occur: programs write objects, and users set few fields

ModelT = TypeVar("ModelT", bound=BaseModel)
_given: dict[tuple[type[BaseModel], frozenset[str]], set[str]] = {}


def intern_model(model: ModelT) -> ModelT:
    """Intern the strings of a frozen model, to save memory; return the same model.

    Models of one type in which the same fields are set share one set of field names.
    """
    _intern_value(model)
    return model


def _intern_value(value: Any) -> None:
    if isinstance(value, tuple):
        for item in value:
            _intern_value(item)
    elif isinstance(value, BaseModel):
        given = value.__pydantic_fields_set__
        if len(_given) < _MOST:
            # The shared set is never modified: changing a frozen model copies the model with its
            # set.
            shared = _given.setdefault((type(value), frozenset(given)), given)
            object.__setattr__(value, "__pydantic_fields_set__", shared)
        fields = value.__dict__
        for name, item in fields.items():
            if type(item) is str:
                if len(item) < _WORD:
                    fields[name] = sys.intern(item)
            elif isinstance(item, tuple | BaseModel):
                _intern_value(item)
