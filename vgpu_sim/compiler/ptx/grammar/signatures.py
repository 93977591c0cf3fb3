"""Which operands the forms of instructions take (PTX ISA, the syntax and "Description" of each).

A row is one or several instructions, words that have to stand among the modifiers as in
``requirements``, a colon and the operands; of the rows of an instruction the first that applies
holds, and ``/`` separates several lists of operands that one form may have. An operand is

- a type such as ``u32``, or ``1``, ``2``, ... for the first, second, ... type among the modifiers,
  ``W1`` for twice its width: a register that agrees with it, or a constant;
- ``=`` before it: the register that the result goes to; ``_`` after that: ``_`` will do too;
- ``!`` before it: a register and nothing else;
- ``%`` before it: a special register will do too; ``~``: a register may be wider (PTX ISA, "Operand
  Size Exceeding Instruction-Type Size"); ``v``: a vector where the form has ``.v2`` and so on;
- ``{4}b32``: a vector of that many;
- ``p``: a predicate, read; ``=p``: one that is written; ``=p|p`` one or two, ``=1|p`` with an
  optional predicate, ``=1|P`` with one that is needed;
- ``[]`` an address, ``[*]`` an address with coordinates or more; ``imm`` an integer constant;
  ``reg`` any register; ``any`` anything; ``rest`` any number of anything;
- ``_``: nothing but that; ``bits32``: a register declared with those bits;
- ``h``: the cache policy, there when ``.L2::cache_hint`` is;
- ``@0..15``, ``@4,8,16``, ``@%32`` or ``@24..256%8`` after it: what a constant may be.

What has no row is not held to anything here.
"""

SIGNATURES = """
# Integer arithmetic, floating point, halves
add|sub #2                  : =1 2 1
mul #2                      : =1 2 2
fma #2                      : =1 2 2 1
mul wide                    : =W1 1 1
mad wide                    : =W1 1 1 W1
min|max abs !xorsign        : =1 1 1 1
min|max f32 !abs            : =1 1 1 / =1 1 1 1
add|addc|sub|subc|mul|mul24|div|rem|min|max|copysign : =1 1 1
mad|madc|mad24|fma|sad|clmad : =1 1 1 1
abs|neg|brev|rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh|not|cnot : =1 1
popc|clz|bfind              : =u32 1
bfe                         : =1 1 u32 u32
bfi                         : =1 1 1 u32 u32
fns                         : =b32 b32 b32 s32
szext                       : =1 1 u32
bmsk                        : =u32 u32 u32
dp4a|dp2a                   : =s32 1 2 s32
testp                       : =p 1

# Comparison, selection, logic
set $bool bf16|bf16x2       : =1 2 2 !p
set $bool                   : =1 2 2 p
set                         : =1 2 2
setp $bool bf16             : =p_ 1 1 !p
setp $bool f16              : =p_ 1 1 p
setp f16|bf16               : =p_ 1 1
setp $bool bf16x2           : =p_|p 1 1 !p
setp $bool                  : =p_|p 1 1 p
setp                        : =p_|p 1 1
selp                        : =1 1 1 p
slct                        : =1 1 1 2
and|or|xor                  : =1 1 1
lop3 and|or                 : =b32_|P b32 b32 b32 imm p
lop3                        : =b32_ b32 b32 b32 imm
shf                         : =b32 b32 b32 u32
shl|shr                     : =1 1 u32

# Movement and conversion
shfl sync                   : =b32|p b32 b32 b32 u32
shfl                        : =b32|p b32 b32 b32
prmt                        : =b32 b32 b32 b32
isspacep                    : =p !int
istypep                     : =p any
cvta to                     : =1 int
cvta                        : =1 name
mapa                        : =1 name u32
getctarank                  : =u32 name
cvt pack #3                 : =u32 s32 s32 b32
cvt pack                    : =u32 s32 s32
cvt rs f16x2|bf16x2         : =1 2 2 bits32
cvt rs $narrow              : =1 {4}f32 bits32
cvt f16x2|bf16x2 f32        : =1 2 2
cvt tf32                    : =1 2
cvt scaled::n1::ue8m0 f32   : =1 2 2 bits8
cvt scaled::n1::ue8m0       : =1 2 bits8
cvt scaled::n2::ue8m0 f32   : =1 2 2 bits16
cvt scaled::n2::ue8m0       : =1 2 bits16
cvt $f8x2|ue8m0x2|ue5m3x2|s2f6x2 f32 : =1 2 2
cvt $f8x2|ue8m0x2|ue5m3x2|s2f6x2 : =1 2
cvt bf16                    : =1 2
cvt f16|f32|f64             : =~1 ~2
cvt                         : =~1 %~2

# Memory
ld                          : =v~1 [] h
ldu                         : =v~1 []
st async                    : rest
st bulk                     : [] u64@%8 imm@0
st                          : [] v~1 h
prefetch|prefetchu          : []
applypriority async         : rest
applypriority|discard       : [] imm@128
createpolicy fractional     : =u64 / =u64 f32
createpolicy range          : =u64 [] u32 u32
createpolicy cvt            : =u64 u64
cp async commit_group|wait_all :
cp async wait_group         : imm
cp async ca L2::cache_hint  : [shared] [global] imm@4,8,16 h / [shared] [global] imm@4,8,16 any h
cp async ca                 : [shared] [global] imm@4,8,16 / [shared] [global] imm@4,8,16 any
cp async cg L2::cache_hint  : [shared] [global] imm@16 h / [shared] [global] imm@16 any h
cp async cg                 : [shared] [global] imm@16 / [shared] [global] imm@16 any
cp async mbarrier           : []
atom cas                    : =v1_ [] v1 v1 h
atom                        : =v1_ [] v1 h
red async                   : rest
red                         : [] v1 h
alloca                      : =1 1 / =1 1 imm
stacksave                   : =1
stackrestore                : !1

# Synchronisation
bar|barrier cluster         :
bar warp                    : u32
bar|barrier red popc        : =u32 u32@0..15 p / =u32 u32@0..15 u32@%32 p
bar|barrier red             : =p u32@0..15 p / =p u32@0..15 u32@%32 p
bar|barrier arrive          : u32@0..15 u32@%32
bar|barrier                 : u32@0..15 / u32@0..15 u32@%32
membar                      :
fence tensormap::generic acquire : [] imm@128
fence                       :
vote sync ballot            : =b32 p u32
vote sync                   : =p p u32
vote ballot                 : =b32 p
vote                        : =p p
match all                   : =b32_|p 1 u32
match                       : =u32 1 u32
activemask                  : =b32
elect                       : =b32_|P u32
redux b32                   : =u32 u32 u32
redux                       : =1 1 u32
griddepcontrol              :
nanosleep                   : u32
mbarrier init               : [shared] u32
mbarrier inval              : [shared]
mbarrier pending_count      : =u32 u64
mbarrier expect_tx|complete_tx $multicast !arrive !arrive_drop : [shared] u32 u32
mbarrier expect_tx|complete_tx !arrive !arrive_drop : [shared] u32
mbarrier arrive|arrive_drop $multicast expect_tx : _ [shared] u32 u32
mbarrier arrive|arrive_drop $multicast : _ [shared] u32 / _ [shared] u32 u32
mbarrier arrive|arrive_drop shared::cluster expect_tx|noComplete : _ [shared] u32
mbarrier arrive|arrive_drop shared::cluster : _ [shared] / _ [shared] u32
mbarrier arrive|arrive_drop expect_tx|noComplete : =u64_ [shared] u32
mbarrier arrive|arrive_drop : =u64_ [shared] / =u64_ [shared] u32
mbarrier test_wait parity   : =p [shared] u32@0..1
mbarrier test_wait          : =p [shared] u64
mbarrier try_wait parity    : =p [shared] u32@0..1 / =p [shared] u32@0..1 u32
mbarrier try_wait           : =p [shared] u64 / =p [shared] u64 u32

# Control and the rest
bra                         : label
trap|exit|ret|brkpt         :
setmaxnreg                  : imm@24..256%8
pmevent mask                : imm
pmevent                     : imm@0..15
vmad                        : =1. 2. 3. 1.
vadd|vsub|vabsdiff|vmin|vmax|vset #3 add|min|max : =1 2. 3. 1
vadd|vsub|vabsdiff|vmin|vmax #3 : =1 2. 3. / =1. 2. 3. 1
vset #2 add|min|max         : =u32 1. 2. u32
vset #2                     : =u32 1. 2. / =u32. 1. 2. u32
vshl|vshr add|min|max       : =1 2. u32. 1
vshl|vshr                   : =1 2. u32. / =1. 2. u32. 1

# Matrices
movmatrix                   : =b32 !b32
"""
"""One row a form: the instruction, words, a colon, the operands."""
