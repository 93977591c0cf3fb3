"""Exact enumeration of the legal states of a board.

A state is a set of placed instances that the hardware accepts. Every subset of a legal state is
legal, so growing states one instance at a time, in a fixed order of placements, reaches each state
exactly once. An eight-unit board has 723 states of plain profiles: small enough to list.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mig.geometry import Board, Instance, Profile
from mig.planner.occupancy import Budget, Occupancy, budget_of

State = tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Census:
    """The numbers of a board's legal states, and of the maximal ones among them.

    A state is a set of placed instances. No further instance can be added to a maximal state.
    ``multisets`` is the number of different multisets of profiles in the maximal states.
    """

    states: int
    maximal: int
    multisets: int


def plain_profiles(board: Board) -> tuple[Profile, ...]:
    """Return the board's profiles that have no media or graphics attribute."""
    return tuple(profile for profile in board.profiles if profile.is_plain)


def classic_profiles(board: Board) -> tuple[Profile, ...]:
    """Return the board's profiles for which ``is_classic`` is true.

    These are the plain profiles without the one that has one compute slice and twice the memory
    of "1g".
    """
    return tuple(profile for profile in board.profiles if profile.is_classic)


def states(board: Board, profiles: Sequence[Profile] | None = None) -> tuple[State, ...]:
    """Return every legal state with instances of the given profiles, the empty state first.

    By default, the profiles are the plain ones. Instances of a state are in the order of their
    starts.
    """
    return tuple(state for state, _ in occupied_states(board, _choose(board, profiles)))


def maximal_states(board: Board, profiles: Sequence[Profile] | None = None) -> tuple[State, ...]:
    """Return the legal states to which no further instance of the given profiles can be added."""
    return _maximal(board, _choose(board, profiles))


def multisets(
    board: Board, profiles: Sequence[Profile] | None = None
) -> tuple[tuple[tuple[Profile, int], ...], ...]:
    """Return the different multisets of profiles in the maximal states.

    A multiset is a tuple of (profile, count).
    """
    order = {profile: index for index, profile in enumerate(board.profiles)}
    unique_multisets = {
        tuple(
            sorted(
                Counter(instance.profile for instance in state).items(),
                key=lambda entry: order[entry[0]],
            )
        ): None
        for state in maximal_states(board, profiles)
    }
    return tuple(unique_multisets)


def census(board: Board, profiles: Sequence[Profile] | None = None) -> Census:
    """Count a board's legal states, maximal states, and multisets of profiles in maximal states.

    A multiset that several maximal states have is counted once.
    """
    return Census(
        states=len(states(board, profiles)),
        maximal=len(maximal_states(board, profiles)),
        multisets=len(multisets(board, profiles)),
    )


@lru_cache(maxsize=64)
def occupied_states(
    board: Board, profiles: tuple[Profile, ...]
) -> tuple[tuple[State, Occupancy], ...]:
    """Return every legal state, each with its occupancy: the units and budgets that it uses."""
    budget = budget_of(board)
    return tuple(_grow(budget, _atoms(board, profiles), (), Occupancy(), 0))


def _choose(board: Board, profiles: Sequence[Profile] | None) -> tuple[Profile, ...]:
    return plain_profiles(board) if profiles is None else tuple(profiles)


@lru_cache(maxsize=64)
def _atoms(board: Board, profiles: tuple[Profile, ...]) -> tuple[tuple[Instance, Occupancy], ...]:
    budget = budget_of(board)
    instances = [Instance(profile, start) for profile in profiles for start in profile.starts]
    instances.sort(key=lambda instance: instance.start)  # stable: then by the table's order
    return tuple((atom, budget.of(atom.profile, atom.start)) for atom in instances)


def _grow(
    budget: Budget,
    atoms: tuple[tuple[Instance, Occupancy], ...],
    state: State,
    occupancy: Occupancy,
    first: int,
) -> Iterator[tuple[State, Occupancy]]:
    yield state, occupancy
    for index in range(first, len(atoms)):
        atom, cost = atoms[index]
        if budget.is_compatible(occupancy, cost):
            yield from _grow(budget, atoms, (*state, atom), occupancy | cost, index + 1)


@lru_cache(maxsize=64)
def _maximal(board: Board, profiles: tuple[Profile, ...]) -> tuple[State, ...]:
    budget = budget_of(board)
    costs = [cost for _, cost in _atoms(board, profiles)]
    return tuple(
        state
        for state, occupancy in occupied_states(board, profiles)
        if not any(budget.is_compatible(occupancy, cost) for cost in costs)
    )
