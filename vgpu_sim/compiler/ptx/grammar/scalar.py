"""The grammar of instructions on registers: arithmetic, comparison, logic, conversion, control."""

SCALAR = """
# 9.7.1 Integer Arithmetic Instructions; 9.7.2 Extended-Precision Integer Arithmetic
add     $int|u16x2|s16x2|u8x4|s8x4
add     sat u32|s32|u16x2|s16x2|u8x4|s8x4
add     cc $word
addc    cc? $word
sub     $int|u8x4|s8x4
sub     sat s32|u8x4|s8x4
sub     cc $word
subc    cc? $word
mul     hi|lo $int
mul     wide u16|s16|$int32
mad     hi|lo $int
mad     wide u16|s16|$int32
mad     [ hi sat ] s32
mad     [ hi|lo cc ] $word
madc    [ hi|lo cc? ] $word
mul24   hi|lo $int32
mad24   hi|lo $int32
mad24   [ hi sat ] s32
clmad   hi|lo u64
sad     $int
div     $int
rem     $int
abs     s16|s32|s64
neg     s16|s32|s64|s8x4
min     $int|$packed_int
min     relu s32|s16x2|s8x4
max     $int|$packed_int
max     relu s32|s16x2|s8x4
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
add|sub|mul [ $rnd? ftz? sat? ] f32
add|sub|mul [ $rnd? ftz? ] f32x2
add|sub|mul $rnd? f64
add|sub|mul [ rn? ftz? sat? ] f16|f16x2
add|sub|mul rn? bf16|bf16x2
add|sub [ $rnd? sat? ] f32 f16|bf16
fma     [ $rnd ftz? sat? ] f32
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
rcp     [ approx|$rnd ftz? ] f32
rcp     [ approx ftz ] f64
rcp     [ $rnd ftz? ] f64
sqrt    [ approx|$rnd ftz? ] f32
sqrt    $rnd f64
rsqrt   [ approx ftz? ] f32|f64
sin|cos|lg2 [ approx ftz? ] f32
ex2     [ approx ftz? ] f32
ex2     approx f16|f16x2
ex2     [ approx ftz ] bf16|bf16x2
tanh    approx f32|$half

# 9.7.6 Comparison and Selection; 9.7.7 Half Precision Comparison
set     [ eq|ne $bool? ] $set_to $bits
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
setp    [ eq|ne $bool? ] $bits
setp    [ $order $bool? ] s16|s32|s64
setp    [ $order|lo|ls|hi|hs $bool? ] u16|u32|u64
setp    [ $order|$unordered $bool? ftz? ] f32|f16|f16x2
setp    [ $order|$unordered $bool? ] f64|bf16|bf16x2
selp    $any
slct    $any s32
slct    ftz? $any f32

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
isspacep $window
istypep texref|samplerref|surfref
cvta    to? $window u32|u64
cvt     u8 u8
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
vadd|vsub|vabsdiff|vmin|vmax $video $video $video sat? add|min|max?
vshl|vshr $video $video u32 [ sat? $wrap ] add|min|max?
vmad    $video $video $video [ po? sat? shr7|shr15? ]
vset    $video $video $order add|min|max?
vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2 $video $video $video sat|add?
vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4 $video $video $video sat|add?
vset2|vset4 $video $video $order add?
"""
"""One row a form: the instruction, then its modifiers in order. See ``rows`` for the notation."""
