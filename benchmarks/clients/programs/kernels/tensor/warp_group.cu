// wgmma: a product of 64 by 8 values by a warp group, whose factors are in shared memory.
#include <cstdint>

#include <cuda_fp16.h>

#include "../verify.h"

// A descriptor of core matrices of 8 rows of 16 bytes: the strides between them along k, and along
// rows or columns.
__device__ uint64_t describe(const void *p, uint64_t along_k, uint64_t along_rows) {
    uint64_t address = __cvta_generic_to_shared(p);
    return (address & 0x3ffff) >> 4 | along_k >> 4 << 16 | along_rows >> 4 << 32;
}

__global__ void product(const __half *a, const __half *b, float *c) {
    __shared__ alignas(128) __half left[64 * 16], right[8 * 16];
    int t = threadIdx.x;
    for (int i = t; i < 64 * 16; i += 128) {
        int row = i / 16, k = i % 16;
        left[row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8] = a[i];
    }
    for (int i = t; i < 8 * 16; i += 128) {
        int column = i / 16, k = i % 16;
        right[k / 8 * 64 + column * 8 + k % 8] = b[k * 8 + column];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;"
                 " wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
                 " {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(describe(left, 128, 256)), "l"(describe(right, 128, 256)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (int i = 0; i < 4; i++) c[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

int main() {
    Array<__half> a(64 * 16), b(16 * 8);
    Array<int> left(64 * 16), right(16 * 8);
    Array<float> c(64 * 8);
    fill(left, -9, 9, 1);
    fill(right, -9, 9, 2);
    for (int i = 0; i < 64 * 16; i++) a[i] = __float2half(left[i]);
    for (int i = 0; i < 16 * 8; i++) b[i] = __float2half(right[i]);
    a.upload();
    b.upload();
    product<<<1, 128>>>(a.device, b.device, c.device);
    finish();
    c.download();
    for (int i = 0; i < 64 * 8; i++) {
        int sum = 0;
        for (int k = 0; k < 16; k++) sum += left[i / 8 * 16 + k] * right[k * 8 + i % 8];
        expect("product", c[i], sum);
    }
    return report();
}
