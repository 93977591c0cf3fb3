"""A kernel that only meets: at the barrier of its cluster of two, or at that of its block."""

THREADS, CLUSTER = 256, 2
_MEET = {
    True: "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
    False: "bar.sync 0;",
}


def source(of_cluster: bool) -> str:
    """Return PTX with the kernel ``meet``: floats, results, how often."""
    return f""".version 8.5
.target sm_90a
.address_size 64
.visible .entry meet(.param .u64 px, .param .u64 po, .param .u32 pn)
{f".explicitcluster .reqnctapercluster {CLUSTER}, 1, 1" if of_cluster else ""}
{{
  .reg .b32 %t, %b, %n;
  .reg .f32 %x;
  .reg .b64 %a, %o, %d;
  .reg .pred %p;
  ld.param.u64 %a, [px]; ld.param.u64 %o, [po]; ld.param.u32 %n, [pn];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %t, %b, {THREADS}, %t;
  mul.wide.u32 %d, %t, 4; add.u64 %a, %a, %d; add.u64 %o, %o, %d;
  ld.global.f32 %x, [%a];
AGAIN:
  fma.rn.f32 %x, %x, 0f3f000000, 0f3f800000;
  {_MEET[of_cluster]}
  sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra AGAIN;
  st.global.f32 [%o], %x;
  ret;
}}
"""
