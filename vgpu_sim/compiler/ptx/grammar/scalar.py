"""The grammar of instructions on registers: arithmetic, comparison, logic, conversion, control."""

SCALAR = """
# 9.7.1 Integer Arithmetic Instructions; 9.7.2 Extended-Precision Integer Arithmetic
add     $int|$packed_int
add     sat u32|s32|$packed_int
add     cc $word
addc    cc? $word
sub     $int|$packed_int
sub     sat u32|s32|$packed_int
sub     cc $word
subc    cc? $word
mul     $mode $int
mad     $mode $int
mad     hi sat s32
mad     hi|lo cc $word
madc    hi|lo cc? $word
mul24   hi|lo $int32
mad24   hi|lo $int32
mad24   hi sat s32
clmad   hi|lo u64
sad     $int
div     $int
rem     $int
abs     s16|s32|s64|$packed_int
neg     s16|s32|s64|$packed_int
min     relu? $int|$packed_int
max     relu? $int|$packed_int
popc    b32|b64
clz     b32|b64
bfind   shiftamt? $word
fns     b32
brev    b32|b64
bfe     $word
bfi     b32|b64
szext   $wrap $int32
bmsk    $wrap b32
dp4a    $int32 $int32
dp2a    lo|hi $int32 $int32

# 9.7.3 Floating-Point; 9.7.4 Half Precision; 9.7.5 Mixed Precision
testp   finite|infinite|number|notanumber|normal|subnormal f32|f64
copysign f32|f64
add     [ $rnd? ftz? sat? ] f32|f64|f32x2|$half
add     [ $rnd? ftz? sat? ] f32|f32x2|f16x2|bf16x2 $half|$narrow
sub     [ $rnd? ftz? sat? ] f32|f64|f32x2|$half
sub     [ $rnd? ftz? sat? ] f32|f32x2|f16x2|bf16x2 $half|$narrow
mul     [ $rnd? ftz? sat? ] f32|f64|f32x2|$half
mul     [ $rnd? ftz? sat? ] f32|f32x2|f16x2|bf16x2 $half|$narrow
fma     [ $rnd ftz? sat? ] f32|f64|f32x2|$half
fma     [ $rnd ftz? sat? ] f32|f32x2|f16x2|bf16x2 $half|$narrow
fma     [ rn ftz? relu|oob ] $half
fma     [ rn ftz? oob relu ] $half
mad     [ $rnd? ftz? sat? ] f32|f64
div     [ approx|full ftz? ] f32
div     [ $rnd ftz? ] f32|f64
div     ftz? f32|f64
abs     ftz? f32|f64|$half
neg     ftz? f32|f64|$half
min     [ ftz? NaN? abs? ] f32|f64|$half
min     [ ftz? NaN? xorsign abs ] f32|$half
max     [ ftz? NaN? abs? ] f32|f64|$half
max     [ ftz? NaN? xorsign abs ] f32|$half
rcp     [ approx ftz? ] f32|f64
rcp     [ $rnd? ftz? ] f32|f64
sqrt    [ approx ftz? ] f32
sqrt    [ $rnd? ftz? ] f32|f64
rsqrt   [ approx? ftz? ] f32|f64
sin     [ approx? ftz? ] f32
cos     [ approx? ftz? ] f32
lg2     [ approx? ftz? ] f32
ex2     [ approx? ftz? ] f32|$half
tanh    approx f32|$half

# 9.7.6 Comparison and Selection; 9.7.7 Half Precision Comparison
set     $cmp ftz? u16|s16|u32|s32|f32|$half|$packed_int $any|$half|$packed_int
set     $cmp $bool ftz? u16|s16|u32|s32|f32|$half|$packed_int $any|$half|$packed_int
setp    $cmp ftz? $any|$half
setp    $cmp $bool ftz? $any|$half
selp    $any
slct    ftz? $any s32|f32

# 9.7.8 Logic and Shift
and     pred|$bits
or      pred|$bits
xor     pred|$bits
not     pred|$bits
cnot    $bits
lop3    and|or? b32
shf     l|r $wrap b32
shl     $bits
shr     $bits|$int

# 9.7.10 Data Movement and Conversion: registers
mov     $vec? pred|b128|$any
shfl    sync? up|down|bfly|idx b32
prmt    b32 f4e|b4e|rc8|ecl|ecr|rc16?
isspacep $space
istypep texref|samplerref|surfref
cvta    to? $space u32|u64
cvt     [ $irnd? ftz? sat? ] $convertible $convertible
cvt     [ $rnd ftz? sat? ] $convertible $convertible
cvt     rn|rz|rs [ relu? satfinite? pzo? ] f16|f16x2|bf16|bf16x2|tf32 f32
cvt     rna satfinite? tf32 f32
cvt     rn|rz|rs [ satfinite? relu? pzo? scaled::n1::ue8m0? ] $f8x2|$narrow f32|f16x2|bf16x2
cvt     rn|rz|rp [ satfinite? scaled::n1::ue8m0? ] ue8m0x2|ue5m3x2 f32|f16x2|bf16x2
cvt     rn|rz [ satfinite? relu? scaled::n2::ue8m0? ] s2f6x2 f32|bf16x2
cvt     rn [ relu? satfinite? scaled::n2::ue8m0? ] f16x2|bf16x2 $f8x2|ue8m0x2|ue5m3x2|s2f6x2
cvt     pack sat u16|s16 s32
cvt     pack sat u8|s8|u4|s4|u2|s2 s32 b32
mapa    shared::cluster? u32|u64
getctarank shared::cluster? u32|u64
spcompress   b8|b16 b2|b4 sp::* $num
spdecompress b8|b16 b2|b4 sp::* $num

# 9.7.13 Control Flow; 9.7.14 Stack Manipulation; 9.7.20 Miscellaneous
bra     uni?
brx     idx uni?
call    uni?
ret     uni?
exit
alloca  u32|u64
stacksave u32|u64
stackrestore u32|u64
brkpt
nanosleep u32
pmevent mask?
trap
setmaxnreg inc|dec sync aligned u32

# 9.7.19 Video Instructions; 9.7.19.2 SIMD Video Instructions
vadd    $video $video $video sat? add|min|max?
vsub    $video $video $video sat? add|min|max?
vabsdiff $video $video $video sat? add|min|max?
vmin    $video $video $video sat? add|min|max?
vmax    $video $video $video sat? add|min|max?
vshl    $video $video u32 sat? $wrap add|min|max?
vshr    $video $video u32 sat? $wrap add|min|max?
vmad    $video $video $video po? sat? shr7|shr15?
vset    $video $video $cmp add|min|max?
vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2 $video $video $video sat|add?
vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4 $video $video $video sat|add?
vset2|vset4 $video $video $cmp add?
"""
"""One row a form: the instruction, then its modifiers in order. See ``rows`` for the notation."""
