"""The grammar of instructions on memory: access, copies, atomics, barriers, textures, surfaces."""

MEMORY = """
# 9.7.10 Data Movement and Conversion: ld, ldu, st, prefetch and cache hints.
# Compilers write scope, order and state space of one access in various orders, and assemblers
# take them; what stands in brackets may come in any order.
ld      [ weak? $anywhere? $load_cache? ] $$data : =v~1 [] h
  b128                      : : 70 8.3
  v8 $just_32               : : 100 8.8
  v4 $just_64               : : 100 8.8
  nc                        : : 32 3.1
  relaxed|acquire           : : 70 6.0
  cluster                   : : 90 7.8
  mmio                      : : 70 8.2
  $evict1                   : : 70 7.4
  L2::cache_hint            : : 80 7.4
  L2::64B|L2::128B          : : 75 7.4
  L2::256B                  : : 80 7.4
  shared::cluster           : : 90 7.8
  shared::cta               : : 30 7.8
  proxy::readonly           : : 90 9.4
  param::func               : : 70 8.3
  b128 sys                  : : 70 8.4
  volatile local            : : 30 9.1
  param::entry|param::func  : : 70 7.7
ld      [ weak? global? $load_cache? L2::cache_hint? $prefetch? ] $$data
ld      [ weak? global? $evict1? L2::cache_hint? $prefetch? ] $$data
ld      [ weak? global? $load_cache|$evict1? $evict2_wide? L2::cache_hint? $prefetch? ] $$wide
ld      [ global ca|cg|cs? nc L2::cache_hint? $prefetch? ] $$data
ld      [ global nc $evict1? L2::cache_hint? $prefetch? ] $$data
ld      [ global ca|cg|cs|$evict1? nc $evict2_wide? L2::cache_hint? $prefetch? ] $$wide
ld      [ global? proxy::readonly ] $$scalars
ld      [ global nc proxy::readonly ] $$scalars
ld      [ volatile $visible|local? ] $$data
ld      [ volatile global? $prefetch? ] $$data
ld      [ volatile global? $prefetch? ] $$wide
ld      [ relaxed|acquire $scope $visible? ] $$data
ld      [ relaxed|acquire $scope global? $evict1? L2::cache_hint? $prefetch? ] $$data
ld      [ relaxed|acquire $scope global? $evict1? $evict2_wide? L2::cache_hint? $prefetch? ] $$wide
ld      [ mmio relaxed|acquire sys global? ] $memory
ldu     global? $$read      : =v~1 []
st      [ weak? $stored? $store_cache? ] $$data : [] v~1 h
  async release             : [] v~1
  async                     : rest
  bulk                      : [] u64@%8 imm@0
  b128                      : : 70 8.3
  v8 $just_32               : : 100 8.8
  v4 $just_64               : : 100 8.8
  relaxed|release           : : 70 6.0
  cluster                   : : 90 7.8
  mmio                      : : 70 8.2
  $evict1                   : : 70 7.4
  L2::cache_hint            : : 80 7.4
  shared::cluster           : : 90 7.8
  async                     : : 90 8.1
  async release             : : 100 8.7
  bulk                      : : 100 8.6
  shared::cta               : : 30 7.8
  param::func               : : 70 8.3
  b128 sys                  : : 70 8.4
  volatile local            : : 30 9.1
  param::func  : : 70 7.7
st      [ weak? global? $store_cache|$evict1? L2::cache_hint? ] $$data
st      [ weak? global? $store_cache|$evict1? $evict2_wide? L2::cache_hint? ] $$wide
st      [ volatile $visible|local? ] $$data
st      [ volatile global? ] $$wide
st      [ relaxed|release $scope $visible? ] $$data
st      [ relaxed|release $scope global? $evict1? L2::cache_hint? ] $$data
st      [ relaxed|release $scope global? $evict1? $evict2_wide? L2::cache_hint? ] $$wide
st      [ mmio relaxed|release sys global? ] $memory
st      async [ weak? cluster? shared::cluster? $complete? ] $vec? $memory
st      async [ mmio? release gpu|sys global? ] $memory
st      bulk [ weak? shared::cta? ]
prefetch global|local? L1|L2                 : []
  tensormap                 : : 90 8.0
  L2::evict_last|L2::evict_normal            : : 80 7.4
  L1::32B                   : : 90 9.4
prefetch global? L1::32B valid_addr
prefetch global L2::evict_last|L2::evict_normal
prefetch const|param|param::entry? tensormap
prefetchu L1                : []
applypriority global? L2::evict_normal       : [] imm@128 : 80 7.4
  async                     : rest
applypriority async bulk global? bulk_group L2::evict_normal
applypriority async bulk tensor $dim [ global? L2? $load_mode? bulk_group L2::evict_normal
        override::*? override_attribute::*? ]
discard global? L2          : [] imm@128 : 80 7.4
createpolicy fractional $evict2 L2::evict_first|L2::evict_unchanged? b64 : : 80 7.4
  fractional                : =u64 / =u64 f32
  range                     : =u64 [] u32 u32
  cvt                       : =u64 u64
createpolicy range [ global? $evict2 ] L2::evict_first|L2::evict_unchanged? b64
createpolicy cvt L2 b64

# 9.7.10.28 Asynchronous copy
cp      async [ ca|cg shared|shared::cta ] global [ L2::cache_hint? $prefetch? ]
  async commit_group|wait_all                : -
  async wait_group          : imm
  async ca L2::cache_hint   : [shared] [global] imm@4,8,16 h / [shared] [global] imm@4,8,16 any h
  async ca                  : [shared] [global] imm@4,8,16 / [shared] [global] imm@4,8,16 any
  async cg L2::cache_hint   : [shared] [global] imm@16 h / [shared] [global] imm@16 any h
  async cg                  : [shared] [global] imm@16 / [shared] [global] imm@16 any
  async mbarrier            : []
  async !bulk               : : 80 7.0
  async L2::64B|L2::128B|L2::256B|L2::cache_hint !bulk : : 80 7.4
  async bulk                : : 90 8.0
  async bulk shared::cta global !bulk_group !reduce : : 90 8.6
  async bulk tile::gather4|im2col::w        : : 100 8.6
  async bulk tile::gather4|im2col::w shared::cluster : : 100a/100f/110f 8.6
  async bulk tile::scatter4|im2col::w::128   : : 100a/100f/110f 8.6
  async bulk cta_group::1|cta_group::2       : : 100a/100f/110f 8.6
cp      async commit_group|wait_group|wait_all
cp      async mbarrier arrive [ noinc? shared|shared::cta? layout::*? ] b64
cp      async bulk [ weak|relaxed? $scope? ] $space_of_copy $space_of_copy [ $validity
        mbarrier::report::*? $multicast? L2::cache_hint? cp_mask? ignore_oob? ] b128?
cp      async bulk commit_group
cp      async bulk wait_group read?
cp      async bulk prefetch L2 [ global L2::cache_hint? $evict2? ]
cp      async bulk prefetch tensor $dim $load_mode L2 global [ L2::cache_hint? $evict2?
        override::*? override_attribute::*? ]
cp      async bulk prefetch tensor $dim L2 [ global $load_mode? L2::cache_hint? $evict2?
        override::*? override_attribute::*? ]
cp      async bulk tensor $dim [ $load_mode? $cta_group? ] $space_of_copy global|shared::cta
        [ $load_mode? $validity mbarrier::report::*? $multicast? $cta_group? L2::cache_hint?
        override::*? override_attribute::*? ]
cp      reduce async bulk [ relaxed? $scope? ] global|shared::cluster shared::cta [ $validity
        L2::cache_hint? ] $fold noftz? $bulk_reduced
cp      reduce async bulk tensor $dim global shared::cta [ $fold $load_mode? bulk_group
        L2::cache_hint? override::*? override_attribute::*? ]
tensormap replace tile $tensor_field global|shared::cta? b1024 b32|b64 : [] 2 / [] imm 2
  cp_fenceproxy             : [global] [shared] imm@128
  replace                   : : 90a/100f/110f/120f 8.3
  cp_fenceproxy             : : 90 8.3
tensormap cp_fenceproxy global shared::cta tensormap::generic release $scope sync aligned

# 9.7.10.15 multimem; 9.7.11 Fabric Instructions
multimem ld_reduce [ weak|relaxed|acquire? $scope? global? ] min|max|add|and|or|xor
        acc::f32|acc::f16? $vec? $reduced|$f8 : : 90 8.1
multimem st [ weak|relaxed|release? $scope? global? ] $vec? $reduced|$f8
multimem red [ relaxed|release? $scope? global? ] min|max|add|and|or|xor $vec? $reduced
multimem st async release $scope global? $memory
multimem red async release $scope global? $fold noftz? $reduced
multimem cp async bulk [ weak|relaxed? $scope? ] global shared::cta bulk_group cp_mask? b128?
multimem cp reduce async bulk [ relaxed? $scope? ] global shared::cta bulk_group $fold noftz?
        $bulk_reduced
fabric  submit op_restrict::fetching?
fabric  wait sync_restrict::reads
fabric  try_get|try_put|try_red|try_pullred async [ multimem? shared::cta
        mbarrier::complete_tx::* mbarrier::report::fabric relaxed sys $fold? acc::*? noftz?
        cp_mask? ] $vec? $reduced|b128|$f8? sync?

# 9.7.12 Texture and Surface Instructions
tex     base|level|grad? $geom v4 u32|s32|f16|f32 s32|f32
        : ={4}1|p [*] / ={4}1|p [*] any / ={4}1|p [*] any any
        / ={4}1|p [*] any any any / ={4}1|p [*] any any any any
  f16x2                     : ={2}1|p [*] / ={2}1|p [*] any / ={2}1|p [*] any any
        / ={2}1|p [*] any any any / ={2}1|p [*] any any any any
tex     base|level|grad? $geom v2 f16x2 s32|f32
tld4    r|g|b|a 2d|a2d|cube|acube v4 u32|s32|f32 f32
        : ={4}1|p [*] / ={4}1|p [*] any / ={4}1|p [*] any any
txq     $texture_query b32  : =b32 [*]
  level                     : =b32 [*] b32
txq     level width|height|depth b32
suld    b $surface $load_cache? v2|v4? b8|b16|b32|b64 $clamp : =v~1|p [*]
suld    p $surface $load_cache? v2|v4? b32|u32|s32|f32 $clamp
sust    b $surface $store_cache? v2|v4? b8|b16|b32|b64 $clamp : [*] v~1
sust    p $surface v2|v4? b32 $clamp
sured   b add 1d|2d|3d u32|s32|u64 $clamp : [*] 1
  p b64                     : : 20 8.1
  min|max u64|s64           : : 20 8.1
sured   b min|max 1d|2d|3d u32|s32|u64|s64 $clamp
sured   b and|or 1d|2d|3d b32 $clamp
sured   p add|min|max|and|or 1d|2d|3d b32|b64 $clamp
suq     width|height|depth|channel_data_type|channel_order|array_size|memory_layout b32
        : =b32 [*]

# 9.7.15 Parallel Synchronization and Communication
bar     cta? sync|arrive    : u32@0..15 / u32@0..15 u32@%32
  warp                      : u32 : 30 6.0
  red popc                  : =u32 u32@0..15 p / =u32 u32@0..15 u32@%32 p
  red                       : =p u32@0..15 p / =p u32@0..15 u32@%32 p
  arrive                    : u32@0..15 u32@%32
bar     cta? red popc u32
bar     cta? red and|or pred
bar     warp sync
barrier cta? sync|arrive aligned?            : u32@0..15 / u32@0..15 u32@%32
  cluster                   : -
  red popc                  : =u32 u32@0..15 p / =u32 u32@0..15 u32@%32 p
  red                       : =p u32@0..15 p / =p u32@0..15 u32@%32 p
  arrive                    : u32@0..15 u32@%32
  !cluster                  : : 30 6.0
  cluster                   : : 90 7.8
barrier cta? red popc aligned? u32
barrier cta? red and|or aligned? pred
barrier cluster arrive release|relaxed? aligned?
barrier cluster wait acquire? aligned?
membar  cta|gl|sys          : -
  async                     : : 90 8.0
membar  proxy alias|async
fence   acq_rel|acquire|release|sc? $scope   : - : 70 6.0
  tensormap::generic acquire                 : [] imm@128
  cluster                   : : 90 7.8
  acquire|release !proxy !mbarrier_init      : : 90 8.6
  mbarrier_init             : : 90 8.0
  tensormap::generic        : : 90 8.3
  proxy async               : : 90 8.0
  mbarrier_init             : : 90 8.0
  alias acquire|release     : : 90 9.4
  alias                     : : 70 7.5
  generic::fabric|fabric::generic|fabric::fabric : : 107a 9.4
fence   acquire sync_restrict::shared::cluster cluster
fence   release sync_restrict::shared::cta cluster
fence   mbarrier_init release cluster
fence   proxy alias|async
fence   proxy alias acquire|release sys
fence   proxy async global|shared::cta|shared::cluster
fence   proxy tensormap::generic acquire|release $scope
fence   proxy async::generic acquire|release sync_restrict::* $scope
fence   proxy generic::fabric|fabric::generic|fabric::fabric alias acquire|release sys
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? and|or|xor b32|b64 ] : =v1_ [] v1 h
  cas                       : =v1_ [] v1 v1 h
  shared::cluster           : : 90 7.8
  relaxed|acquire|release|acq_rel            : : 70 5.0
  cta|gpu|sys               : : 60 5.0
  cluster                   : : 90 7.8
  add f64                   : : 60 5.0
  f16x2                     : : 60 6.2
  f16                       : : 70 6.3
  bf16|bf16x2               : : 90 7.8
  cas b16                   : : 70 6.3
  b128                      : : 90 8.3
  shared::cta               : : 30 7.8
  $vec                      : : 90 8.1
  L2::cache_hint            : : 80 7.4
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? exch b32|b64|b128 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? cas b16|b32|b64|b128 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? add u32|s32|u64|f32|f64 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? inc|dec u32 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? min|max $word ]
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? add noftz $half ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? and|or|xor b32|b64 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? exch b32|b64|b128 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? cas b16|b32|b64|b128 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? add u32|s32|u64|f32|f64
        ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? inc|dec u32 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? min|max $word ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? add noftz $half ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? add v2|v4 f32 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? add|min|max noftz $vec
        f16|bf16 ]
atom    [ relaxed|acquire|release|acq_rel? $scope? global? L2::cache_hint? add|min|max noftz v2|v4
        f16x2|bf16x2 ]
red     [ relaxed|release? $scope? $shared? and|or|xor b32|b64 ] : [] v1 h
  async release             : [] 1
  async                     : rest
  shared::cluster           : : 90 7.8
  relaxed|release            : : 70 5.0
  cta|gpu|sys               : : 60 5.0
  cluster                   : : 90 7.8
  add f64                   : : 60 5.0
  f16x2                     : : 60 6.2
  f16                       : : 70 6.3
  bf16|bf16x2               : : 90 7.8
  shared::cta               : : 30 7.8
  $vec                      : : 90 8.1
  L2::cache_hint            : : 80 7.4
  async                     : : 90 8.1
  async release             : : 100 8.7
red     [ relaxed|release? $scope? $shared? add u32|s32|u64|f32|f64 ]
red     [ relaxed|release? $scope? $shared? inc|dec u32 ]
red     [ relaxed|release? $scope? $shared? min|max $word ]
red     [ relaxed|release? $scope? $shared? add noftz $half ]
red     [ relaxed|release? $scope? global? L2::cache_hint? and|or|xor b32|b64 ]
red     [ relaxed|release? $scope? global? L2::cache_hint? add u32|s32|u64|f32|f64 ]
red     [ relaxed|release? $scope? global? L2::cache_hint? inc|dec u32 ]
red     [ relaxed|release? $scope? global? L2::cache_hint? min|max $word ]
red     [ relaxed|release? $scope? global? L2::cache_hint? add noftz $half ]
red     [ relaxed|release? $scope? global? L2::cache_hint? add v2|v4 f32 ]
red     [ relaxed|release? $scope? global? L2::cache_hint? add|min|max noftz $vec f16|bf16 ]
red     [ relaxed|release? $scope? global? L2::cache_hint? add|min|max noftz v2|v4 f16x2|bf16x2 ]
red     async [ relaxed cluster shared::cluster? $complete ] $fold b32|u32|s32|u64|s64
red     async [ mmio? release gpu|sys|cluster global? ] add u32|s32|u64|s64
redux   sync add|min|max u32|s32             : =1 1 u32 : 80 7.0
  b32                       : =u32 u32 u32
  f32                       : : 100f 8.6
redux   sync and|or|xor b32
redux   sync min|max abs? NaN? f32
vote    sync? all|any|uni pred               : =p p
  sync ballot               : =b32 p u32
  sync                      : =p p u32
  ballot                    : =b32 p
  !sync                     : : <70@6.4 1.0
  sync                      : : 30 6.0
vote    sync? ballot b32
match   any|all sync b32|b64                 : =u32 1 u32 : 70 6.0
  all                       : =b32_|p 1 u32
activemask b32              : =b32 : 30 6.2
elect   sync                : =b32_|P u32 : 90 8.0
griddepcontrol launch_dependents|wait        : - : 90 7.8
mbarrier init|inval [ shared|shared::cta? layout::*? ] b64 : : 80 7.0
  init                      : [shared] u32
  inval                     : [shared]
  pending_count             : =u32 u64
  expect_tx|complete_tx $multicast !arrive !arrive_drop : [shared] u32 u32
  expect_tx|complete_tx !arrive !arrive_drop : [shared] u32
  arrive|arrive_drop $multicast expect_tx    : _ [shared] u32 u32
  arrive|arrive_drop $multicast              : _ [shared] u32 / _ [shared] u32 u32
  arrive|arrive_drop shared::cluster expect_tx|noComplete : _ [shared] u32
  arrive|arrive_drop shared::cluster         : _ [shared] / _ [shared] u32
  arrive|arrive_drop expect_tx|noComplete    : =u64_ [shared] u32
  arrive|arrive_drop        : =u64_ [shared] / =u64_ [shared] u32
  test_wait parity          : =p [shared] u32@0..1
  test_wait                 : =p [shared] u64
  try_wait parity           : =p [shared] u32@0..1 / =p [shared] u32@0..1 u32
  try_wait                  : =p [shared] u64 / =p [shared] u64 u32
  test_wait acquire|relaxed                  : : 80 8.0
  try_wait acquire|relaxed  : : 90 8.0
  shared::cta               : : 30 7.8
  multicast::*              : : 107a 9.4
  try_wait                  : : 90 7.8
  expect_tx|complete_tx     : : 90 8.0
  cluster|shared::cluster   : : 90 8.0
  arrive|arrive_drop|test_wait relaxed       : : 90 8.0
  layout::*                 : : 90 9.2
mbarrier pending_count layout::*? b64
mbarrier expect_tx|complete_tx [ $shared? ] b64
mbarrier expect_tx|complete_tx [ relaxed cta|cluster $shared? ] b64
mbarrier expect_tx|complete_tx [ shared::cluster multicast::cluster::32b ] b64
mbarrier expect_tx|complete_tx [ relaxed cta|cluster shared::cluster multicast::cluster::32b ] b64
mbarrier arrive|arrive_drop [ expect_tx? $shared? ] b64
mbarrier arrive|arrive_drop [ expect_tx? release|relaxed cta|cluster $shared? ] b64
mbarrier arrive|arrive_drop [ expect_tx? shared::cluster multicast::cluster::32b ] b64
mbarrier arrive|arrive_drop [ expect_tx? release|relaxed cta|cluster shared::cluster
        multicast::cluster::32b ] b64
mbarrier arrive|arrive_drop [ noComplete shared|shared::cta? ] b64
mbarrier arrive|arrive_drop [ noComplete release cta shared|shared::cta? ] b64
mbarrier test_wait|try_wait [ parity? phase_type::*? shared|shared::cta? ] b64
mbarrier test_wait|try_wait [ parity? phase_type::*? acquire|relaxed cta|cluster shared|shared::cta?
        ] b64
mbarrier check_layout layout::* $shared? b64
clusterlaunchcontrol try_cancel async [ shared::cta? $complete multicast::cluster::all? ] b128
        : [shared] [shared] : 100 8.6
  try_cancel multicast::cluster::all : : 100f/110f/120f 8.6
  is_canceled               : =p any
  get_first_ctaid           : any any
  query_cancel              : =b32 any
clusterlaunchcontrol query_cancel is_canceled pred b128
clusterlaunchcontrol query_cancel get_first_ctaid v4 b32 b128
clusterlaunchcontrol query_cancel get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z b32
        b128
"""
"""One row per form: the instruction, then its modifiers in order. See ``rows`` for the notation."""
