"""The distribution of a model over the GPUs of a node."""

from typing import Final

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.models.architectures import Architecture
from vgpu_sim.records import dataclass

NODE: Final = 8  # GPUs: collectives among more were not measured
RANKS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Layout:
    """How many ranks (GPUs) each kind of parallelism uses.

    ``tp`` ranks share each matrix, ``pp`` ranks share the layers, and ``dp`` ranks compute
    attention for different sequences. A stage has tp x dp ranks. The experts of a layer are divided
    into ``ep`` groups, and tp x dp / ep ranks share each expert.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    @property
    def gpus(self) -> int:
        """The number of GPUs of the layout."""
        return self.tp * self.pp * self.dp

    @property
    def stage(self) -> int:
        """The number of GPUs in one stage, which have the same layers."""
        return self.tp * self.dp

    def __str__(self) -> str:
        named = {"tp": self.tp, "pp": self.pp, "dp": self.dp, "ep": self.ep}
        return ", ".join(f"{n} {v}" for n, v in named.items() if v > 1 or n == "tp")

    def check(self, model: Architecture) -> None:
        """Check that a model can be distributed this way. Raises BadShape, which states the sizes
        that do not divide evenly.

        ``tp`` must divide the number of heads, and ``ep`` must divide the number of GPUs of a
        stage. ``ep`` and ``dp`` must be 1 for a model without experts.
        """
        for name in ("tp", "pp", "dp", "ep"):
            if getattr(self, name) not in RANKS:
                allowed_ranks = ", ".join(map(str, RANKS))
                raise BadShape(f"{name} must be one of {allowed_ranks}, not {getattr(self, name)}")
        if self.gpus > NODE:
            raise BadShape(
                f"tp x pp x dp is {self.gpus}: collectives among more than the {NODE} GPUs of a "
                "node were not measured"
            )
        if model.heads % self.tp:
            raise BadShape(
                f"{model.name} has {model.heads} heads: tp {self.tp} does not divide {model.heads}"
            )
        if self.ep > 1 and not model.experts:
            raise BadShape(f"{model.name} has no experts: ep must be 1, not {self.ep}")
        if self.stage % self.ep:
            raise BadShape(f"ep {self.ep} must divide tp x dp, which is {self.stage}")
        if self.dp > 1 and not model.experts:
            raise BadShape(f"{model.name} has no experts: dp must be 1, not {self.dp}")
