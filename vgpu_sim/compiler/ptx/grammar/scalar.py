"""The grammar of instructions on registers: arithmetic, comparison, logic, conversion, control."""

SCALAR = """
# 9.7.1 Integer Arithmetic Instructions; 9.7.2 Extended-Precision Integer Arithmetic
add     $int|u16x2|s16x2|u8x4|s8x4           : =1 1 1
  #2                        : =1 2 1
  u16x2|s16x2               : : 90 8.0
  u8x4|s8x4                 : : 107f/120f 9.2
  sat u32|u16x2|s16x2       : : 107f/120f 9.2
  f16|f16x2                 : : 53 4.2
  bf16|bf16x2               : : 90 7.8
  f32 f16|bf16              : : 100 8.6
  f32x2                     : : 100 8.6
add     sat u32|s32|u16x2|s16x2|u8x4|s8x4
add     cc $word
addc    cc? $word           : =1 1 1
sub     $int|u8x4|s8x4      : =1 1 1
  #2                        : =1 2 1
  u8x4|s8x4                 : : 107f/120f 9.2
  f16|f16x2                 : : 53 4.2
  bf16|bf16x2               : : 90 7.8
  f32 f16|bf16              : : 100 8.6
  f32x2                     : : 100 8.6
sub     sat s32|u8x4|s8x4
sub     cc $word
subc    cc? $word           : =1 1 1
mul     hi|lo $int          : =1 1 1
  #2                        : =1 2 2
  wide                      : =W1 1 1
  f16|f16x2                 : : 53 4.2
  bf16|bf16x2               : : 90 7.8
  f32x2                     : : 100 8.6
mul     wide u16|s16|$int32
mad     hi|lo $int          : =1 1 1 1
  wide                      : =W1 1 1 W1
mad     wide u16|s16|$int32
mad     hi sat s32
mad     hi|lo cc $word
madc    hi|lo cc? $word                      : =1 1 1 1
mul24   hi|lo $int32        : =1 1 1
mad24   hi|lo $int32        : =1 1 1 1
mad24   hi sat s32
clmad   hi|lo u64           : =1 1 1 1 : 80 9.3
sad     $int                : =1 1 1 1
div     $int                : =1 1 1
rem     $int                : =1 1 1
abs     s16|s32|s64         : =1 1
  f16|f16x2                 : : 53 6.5
  bf16|bf16x2               : : 80 7.0
neg     s16|s32|s64|s8x4    : =1 1
  s8x4                      : : 107f/120f 9.2
  f16|f16x2                 : : 53 6.0
  bf16|bf16x2               : : 80 7.0
min     $int|$packed_int    : =1 1 1
  abs !xorsign              : =1 1 1 1
  f32 !abs                  : =1 1 1 / =1 1 1 1
  u16x2|s16x2               : : 90 8.0
  u8x4|s8x4                 : : 107f/120f 9.2
  relu s32|s16x2            : : 90 8.0
  f16|f16x2|bf16|bf16x2     : : 80 7.0
  NaN                       : : 80 7.0
  xorsign                   : : 86 7.2
  abs !xorsign              : : 100 8.8
min     relu s32|s16x2|s8x4
max     $int|$packed_int    : =1 1 1
  abs !xorsign              : =1 1 1 1
  f32 !abs                  : =1 1 1 / =1 1 1 1
  u16x2|s16x2               : : 90 8.0
  u8x4|s8x4                 : : 107f/120f 9.2
  relu s32|s16x2            : : 90 8.0
  f16|f16x2|bf16|bf16x2     : : 80 7.0
  NaN                       : : 80 7.0
  xorsign                   : : 86 7.2
  abs !xorsign              : : 100 8.8
max     relu s32|s16x2|s8x4
popc    b32|b64             : =u32 1
clz     b32|b64             : =u32 1
bfind   shiftamt? $word     : =u32 1
fns     b32                 : =b32 b32 b32 s32 : 30 6.0
brev    b32|b64             : =1 1
bfe     $word               : =1 1 u32 u32
bfi     b32|b64             : =1 1 1 u32 u32
szext   $wrap $int32        : =1 1 u32 : 70 7.6
bmsk    $wrap b32           : =u32 u32 u32 : 70 7.6
dp4a    $int32 $int32       : =s32 1 2 s32 : 61 5.0
dp2a    lo|hi $int32 $int32                  : =s32 1 2 s32 : 61 5.0

# 9.7.3 Floating-Point; 9.7.4 Half Precision; 9.7.5 Mixed Precision
testp   finite|infinite|number|notanumber|normal|subnormal f32|f64 : =p 1
copysign f32|f64            : =1 1 1
add|sub|mul [ $rnd? ftz? sat? ] f32
add|sub|mul [ $rnd? ftz? ] f32x2
add|sub|mul $rnd? f64
add|sub|mul [ rn? ftz? sat? ] f16|f16x2
add|sub|mul rn? bf16|bf16x2
add|sub [ $rnd? sat? ] f32 f16|bf16
fma     [ $rnd ftz? sat? ] f32               : =1 1 1 1
  #2                        : =1 2 2 1
  f16|f16x2                 : : 53 4.2
  bf16|bf16x2               : : 80 7.0
  relu                      : : 80 7.0
  oob                       : : 90 8.1
  f32 f16|bf16              : : 100 8.6
  f32x2                     : : 100 8.6
fma     [ $rnd ftz? ] f32x2
fma     $rnd f64
fma     [ rn ftz? sat|relu? ] f16|f16x2
fma     [ rn relu? oob? ] f16|f16x2|bf16|bf16x2
fma     [ $rnd sat? ] f32 f16|bf16
mad     [ $rnd ftz? sat? ] f32
mad     $rnd f64
div     [ approx|full|$rnd ftz? ] f32
div     $rnd f64
abs|neg ftz? f32|f16|f16x2
abs|neg f64|bf16|bf16x2
min|max [ ftz? NaN? ] f32|f16|f16x2
min|max [ ftz? NaN? abs ] f32
min|max [ ftz? NaN? xorsign abs ] f32|f16|f16x2
min|max NaN? bf16|bf16x2
min|max [ NaN? xorsign abs ] bf16|bf16x2
min|max f64
rcp     [ approx|$rnd ftz? ] f32             : =1 1
rcp     [ approx ftz ] f64
rcp     [ $rnd ftz? ] f64
sqrt    [ approx|$rnd ftz? ] f32             : =1 1
sqrt    $rnd f64
rsqrt   [ approx ftz? ] f32|f64              : =1 1
sin|cos|lg2 [ approx ftz? ] f32              : =1 1
ex2     [ approx ftz? ] f32                  : =1 1
  f16|f16x2                 : : 75 7.0
  bf16|bf16x2               : : 90 7.8
ex2     approx f16|f16x2
ex2     [ approx ftz ] bf16|bf16x2
tanh    approx f32|$half    : =1 1
  f32|f16|f16x2             : : 75 7.0
  bf16|bf16x2               : : 90 7.8

# 9.7.6 Comparison and Selection; 9.7.7 Half Precision Comparison
set     [ eq|ne $bool? ] $set_to $bits       : =1 2 2
  $bool bf16|bf16x2         : =1 2 2 !p
  $bool                     : =1 2 2 p
  f16|f16x2                 : : 53 4.2
  bf16|bf16x2               : : 90 7.8
set     [ $order $bool? ] $set_to s16|s32|s64
set     [ $order|lo|ls|hi|hs $bool? ] $set_to u16|u32|u64
set     [ $order|$unordered $bool? ftz? ] u32|s32|f32|f16 f32
set     [ $order|$unordered $bool? ] bf16 f32
set     [ $order|$unordered $bool? ] $set_to f64
set     [ $order|$unordered $bool? ftz? ] u16|s16|u32|s32|f16 f16
set     [ $order|$unordered $bool? ] bf16 f16
set     [ $order|$unordered $bool? ] u16|s16|u32|s32|bf16 bf16
set     [ $order|$unordered $bool? ftz? ] u32|s32|f16x2 f16x2
set     [ $order|$unordered $bool? ] u32|s32|bf16x2 bf16x2
setp    [ eq|ne $bool? ] $bits               : =p_|p 1 1
  $bool bf16                : =p_ 1 1 !p
  $bool f16                 : =p_ 1 1 p
  f16|bf16                  : =p_ 1 1
  $bool bf16x2              : =p_|p 1 1 !p
  $bool                     : =p_|p 1 1 p
  f16|f16x2                 : : 53 4.2
  bf16|bf16x2               : : 90 7.8
setp    [ $order $bool? ] s16|s32|s64
setp    [ $order|lo|ls|hi|hs $bool? ] u16|u32|u64
setp    [ $order|$unordered $bool? ftz? ] f32|f16|f16x2
setp    [ $order|$unordered $bool? ] f64|bf16|bf16x2
selp    $any                : =1 1 1 p
slct    $any s32            : =1 1 1 2
slct    ftz? $any f32

# 9.7.8 Logic and Shift
and     pred|$bits          : =1 1 1
or      pred|$bits          : =1 1 1
xor     pred|$bits          : =1 1 1
not     pred|$bits          : =1 1
cnot    $bits               : =1 1
lop3    and|or? b32         : =b32_ b32 b32 b32 imm : 50 4.3
  and|or                    : =b32_|P b32 b32 b32 imm p : 70 8.2
shf     l|r $wrap b32       : =b32 b32 b32 u32 : 32 3.1
shl     $bits               : =1 1 u32
shr     $bits|$int          : =1 1 u32

# 9.7.10 Data Movement and Conversion: registers
mov     $vec? pred|b128|$any
  b128                      : : 70 8.3
shfl    sync? up|down|bfly|idx b32           : =b32|p b32 b32 b32
  sync                      : =b32|p b32 b32 b32 u32
  !sync                     : : <70@6.4 1.0
  sync                      : : 30 6.0
prmt    b32 f4e|b4e|rc8|ecl|ecr|rc16?        : =b32 b32 b32 b32
isspacep $window            : =p !int
  param                     : : 70 7.7
  shared::cluster           : : 90 7.8
  shared::cta               : : 30 7.8
  param::entry  : : 70 7.7
istypep texref|samplerref|surfref            : =p any
cvta    to? $window u32|u64                  : =1 name
  to                        : =1 int
  param                     : : 70 7.7
  shared::cluster           : : 90 7.8
  shared::cta               : : 30 7.8
  param::entry  : : 70 7.7
cvt     u8 u8               : =~1 %~2
  pack #3                   : =u32 s32 s32 b32
  pack                      : =u32 s32 s32
  rs f16x2|bf16x2           : =1 2 2 bits32
  rs $narrow                : =1 {4}f32 bits32
  f16x2|bf16x2 f32          : =1 2 2
  tf32                      : =1 2
  scaled::n1::ue8m0 f32     : =1 2 2 bits8
  scaled::n1::ue8m0         : =1 2 bits8
  scaled::n2::ue8m0 f32     : =1 2 2 bits16
  scaled::n2::ue8m0         : =1 2 bits16
  $f8x2|ue8m0x2|ue5m3x2|s2f6x2 f32           : =1 2 2
  $f8x2|ue8m0x2|ue5m3x2|s2f6x2               : =1 2
  bf16                      : =1 2
  f16|f32|f64               : =~1 ~2
  f16x2 f32                 : : 80 7.0
  tf32                      : : 80 7.0
  rn|rz tf32                : : 90 7.8
  rn|rz satfinite tf32      : : 100 8.6
  bf16|bf16x2               : : 80 7.0
  relu                      : : 80 7.0
  bf16 u8|u16|u32|u64|s8|s16|s32|s64|f16|f64 : : 90 7.8
  e4m3x2|e5m2x2             : : 89 7.8
  e2m1x2|e2m3x2|e3m2x2|ue8m0x2               : : 100f/110f/120f 8.6
  e4m3x2|e5m2x2 bf16x2      : : 100f/110f/120f 8.6
  rs                        : : 100a/103a/107a 8.7
  pzo                       : : 107a 9.2
  rz $f8x2                  : : 107a 9.4
  scaled::n1::ue8m0         : : 107a 9.2
  scaled::n2::ue8m0 $f8x2   : : 100f/110f/120f 9.2
  ftz .f32.bf16             : : 90 7.8
  .bf16.bf16                : : 90 7.8
  ue5m3x2                   : : 107a 9.2
  s2f6x2                    : : 100a/103a/107a/110a/120a/121a 9.1
  pack                      : : 72 6.5
  pack s4|u4|s2|u2          : : 75 6.5
  .f32.bf16                 : : 80 7.1
cvt     u16 u8|u16
cvt     u32 u8|u16|u32
cvt     u64 u8|u16|u32|u64
cvt     s8 s8
cvt     s16 u8|s8|s16
cvt     s32 u8|u16|s8|s16|s32
cvt     s64 u8|u16|u32|s8|s16|s32|s64
cvt     sat? u8 u16|u32|u64|s8|s16|s32|s64
cvt     sat? u16 u32|u64|s8|s16|s32|s64
cvt     sat? u32 u64|s8|s16|s32|s64
cvt     sat? u64 s8|s16|s32|s64
cvt     sat? s8 u8|u16|u32|u64|s16|s32|s64
cvt     sat? s16 u16|u32|u64|s32|s64
cvt     sat? s32 u32|u64|s64
cvt     sat? s64 u64
cvt     $irnd u8|u16|u32|u64|s8|s16|s32|s64 bf16
cvt     [ $irnd sat? ] u8|u16|u32|u64|s8|s16|s32|s64 f16|f64
cvt     [ $irnd ftz? sat? ] u8|u16|u32|u64|s8|s16|s32|s64 f32
cvt     $rnd bf16 u8|u16|u32|u64|s8|s16|s32|s64|f64
cvt     [ $rnd sat? ] f16|f64 u8|u16|u32|u64|s8|s16|s32|s64
cvt     [ $rnd sat? ] f16 f64
cvt     [ $rnd ftz? sat? ] f32 u8|u16|u32|u64|s8|s16|s32|s64|f64
cvt     $irnd? bf16 bf16
cvt     [ $irnd? sat? ] f16 f16
cvt     [ $irnd? sat? ] f64 f64
cvt     [ $irnd? ftz? sat? ] f32 f32
cvt     $rnd? bf16 f16
cvt     $rnd? f16|f64 bf16
cvt     [ $rnd? ftz? ] f32 bf16
cvt     sat? f64 f16
cvt     [ ftz? sat? ] f32 f16
cvt     [ ftz? sat? ] f64 f32
cvt     [ $rnd ftz? sat? ] f16 f32
cvt     [ $rnd ftz? ] bf16 f32
cvt     [ rn|rz relu? satfinite? pzo? ] f16|f16x2|bf16|bf16x2 f32
cvt     [ rs relu? satfinite? ] f16x2|bf16x2 f32
cvt     [ rna satfinite? ] tf32 f32
cvt     [ rn|rz relu? satfinite? ] tf32 f32
cvt     [ rn|rz satfinite relu? pzo? scaled::n1::ue8m0? ] $f8x2 f32|f16x2|bf16x2
cvt     [ rs satfinite relu? ] $narrow f32
cvt     [ rz|rp satfinite? ] ue8m0x2 f32|bf16x2
cvt     [ rn satfinite? ] ue5m3x2 f32|f16x2|bf16x2
cvt     [ rn satfinite relu? scaled::n2::ue8m0? ] s2f6x2 f32|bf16x2
cvt     [ rn relu? ] f16x2 $f8x2
cvt     rn f16x2 ue5m3x2
cvt     [ rn relu? satfinite? scaled::n2::ue8m0? ] bf16x2 $f8x2|s2f6x2
cvt     rn bf16x2 ue8m0x2|ue5m3x2
cvt     pack sat u16|s16 s32
cvt     pack sat u8|s8|u4|s4|u2|s2 s32 b32
mapa    shared::cluster? u32|u64             : =1 name u32 : 90 7.8
getctarank shared::cluster? u32|u64          : =u32 name : 90 7.8
spcompress   b8|b16 b2|b4 sp::* $num
spdecompress b8|b16 b2|b4 sp::* $num

# 9.7.13 Control Flow; 9.7.14 Stack Manipulation; 9.7.20 Miscellaneous
bra     uni?                : label
brx     idx uni?            : : 30 6.0
call    uni?
ret     uni?                : -
exit                        : -
alloca  u32|u64             : =1 1 / =1 1 imm : 52 7.3
stacksave u32|u64           : =1 : 52 7.3
stackrestore u32|u64        : !1 : 52 7.3
brkpt                       : -
nanosleep u32               : u32 : 70 6.3
pmevent mask?               : imm@0..15
  mask                      : imm
trap                        : -
setmaxnreg inc|dec sync aligned u32
        : imm@24..256%8 : 90a/100a/100f/101a/103a/110f/120a/120f 8.0

# 9.7.19 Video Instructions; 9.7.19.2 SIMD Video Instructions
vadd|vsub|vabsdiff|vmin|vmax $video $video $video sat? add|min|max?
  #3 add|min|max            : =1 2. 3. 1
  #3                        : =1 2. 3. / =1. 2. 3. 1
vshl|vshr $video $video u32 [ sat? $wrap ] add|min|max? : =1 2. u32. / =1. 2. u32. 1
  add|min|max               : =1 2. u32. 1
vmad    $video $video $video [ po? sat? shr7|shr15? ] : =1. 2. 3. 1.
vset    $video $video $order add|min|max?
  #3 add|min|max            : =1 2. 3. 1
  #2 add|min|max            : =u32 1. 2. u32
  #2                        : =u32 1. 2. / =u32. 1. 2. u32
vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2 $video $video $video sat|add?
vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4 $video $video $video sat|add?
vset2|vset4 $video $video $order add?
"""
"""One row per form: the instruction, then its modifiers in order. See ``rows`` for the notation."""
