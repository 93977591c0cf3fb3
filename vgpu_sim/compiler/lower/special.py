"""Special registers (PTX ISA, "Special Registers")."""

from vgpu_sim.isa import SpecialRegister

SPECIAL_REGISTERS = {
    **{
        f"%{name}.{axis}": SpecialRegister[f"{name.upper()}_{axis.upper()}"]
        for name in ("tid", "ntid", "ctaid", "nctaid")
        for axis in "xyz"
    },
    "%laneid": SpecialRegister.LANEID,
}
"""Those that the ISA can read, by PTX spelling."""

_OTHERS = frozenset(
    "%" + name
    for name in (
        *[
            "tid",
            "ntid",
            "ctaid",
            "nctaid",
            "warpid",
            "nwarpid",
            "smid",
            "nsmid",
            "gridid",
            "is_explicit_cluster",
        ],
        *["clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid", "cluster_ctarank"],
        *[
            "cluster_nctarank",
            "lanemask_eq",
            "lanemask_le",
            "lanemask_lt",
            "lanemask_ge",
            "lanemask_gt",
        ],
        *["clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"],
        *["total_smem_size", "aggr_smem_size", "dynamic_smem_size", "current_graph_exec"],
        *(f"pm{i}" for i in range(8)),
        *(f"pm{i}_64" for i in range(8)),
        *(f"envreg{i}" for i in range(32)),
        *(f"reserved_smem_offset_{i}" for i in ("begin", "end", "cap", "0", "1")),
    )
)


def is_special(name: str) -> bool:
    """Whether PTX defines a special register of that name (without component)."""
    return name in _OTHERS or name in SPECIAL_REGISTERS
