"""Models that are kept by the thousand share what is alike in them.

A GPU with seven slices is some twenty small models. Each has a set of the fields that were given,
and words of its own that all others have, too: more than half of what it takes.
"""

import sys
from typing import Any, TypeVar

from pydantic import BaseModel

_WORD = 64  # longer texts are hardly alike
_MOST = 4096  # different sets: objects are written by programs, and people write few fields

ModelT = TypeVar("ModelT", bound=BaseModel)
_given: dict[tuple[type[BaseModel], frozenset[str]], set[str]] = {}


def share(model: ModelT) -> ModelT:
    """Return the same model, which must be frozen, with shared words and sets of fields."""
    _share(model)
    return model


def _share(value: Any) -> None:
    if isinstance(value, tuple):
        for item in value:
            _share(item)
    elif isinstance(value, BaseModel):
        given = value.__pydantic_fields_set__
        if len(_given) < _MOST:
            # Nobody adds to it: a model that is frozen is copied, with its set, to be changed.
            shared = _given.setdefault((type(value), frozenset(given)), given)
            object.__setattr__(value, "__pydantic_fields_set__", shared)
        fields = value.__dict__
        for name, item in fields.items():
            if type(item) is str:
                if len(item) < _WORD:
                    fields[name] = sys.intern(item)
            elif isinstance(item, tuple | BaseModel):
                _share(item)
