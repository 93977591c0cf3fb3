"""Special registers (PTX ISA 9.4, chapter 10), each with its components."""

_VECTORS = "tid ntid ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid"
_SCALARS = (
    "laneid warpid nwarpid smid nsmid gridid is_explicit_cluster cluster_ctarank cluster_nctarank"
    " lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64"
    " globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size"
    " current_graph_exec perctamemoryoffset perctamemorysize"
    " reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap"
    " reserved_smem_offset_0 reserved_smem_offset_1 reserved_smem_offset_2"
)

SPECIAL_REGISTERS: dict[str, frozenset[str]] = {
    **{f"%{name}": frozenset("xyzw") for name in _VECTORS.split()},
    **{f"%{name}": frozenset() for name in _SCALARS.split()},
    **{f"%pm{index}": frozenset() for index in range(8)},
    **{f"%pm{index}_64": frozenset() for index in range(8)},
    **{f"%envreg{index}": frozenset() for index in range(32)},
}
"""The components of each special register; a vector register may also be read as a whole."""
