"""Sets of modifiers that many instructions share, by their names in the tables.

Source: PTX ISA 9.4, "Types" (5.2), "Operand Type Checking" (9.4), "Cache Operators" and "Cache
Eviction Priority Hints" (9.7.10.1, 9.7.10.2), and the syntax of each instruction.
"""

_SHAPES = "m8n8 m16n16 m8n16 m16n8 m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n16k8 m16n16k16 m8n32k16"
_SHAPES += " m32n8k16 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256"
_COLUMNS = tuple(range(8, 257, 8))
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))


def _wgmma(depth: int, columns: tuple[int, ...]) -> str:
    return " ".join(f"m64n{n}k{depth}" for n in columns)


CLASSES = {
    name: frozenset(words.split())
    for name, words in {
        "int": "u16 u32 u64 s16 s32 s64",
        "int32": "u32 s32",
        "word": "u32 s32 u64 s64",
        "bits": "b16 b32 b64",
        "any": "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64",
        "half": "f16 f16x2 bf16 bf16x2",
        "memory_but_128": "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
        "memory": "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
        "up_to_32": "b8 b16 b32 u8 u16 u32 s8 s16 s32 f32",
        "bytes": "b8 u8 s8",
        "just_32": "b32 u32 s32 f32",
        "just_64": "b64 u64 s64 f64",
        "anywhere": "const global local shared shared::cta shared::cluster param param::entry"
        " param::func",
        "stored": "global local shared shared::cta shared::cluster param param::func",
        "visible": "global shared shared::cta shared::cluster",
        "window": "const global local shared shared::cta shared::cluster param param::entry",
        "packed_int": "u16x2 s16x2 u8x4 s8x4",
        "narrow": "e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4",  # packed four at a time
        "f8x2": "e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2",
        "rnd": "rn rz rm rp",
        "irnd": "rni rzi rmi rpi",
        "order": "eq ne lt le gt ge",
        "unordered": "equ neu ltu leu gtu geu num nan",
        "set_to": "u32 s32 f32 f16 bf16",
        "bool": "and or xor",
        "wrap": "clamp wrap",
        "sem": "relaxed acquire release acq_rel sc",
        "scope": "cta cluster gpu sys",
        "shared": "shared shared::cta shared::cluster",
        "space": "const global local shared shared::cta shared::cluster param param::entry"
        " param::func",
        "vec": "v2 v4 v8",
        "load_cache": "ca cg cs lu cv",
        "store_cache": "wb cg cs wt",
        "evict1": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last"
        " L1::no_allocate",
        "evict2": "L2::evict_normal L2::evict_first L2::evict_last L2::evict_unchanged",
        "evict2_wide": "L2::evict_normal L2::evict_first L2::evict_last",
        "prefetch": "L2::64B L2::128B L2::256B",
        "atomic": "and or xor cas exch add inc dec min max",
        "dim": "1d 2d 3d 4d 5d",
        "geom": "1d 2d 3d a1d a2d cube acube 2dms a2dms",
        "surface": "1d 2d 3d a1d a2d",
        "clamp": "trap clamp zero",
        "layout": "row col",
        "num": "x1 x2 x4 x8 x16 x32 x64 x128",
        "multicast": "multicast::cluster multicast::cluster::16b multicast::cluster::32b",
        "complete": "mbarrier::complete_tx::bytes",
        "load_mode": "tile tile::gather4 tile::scatter4 im2col im2col::w im2col::w::128"
        " im2col_no_offs im2col_no_offs::w",
        "cta_group": "cta_group::1 cta_group::2",
        "kind": "kind::f16 kind::tf32 kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"
        " kind::i8 kind::ti16",
        "unscaled": "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::ti16",
        "scale_vec": "scale_vec::1X scale_vec::2X scale_vec::4X block16 block32",
        "f8f6f4": "e4m3 e5m2 e3m2 e2m3 e2m1",
        "video": "u32 s32",
        "reduced": "b32 b64 u32 u64 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2",
        "bulk_reduced": "f16 bf16 b32 u32 s32 b64 u64 s64 f32 f64",
        "f8": "e5m2 e5m2x2 e5m2x4 e4m3 e4m3x2 e4m3x4",
        "space_of_copy": "global shared::cta shared::cluster",
        "tensor_field": "global_address rank box_dim global_dim global_stride element_stride"
        " elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode",
        "texture_query": "width height depth channel_data_type channel_order normalized_coords"
        " array_size num_mipmap_levels num_samples force_unnormalized_coords filter_mode"
        " addr_mode_0 addr_mode_1 addr_mode_2",
        "fold": "add min max and or xor inc dec",
        "validity": "mbarrier::complete_tx::bytes bulk_group",
        "shape": _SHAPES,
        **{f"wgmma{depth}": _wgmma(depth, _COLUMNS) for depth in (8, 16, 32, 64)},
        **{f"wgmma{depth}s": _wgmma(depth, _INTEGER_COLUMNS) for depth in (32, 64)},
        "wgmma256": _wgmma(256, _INTEGER_COLUMNS),
        "element": "f16 bf16 tf32 f32 f64 s32 s8 u8 s4 u4 b1 e4m3 e5m2 e3m2 e2m3 e2m1",
        "block": "16x64b 16x128b 16x256b 32x32b 16x32bx2",
    }.items()
}
"""The classes of modifiers: ``$int`` in a table stands for any one of ``CLASSES["int"]``."""

TAILS = {
    "data": ("v2? $memory_but_128", "v4 $up_to_32", "v8 $bytes", "b128"),
    "read": ("v2? $memory_but_128", "v4 $up_to_32", "b128"),
    "scalars": ("v2? $memory_but_128", "v4 $up_to_32"),
    "wide": ("v8 $just_32", "v4 $just_64"),
}
"""Endings of rows: ``$$data`` in a table stands for several rows, one for each of these endings."""

_TYPE_CLASSES = "any half memory narrow f8x2 packed_int"
_MORE_TYPES = "pred f32x2 tf32 ue8m0x2 ue5m3x2 s2f6x2 u4 s4 u2 s2"
TYPES = frozenset(_MORE_TYPES.split()).union(*(CLASSES[name] for name in _TYPE_CLASSES.split()))
"""Modifiers that are operand types.

Their order among themselves is significant, whatever the positions of the other modifiers.
"""

_FLAGS = "sat cc approx shiftamt NaN relu satfinite oob sync uni"
FLAGS = frozenset(_FLAGS.split())
"""Modifiers that assemblers accept twice."""
