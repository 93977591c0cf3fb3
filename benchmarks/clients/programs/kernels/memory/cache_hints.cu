// Loads, stores and prefetches with hints for caches, which must not change what they read.
#include "../verify.h"

__global__ void hints(const int4 *__restrict__ a, int4 *b, const float *f, float *g) {
    int i = threadIdx.x;
    __stcg(b + i, __ldcg(a + i));
    __stcs(b + i + 32, __ldcs(a + i + 32));
    __stwt(b + i + 64, __ldca(a + i + 64));
    __stwb(b + i + 96, __ldcv(a + i + 96));
    b[i + 128] = __ldlu(a + i + 128);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(a + i));
    float x, y;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.f32 %0, [%1];" : "=f"(x) : "l"(f + i));
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(y) : "l"(f + i), "l"(policy));
    g[i] = x - 2 * y;
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], 1.0;" ::"l"(g + 32));
    __shared__ int own;
    if (i == 0) {
        own = 1;
        g[33] = __isGlobal(f) && !__isShared(f) && __isShared(&own) && !__isGlobal(&own);
    }
}

int main() {
    Array<int4> a(160), b(160);
    Array<float> f(32), g(34);
    for (int i = 0; i < 160; i++) a[i] = make_int4(i, i * i, -i, 7 * i);
    a.upload();
    fill(f, -1, 1);
    hints<<<1, 32>>>(a.device, b.device, f.device, g.device);
    finish();
    b.download();
    g.download();
    for (int i = 0; i < 160; i++) {
        expect("x", b[i].x, i);
        expect("y", b[i].y, i * i);
        expect("z", b[i].z, -i);
        expect("w", b[i].w, 7 * i);
    }
    for (int i = 0; i < 32; i++) expect("hinted loads", g[i], -f[i]);
    expect("red", g[32], 32);
    expect("address spaces", g[33], 1);
    return report();
}
