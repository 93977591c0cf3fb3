"""The cards of nodes on the page of the fleet, rendered again only after their objects changed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jinja2 import Environment
from markupsafe import Markup

from console.pages import rendering
from console.views import fleet
from console.views.faults import faults_by_gpu, is_sick
from console.views.fleet import Chosen, Filter
from drawing.slices import BoxState
from gpu_operator.api.v1alpha1.resource import Fault
from gpu_operator.controllers.common.world import World


@dataclass(frozen=True, slots=True)
class Card:
    """A node as markup, and its part of the sums.

    ``source`` and ``faults`` are what it was rendered from.
    """

    html: Markup
    counts: Counter[BoxState]
    gpus: int
    sick: int
    source: Chosen
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the shown nodes."""

    nodes: int
    gpus: int
    sick: int
    counts: Counter[BoxState]


class CardCache:
    """Renders cards. The maps of all nodes are kept for each way of colouring, others are not."""

    def __init__(self, templates: Environment) -> None:
        self._templates = templates
        self._maps: dict[tuple[str, str], Card] = {}

    def render(
        self, world: World, nodes: Sequence[Chosen], chosen: Filter, *, detailed: bool
    ) -> list[Card]:
        """Return the cards of nodes in the given order."""
        if len(self._maps) > 4 * len(world.nodes) + 64:
            self._maps.clear()
        return [self._card(world, node, chosen, detailed) for node in nodes]

    def _card(self, world: World, node: Chosen, chosen: Filter, detailed: bool) -> Card:
        key = (node.name, chosen.colour)
        cached_card = self._maps.get(key)
        by_gpu = faults_by_gpu(world)
        faults = tuple(fault for gpu in node.gpus for fault in by_gpu.get(gpu.name, ()))
        if not detailed and cached_card is not None and _is_same(cached_card, node, faults):
            return cached_card
        view = fleet.view_node(world, node, chosen.colour)
        html = rendering.render(
            self._templates, "cards.html", nodes=(view,), chosen=chosen, detailed=detailed
        )
        sick = sum(is_sick(gpu_view.gpu) for gpu_view in view.gpus)
        card = Card(Markup(html), view.counts, len(view.gpus), sick, node, faults)
        if not detailed:
            self._maps[key] = card
        return card


def add_up(cards: Iterable[Card]) -> Sums:
    """Return the sums over cards."""
    every = list(cards)
    counts: Counter[BoxState] = Counter()
    for card in every:
        counts.update(card.counts)
    return Sums(len(every), sum(c.gpus for c in every), sum(c.sick for c in every), counts)


def _is_same(card: Card, node: Chosen, faults: tuple[Fault, ...]) -> bool:
    """Return whether a card was rendered from these objects; equality would compare every field."""
    source = card.source
    return (
        source.node is node.node
        and source.knows_node == node.knows_node
        and source.knows_faults == node.knows_faults
        and len(source.gpus) == len(node.gpus)
        and len(card.faults) == len(faults)
        and all(a is b for a, b in zip(source.gpus, node.gpus, strict=True))
        and all(a is b for a, b in zip(card.faults, faults, strict=True))
    )
