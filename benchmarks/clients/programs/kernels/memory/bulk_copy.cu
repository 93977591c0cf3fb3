// Bulk copies between global and shared memory, whose bytes a barrier counts.
#include <cstdint>

#include "../verify.h"

__device__ uint32_t shared_address(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__global__ void doubled(const int *in, int *out) {
    __shared__ alignas(128) int s[1024];
    __shared__ alignas(8) uint64_t barrier;
    uint32_t words = shared_address(s), counter = shared_address(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(counter));
        asm volatile("fence.proxy.async;");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(counter));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1], 4096, [%2];" ::"r"(words),
                     "l"(in + blockIdx.x * 1024), "r"(counter)
                     : "memory");
    }
    __syncthreads();
    int done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;"
                     " selp.b32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(counter)
                     : "memory");
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096;" ::"l"(
                         out + blockIdx.x * 1024),
                     "r"(words)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

int main() {
    const int n = 4096;
    Array<int> in(n), out(n);
    fill(in, -1e6, 1e6);
    doubled<<<n / 1024, 128>>>(in.device, out.device);
    finish();
    out.download();
    for (int i = 0; i < n; i++) expect("doubled", out[i], in[i] * 2);
    return report();
}
