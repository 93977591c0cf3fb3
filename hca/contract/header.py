"""Render the C headers of RDMA's contracts; ``tessera_rdma_abi.h`` includes all of them."""

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
# Each after those whose structures its own contain.
CONTRACTS = (verbs, hca, hca_engine, hca_objects, hca_frames, cm)


def render() -> dict[str, str]:
    """Return every header, below its include folder, and its text."""
    operations = ["", *header.enum_lines(Verb), "", *operations_header.lines()]
    return header.render_contracts(
        CONTRACTS,
        UMBRELLA,
        includes=(header.UMBRELLA,),
        defined=header.constant_lines(),
        additions={verbs: operations},
    )
