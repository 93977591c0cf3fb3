"""Every error that ``mig`` raises, drawn as one tree.

    MigError
    ├── UnknownBoardError      no such board key
    ├── UnknownProfileError    no such profile on that board
    ├── SpecError              text or document that does not parse; names position and remedy
    ├── IllegalLayoutError     instances that the hardware would refuse; names each rule broken
    └── PlanError              a request that cannot be met now; names reasons and possible moves
        └── InUseError         the request would destroy a slice that is in use

Messages are lower case, name the object and, where there is one, the remedy. This is the lowest
layer: details are carried as text in the notation of ``mig.spec`` ("3g.40gb@4"), so that they
can go into a Kubernetes condition or a gRPC status unchanged.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from boards.record.names import describe_unknown


class MigError(Exception):
    """Base of all errors of this package."""


class UnknownBoardError(MigError):
    """No board has this key."""

    def __init__(self, key: str, known_keys: Iterable[str]) -> None:
        self.key = key
        self.known = tuple(known_keys)
        super().__init__(describe_unknown("board", key, self.known))


class UnknownProfileError(MigError):
    """The board has no profile of this name or alias."""

    def __init__(self, board_key: str, name: str, legal: Iterable[str]) -> None:
        self.board_key = board_key
        self.name = name
        self.legal = tuple(legal)
        meant = next(
            (legal_name for legal_name in self.legal if legal_name.lower() == name.lower()), None
        )
        hint = f" (case counts: {meant})" if meant is not None else ""
        super().__init__(
            f"board {board_key} has no profile {name!r}{hint};"
            f" legal profiles: {', '.join(self.legal)}"
        )


class SpecError(MigError):
    """A request, an instance or a layout document that cannot be parsed.

    ``position`` locates the error ("instances[2]", "item 1"), ``problem`` describes it, and
    ``remedy`` states what to write instead.
    """

    def __init__(self, position: str, problem: str, remedy: str) -> None:
        self.position = position
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{position}: {problem}; {remedy}")


class IllegalLayoutError(MigError):
    """Instances that cannot exist together, or a placement that the profile does not have."""

    def __init__(self, board_key: str, problems: Iterable[str]) -> None:
        self.board_key = board_key
        self.problems = tuple(problems)
        super().__init__(f"illegal layout on {board_key}: {'; '.join(self.problems)}")


class ObstacleKind(StrEnum):
    """The kinds of reasons why a plan fails."""

    COMPUTE = "compute-slices"
    MEMORY = "memory-units"
    MAX_COUNT = "max-count"
    ENGINES = "engines"
    PLACEMENT = "placement"
    COMBINATION = "combination"
    IN_USE = "in-use"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why a plan fails: ``kind`` is for programs to evaluate, ``message`` for people to
    read.
    """

    kind: ObstacleKind
    message: str


@dataclass(frozen=True, slots=True)
class Move:
    """Moves an instance in use from one placement to another.

    ``source`` and ``target`` are the two placements, such as "1g.10gb@2" and "1g.10gb@6".
    """

    source: str
    target: str


class PlanError(MigError):
    """The wanted slices cannot be placed without moving slices in use, or cannot be placed at all.

    ``obstacles`` are the reasons. ``moves`` is the smallest set of slices in use that would have to
    move on the same board; it is empty if no move helps. In that case ``evictions`` is the smallest
    set of slices that would have to leave the board. Both are empty if the request does not even
    fit an empty board.
    """

    def __init__(
        self,
        summary: str,
        obstacles: Iterable[Obstacle],
        moves: Iterable[Move] = (),
        evictions: Iterable[str] = (),
    ) -> None:
        self.summary = summary
        self.obstacles = tuple(obstacles)
        self.moves = tuple(moves)
        self.evictions = tuple(evictions)
        super().__init__("\n".join([summary, *(f"  - {line}" for line in self._details())]))

    def _details(self) -> list[str]:
        lines = [obstacle.message for obstacle in self.obstacles]
        if self.moves:
            moves = ", ".join(f"{move.source} -> {move.target}" for move in self.moves)
            lines.append(f"it would fit after moving {len(self.moves)} in use: {moves}")
        elif self.evictions:
            lines.append(
                "no move on this board helps; it would fit without "
                f"{len(self.evictions)} in use: {', '.join(self.evictions)}"
            )
        return lines


class InUseError(PlanError):
    """A desired layout omits instances that are in use; ``instances`` are their names."""

    def __init__(self, summary: str, instances: Iterable[str]) -> None:
        self.instances = tuple(instances)
        super().__init__(
            summary,
            [
                Obstacle(
                    ObstacleKind.IN_USE,
                    f"{name} is in use: release it first, or keep it in the layout",
                )
                for name in self.instances
            ],
        )
