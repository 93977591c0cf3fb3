"""The grammar of matrix instructions: wmma, mma, wgmma, tcgen05 and their loads and stores."""

MATRIX = """
# 9.7.16 Warp-Level Matrix Instructions
wmma    load a|b|c sync aligned $layout $shape global|shared|shared::cta? $element : : 70 6.0
wmma    store d sync aligned $layout $shape global|shared|shared::cta? $element
wmma    mma sync aligned $layout $layout $shape f16|f32 f16|f32
wmma    mma [ xor|and popc ] sync aligned $layout $layout $shape s32 b1 b1 s32
wmma    mma sync aligned $layout $layout $shape $rnd? f32|f64|s32 $element $element f32|f64|s32
        satfinite?
mma     sync aligned $shape $layout $layout [ $unscaled? satfinite? ]
        f16|f32|f64|s32 $element $element f16|f32|f64|s32   : : 70 6.4
  sp|sp::*                  : : 80 7.1
  sp::*                     : : 80 8.5
  e4m3|e5m2                 : : 89 8.4
  sp|sp::* e4m3|e5m2 f16    : : 120f 8.7
  kind::*                   : : 100f/110f/120f 8.7
  kind::f16                 : : 100f/110f 8.7
  e3m2|e2m3|e2m1            : : 120f 8.7
  block_scale               : : 120f 8.7
  ue8m0 scale_vec::4X       : : 120f 9.1
  sp::* kind::mxf4|kind::mxf4nvf4 : : 120a/121a 8.7
mma     sync aligned $shape $layout $layout f64 f64 f64 f64 $rnd
mma     sync aligned m16n8k32 $layout $layout [ kind::mxf8f6f4 block_scale scale_vec::1X? ]
        f32 $f8f6f4 $f8f6f4 f32 ue8m0
mma     sync aligned m16n8k64 $layout $layout [ kind::mxf4 block_scale scale_vec::2X? ]
        f32 e2m1 e2m1 f32 ue8m0
mma     sync aligned m16n8k64 $layout $layout [ kind::mxf4nvf4 block_scale
        scale_vec::2X|scale_vec::4X ] f32 e2m1 e2m1 f32 ue8m0
mma     sync aligned m16n8k64 $layout $layout [ kind::mxf4nvf4 block_scale scale_vec::4X ]
        f32 e2m1 e2m1 f32 ue4m3
mma     [ sp|sp::ordered_metadata sync aligned ] $shape $layout $layout [ $unscaled? satfinite? ]
        f16|f32|f64|s32 $element $element f16|f32|f64|s32
mma     [ sp::ordered_metadata sync aligned ] m16n8k64 $layout $layout [ kind::mxf8f6f4
        block_scale scale_vec::1X? ] f32 $f8f6f4 $f8f6f4 f32 ue8m0
mma     [ sp::ordered_metadata sync aligned ] m16n8k128 $layout $layout [ kind::mxf4
        block_scale scale_vec::2X? ] f32 e2m1 e2m1 f32 ue8m0
mma     [ sp::ordered_metadata sync aligned ] m16n8k128 $layout $layout [ kind::mxf4nvf4
        block_scale scale_vec::2X|scale_vec::4X ] f32 e2m1 e2m1 f32 ue8m0
mma     [ sp::ordered_metadata sync aligned ] m16n8k128 $layout $layout [ kind::mxf4nvf4
        block_scale scale_vec::4X ] f32 e2m1 e2m1 f32 ue4m3
mma     sync aligned $shape $layout $layout s32 b1 b1 s32 xor|and popc
ldmatrix sync aligned [ $shape x1|x2|x4 trans? shared|shared::cta? ] b16|b8 : : 75 6.5
ldmatrix sync aligned [ $shape x1|x2|x4 trans? shared|shared::cta? ] b8x16 b6x16_p32|b4x16_p64
ldmatrix sync aligned [ $shape x1|x2|x4 trans? shared|shared::cta? ] s8 s4
  b8x16|m16n16|m8n16        : : 100f/110f/120f 8.6
stmatrix sync aligned [ $shape x1|x2|x4 trans? shared|shared::cta? ] b16|b8 : : 90 7.8
  m16n8                     : : 100f/110f/120f 8.6
movmatrix sync aligned m8n8 trans b16        : =b32 !b32 : 75 7.8

# 9.7.17 Asynchronous Warpgroup-Level Matrix Instructions
wgmma   mma_async sync aligned $wgmma16 f16|f32 f16 f16 : : 90a 8.0
wgmma   mma_async sync aligned $wgmma16 f32 bf16 bf16
wgmma   mma_async sync aligned $wgmma8 f32 tf32 tf32
wgmma   mma_async sync aligned $wgmma32 f16|f32 e4m3|e5m2 e4m3|e5m2
wgmma   mma_async sync aligned $wgmma32s satfinite? s32 s8|u8 s8|u8
wgmma   mma_async sync aligned $wgmma32s s32 s8|u8 s8|u8 satfinite
wgmma   mma_async sync aligned $wgmma256 s32 b1 b1 and popc
wgmma   mma_async sp sync aligned $wgmma32 f16|f32 f16 f16
wgmma   mma_async sp sync aligned $wgmma32 f32 bf16 bf16
wgmma   mma_async sp sync aligned $wgmma16 f32 tf32 tf32
wgmma   mma_async sp sync aligned $wgmma64 f16|f32 e4m3|e5m2 e4m3|e5m2
wgmma   mma_async sp sync aligned $wgmma64s satfinite? s32 s8|u8 s8|u8
wgmma   mma_async sp sync aligned $wgmma64s s32 s8|u8 s8|u8 satfinite
wgmma   fence|commit_group|wait_group sync aligned
  fence|commit_group        : -
  wait_group                : imm@0..2147483647
  sp                        : : 90a 8.2
  sp s8 u8                  : : 90a 8.4

# 9.7.18 TensorCore 5th Generation Instructions
tcgen05 alloc [ $cta_group exclusive? sync aligned shared::cta? ] b32
        : : 100a/100f/101a/101f/103a/110a/110f 8.6
tcgen05 dealloc [ $cta_group exclusive? sync aligned ] b32
tcgen05 relinquish_alloc_permit $cta_group sync aligned
tcgen05 ld [ sync aligned spcompress|spcompress::*? ] $block $num [ pack::16b? ] b32
tcgen05 ld red [ sync aligned spcompress|spcompress::*? ] $block $num [ min|max abs? NaN?
        f32|u32|s32 ]
  ld red                    : : 101f/103f/110f 8.8
tcgen05 st sync aligned $block $num unpack::16b? b32
tcgen05 wait::ld|wait::st sync aligned
tcgen05 cp [ $cta_group 128x256b|4x256b|128x128b ]
tcgen05 cp [ $cta_group 128x256b|4x256b|128x128b b8x16 b6x16_p32|b4x16_p64 ]
tcgen05 cp [ $cta_group 64x128b warpx2::02_13|warpx2::01_23 ]
tcgen05 cp [ $cta_group 64x128b warpx2::02_13|warpx2::01_23 b8x16 b6x16_p32|b4x16_p64 ]
tcgen05 cp [ $cta_group 32x128b warpx4 ]
tcgen05 cp [ $cta_group 32x128b warpx4 b8x16 b6x16_p32|b4x16_p64 ]
tcgen05 shift [ $cta_group down ]
  down                      : : 100a/101a/103a/107a/110a 8.6
tcgen05 mma [ ws? sp? ] $cta_group $kind [ block_scale? $scale_vec? ashift? collector::a::*?
        collector::b::*|collector::b0::*|collector::b1::*|collector::b2::*|collector::b3::*?
        decompress::lut::b? ]
  kind::i8                  : : 100a/101a/110a 8.6
  scale_vec::*              : : 100a/101a/103a/107a/110a 8.6
  block16|block32           : : 100f/101f/103f/107a/110f 8.8
  kind::mxf4nvf4            : : 100f/101f/103f/107a/110f 8.7
  sp kind::mxf4|kind::mxf4nvf4 : : 100a/101a/103a/107a/110a 8.6
tcgen05 fence::before_thread_sync|fence::after_thread_sync
tcgen05 commit $cta_group [ mbarrier::arrive::one sync_restrict::*? shared::cluster? $multicast?
        ] b64
"""
"""One row per form: the instruction, then its modifiers in order. See ``rows`` for the notation."""
