"""The grammar of instructions on memory: access, copies, atomics, barriers, textures, surfaces."""

MEMORY = """
# 9.7.10 Data Movement and Conversion: ld, ldu, st, prefetch and cache hints.
# Compilers write scope, order and state space of one access in various orders, and assemblers
# take them; what stands in brackets may come in any order.
ld      [ weak? $anywhere? $load_cache? ] $$data
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
ldu     global? $$read
st      [ weak? $stored? $store_cache? ] $$data
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
prefetch global|local? L1|L2
prefetch global? L1::32B valid_addr
prefetch global L2::evict_last|L2::evict_normal
prefetch const|param|param::entry? tensormap
prefetchu L1
applypriority global? L2::evict_normal
applypriority async bulk global? bulk_group L2::evict_normal
applypriority async bulk tensor $dim [ global? L2? $load_mode? bulk_group L2::evict_normal
        override::*? override_attribute::*? ]
discard global? L2
createpolicy fractional $evict2 L2::evict_first|L2::evict_unchanged? b64
createpolicy range [ global? $evict2 ] L2::evict_first|L2::evict_unchanged? b64
createpolicy cvt L2 b64

# 9.7.10.28 Asynchronous copy
cp      async [ ca|cg shared|shared::cta ] global [ L2::cache_hint? $prefetch? ]
cp      async commit_group|wait_group|wait_all
cp      async mbarrier arrive [ noinc? shared|shared::cta? layout::*? ] b64
cp      async bulk [ weak|relaxed? $scope? ] $space_of_copy $space_of_copy [ $validity
        mbarrier::report::*? $multicast? L2::cache_hint? cp_mask? ignore_oob? ] b128?
cp      async bulk commit_group
cp      async bulk wait_group read?
cp      async bulk prefetch L2 [ global L2::cache_hint? $evict2? ]
cp      async bulk prefetch tensor $dim L2 [ global $load_mode? L2::cache_hint? $evict2?
        override::*? override_attribute::*? ]
cp      async bulk tensor $dim $space_of_copy global|shared::cta [ $load_mode? $validity
        mbarrier::report::*? $multicast? $cta_group? L2::cache_hint? override::*?
        override_attribute::*? ]
cp      reduce async bulk [ relaxed? $scope? ] global|shared::cluster shared::cta [ $validity
        L2::cache_hint? ] $fold noftz? $bulk_reduced
cp      reduce async bulk tensor $dim global shared::cta [ $fold $load_mode? bulk_group
        L2::cache_hint? override::*? override_attribute::*? ]
tensormap replace tile $tensor_field global|shared::cta? b1024 b32|b64
tensormap cp_fenceproxy global shared::cta tensormap::generic release $scope sync aligned

# 9.7.10.15 multimem; 9.7.11 Fabric Instructions
multimem ld_reduce [ weak|relaxed|acquire? $scope? global? ] min|max|add|and|or|xor
        acc::f32|acc::f16? $vec? $reduced|$f8
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
tex     base|level|grad? $geom v2 f16x2 s32|f32
tld4    r|g|b|a 2d|a2d|cube|acube v4 u32|s32|f32 f32
txq     $texture_query b32
txq     level width|height|depth b32
suld    b $geom $load_cache? $vec? b8|b16|b32|b64 $clamp
suld    p $geom $load_cache? $vec? b32|u32|s32|f32 $clamp
sust    b $geom $store_cache? $vec? b8|b16|b32|b64 $clamp
sust    p $geom $vec? b32|u32|s32|f32 $clamp
sured   b add|min|max|and|or $geom u32|u64|s32|b32|s64 $clamp
sured   p add|min|max|and|or $geom b32|b64 $clamp
suq     width|height|depth|channel_data_type|channel_order|array_size|memory_layout b32

# 9.7.15 Parallel Synchronization and Communication
bar     cta? sync|arrive
bar     cta? red popc u32
bar     cta? red and|or pred
bar     warp sync
barrier cta? sync|arrive aligned?
barrier cta? red popc aligned? u32
barrier cta? red and|or aligned? pred
barrier cluster arrive release|relaxed? aligned?
barrier cluster wait acquire? aligned?
membar  cta|gl|sys
membar  proxy alias|async
fence   acq_rel|acquire|release|sc? $scope
fence   acquire sync_restrict::shared::cluster cluster
fence   release sync_restrict::shared::cta cluster
fence   mbarrier_init release cluster
fence   proxy alias|async
fence   proxy alias acquire|release sys
fence   proxy async global|shared::cta|shared::cluster
fence   proxy tensormap::generic acquire|release $scope
fence   proxy async::generic acquire|release sync_restrict::* $scope
fence   proxy generic::fabric|fabric::generic|fabric::fabric alias acquire|release sys
atom    [ relaxed|acquire|release|acq_rel? $scope? $shared? and|or|xor b32|b64 ]
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
red     [ relaxed|release? $scope? $shared? and|or|xor b32|b64 ]
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
redux   sync add|min|max u32|s32
redux   sync and|or|xor b32
redux   sync min|max abs? NaN? f32
vote    sync? all|any|uni pred
vote    sync? ballot b32
match   any|all sync b32|b64
activemask b32
elect   sync
griddepcontrol launch_dependents|wait
mbarrier init|inval [ shared|shared::cta? layout::*? ] b64
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
clusterlaunchcontrol query_cancel is_canceled pred b128
clusterlaunchcontrol query_cancel get_first_ctaid v4 b32 b128
clusterlaunchcontrol query_cancel get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z b32
        b128
"""
"""One row a form: the instruction, then its modifiers in order. See ``rows`` for the notation."""
