"""The rules for instances that exist together, with a sentence for every broken rule.

Five rules: an instance belongs to the board, placements do not overlap, no profile exceeds its
maximum count, and neither compute slices nor engines are assigned twice. Other limits follow:
the engines' budget allows "+me" once, and no other media instance beside "+me.all". The
placement of a whole GPU covers every unit, so it excludes all others.

Compute instances in one GPU instance (same profile, same start) count as one instance; they must
not overlap inside it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from mig.errors import IllegalLayoutError, Obstacle, ObstacleKind
from mig.geometry import Board, Engines, Instance

ENGINE_NAMES = ("copy engine", "decoder", "encoder", "JPEG engine", "optical flow engine")


def check(board: Board, instances: Sequence[Instance]) -> None:
    """Raise IllegalLayoutError, which names every broken rule, unless the instances are legal."""
    broken = violations(board, instances)
    if broken:
        raise IllegalLayoutError(board.key, (obstacle.message for obstacle in broken))


def violations(board: Board, instances: Sequence[Instance]) -> tuple[Obstacle, ...]:
    """Return an obstacle for every rule that the instances break; empty if they are legal."""
    own = (*board.profiles, board.whole)
    foreign = [instance for instance in instances if instance.profile not in own]
    if foreign:
        return tuple(
            Obstacle(
                ObstacleKind.PLACEMENT,
                f"{instance} is of board {instance.profile.board_key}, not {board.key}",
            )
            for instance in foreign
        )
    whole = [instance for instance in instances if instance.compute is None]
    divided = dict.fromkeys(
        instance.gpu_instance for instance in instances if instance.compute is not None
    )
    gpu_instances = [*whole, *divided]
    return (
        *_overlaps(instances),
        *_max_counts(gpu_instances),
        *_compute(board, gpu_instances),
        *_engines(board, gpu_instances),
    )


def pluralize(number: int, noun: str) -> str:
    """Return the number with its noun in singular or plural: "1 decoder", "2 decoders"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def total_engines(instances: Iterable[Instance]) -> Engines:
    """For each kind of engine, add up the engines of all these instances."""
    return sum((instance.profile.engines for instance in instances), Engines())


def _overlaps(instances: Sequence[Instance]) -> list[Obstacle]:
    return [
        Obstacle(ObstacleKind.PLACEMENT, f"{first} overlaps {second}")
        for first, second in combinations(instances, 2)
        if first.overlaps(second)
    ]


def _max_counts(instances: Sequence[Instance]) -> list[Obstacle]:
    counts = Counter(instance.profile for instance in instances)
    return [
        Obstacle(
            ObstacleKind.MAX_COUNT,
            f"{count} of {profile.name}, a board has at most {profile.max_count}",
        )
        for profile, count in counts.items()
        if count > profile.max_count
    ]


def _compute(board: Board, instances: Sequence[Instance]) -> list[Obstacle]:
    used = sum(instance.profile.compute_slices for instance in instances)
    if used <= board.compute_slices:
        return []
    message = f"{pluralize(used, 'compute slice')}, the board has {board.compute_slices}"
    return [Obstacle(ObstacleKind.COMPUTE, message)]


def _engines(board: Board, instances: Sequence[Instance]) -> list[Obstacle]:
    owned = [instance.profile.engines.counts() for instance in instances]
    obstacles = []
    for column, limit in enumerate(board.engines.counts()):
        used = sum(counts[column] for counts in owned)
        if used > limit:
            owners = ", ".join(
                f"{instance} {counts[column]}"
                for instance, counts in zip(instances, owned, strict=True)
                if counts[column]
            )
            obstacles.append(
                Obstacle(
                    ObstacleKind.ENGINES,
                    f"{pluralize(used, ENGINE_NAMES[column])} ({owners}), the board has {limit}",
                )
            )
    return obstacles
