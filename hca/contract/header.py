"""Render the C headers of the RDMA ABI; ``tessera_rdma_abi.h`` includes all other headers."""

from hca.contract import (
    cm,
    hca,
    hca_engine,
    hca_frames,
    hca_objects,
    operations_header,
    verbs,
)
from rdma.verbs import Verb
from vgpu_sim.hal import header

UMBRELLA = "tessera_rdma_abi.h"
# in an order in which each header comes after those whose structures it contains
CONTRACTS = (verbs, hca, hca_engine, hca_objects, hca_frames, cm)


def render() -> dict[str, str]:
    """Return the text of every C header, by the header's path below the include folder."""
    operations = ["", *header.enum_lines(Verb), "", *operations_header.lines()]
    return header.render_contracts(
        CONTRACTS,
        UMBRELLA,
        includes=(header.UMBRELLA,),
        defined=header.constant_lines(),
        additions={verbs: operations},
    )
