// Atomic operations of every width, scope and order, whose result no order of threads changes.
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../verify.h"

__global__ void integers(int *i, unsigned *u, unsigned long long *l, long long *s,
                         unsigned short *h) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMin(i, t);
    atomicMax(i + 1, t);
    atomicAdd(i + 2, t);
    atomicSub(i + 3, 2);
    atomicAdd_system(i + 4, 1);
    atomicAdd_block(i + 5 + blockIdx.x, 1);
    atomicAnd(u, ~(1u << t % 31));
    atomicOr(u + 1, 1u << t % 32);
    atomicXor(u + 2, t);
    atomicInc(u + 3, 6);
    atomicDec(u + 4, 6);
    atomicAdd(l, 1ull << 33);
    atomicMax(l + 1, static_cast<unsigned long long>(t) << 40);
    atomicMin(s, -static_cast<long long>(t));
    if (atomicCAS(i + 20, 0, t + 1) == 0) atomicAdd(i + 21, 1);
    if (atomicCAS(h, static_cast<unsigned short>(0), static_cast<unsigned short>(9)) == 0)
        atomicAdd(i + 22, 1);
    int value = t;  // each value leaves by an exchange; their sum stays
    for (int k = 0; k < 3; k++) value = atomicExch(i + 23, value);
    atomicAdd(i + 24, value);
}

__global__ void floats(float *f, double *d, __half2 *h, __nv_bfloat162 *b) {
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(h, __floats2half2_rn(1, 2));
    atomicAdd(b, __floats2bfloat162_rn(0.25f, 0.5f));
}

__global__ void ordered(int *turns, unsigned long long *total, int *wrong) {
    cuda::atomic_ref<int, cuda::thread_scope_device> turn(*turns);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> sum(*total);
    if (threadIdx.x == 0) {
        while (turn.load(cuda::memory_order_acquire) != blockIdx.x) {}
        unsigned long long seen = *total;  // what the block before released
        if (seen != blockIdx.x * 3ull) atomicAdd(wrong, 1);
        while (!sum.compare_exchange_strong(seen, seen + 3, cuda::memory_order_seq_cst)) {}
        turn.store(blockIdx.x + 1, cuda::memory_order_release);
    }
    turn.fetch_add(0, cuda::memory_order_acq_rel);
}

int main() {
    const int blocks = 4, n = blocks * 64;
    Array<int> i(32), turns(1), wrong(1);
    Array<unsigned> u(8);
    Array<unsigned long long> l(2), total(1);
    Array<long long> s(1);
    Array<unsigned short> h(2);
    Array<float> f(1);
    Array<double> d(1);
    Array<__half2> pair(1);
    Array<__nv_bfloat162> brain(1);
    i[0] = 1 << 30;
    u[0] = ~0u;
    i.upload();
    u.upload();
    integers<<<blocks, 64>>>(i.device, u.device, l.device, s.device, h.device);
    floats<<<blocks, 64>>>(f.device, d.device, pair.device, brain.device);
    ordered<<<8, 64>>>(turns.device, total.device, wrong.device);
    finish();
    i.download();
    u.download();
    l.download();
    s.download();
    h.download();
    f.download();
    d.download();
    pair.download();
    brain.download();
    total.download();
    wrong.download();
    int sum = n * (n - 1) / 2;
    const int values[] = {0, n - 1, sum, -2 * n, n, 64, 64, 64, 64};
    for (int k = 0; k < 9; k++) expect("integers", i[k], values[k]);
    expect("one exchange of several", i[21], 1);
    expect("one exchange of 16 bits", i[22] + 10 * h[0], 91);
    expect("values that were exchanged", i[23] + i[24], sum);
    const unsigned words[] = {1u << 31, ~0u, 0, n % 7, (7 - n % 7) % 7};
    for (int k = 0; k < 5; k++) expect("words", u[k], words[k]);
    expect("64 bits", static_cast<double>(l[0]), std::ldexp(n, 33));
    expect("64 bits", static_cast<double>(l[1]), std::ldexp(n - 1, 40));
    expect("64 bits", static_cast<double>(s[0]), 1 - n);
    expect("float", f[0], 0.5 * n);
    expect("double", d[0], 0.25 * n);
    expect("half2", __half2float(pair[0].x), n);
    expect("half2", __half2float(pair[0].y), 2 * n);
    expect("bfloat162", __bfloat162float(brain[0].x), n / 4);
    expect("bfloat162", __bfloat162float(brain[0].y), n / 2);
    expect("ordered", static_cast<double>(total[0]), 24);
    expect("ordered, wrong", wrong[0], 0);
    return report();
}
