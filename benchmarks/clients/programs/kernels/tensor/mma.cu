// The instructions mma and ldmatrix: a product of 16 by 8 values, with its sums in registers.
#include <cuda_fp16.h>

#include "../verify.h"

__global__ void product(const __half *a, const __half *b, float *c) {
    __shared__ alignas(16) __half left[16 * 16], right[8 * 16];  // right: a row per column of b
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) left[i] = a[i];
    for (int i = lane; i < 128; i += 32) right[i] = b[i % 16 * 8 + i / 16];
    __syncthreads();
    unsigned x[4], y[2];
    unsigned from = static_cast<unsigned>(
        __cvta_generic_to_shared(&left[lane % 16 * 16 + lane / 16 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from));
    from = static_cast<unsigned>(
        __cvta_generic_to_shared(&right[lane % 8 * 16 + lane / 8 % 2 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1])
                 : "r"(from));
    float sums[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    for (int i = 0; i < 4; i++)
        c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

int main() {
    Array<__half> a(256), b(128);
    Array<int> left(256), right(128);
    Array<float> c(128);
    fill(left, -9, 9, 1);
    fill(right, -9, 9, 2);
    for (int i = 0; i < 256; i++) a[i] = __float2half(left[i]);
    for (int i = 0; i < 128; i++) b[i] = __float2half(right[i]);
    a.upload();
    b.upload();
    product<<<1, 32>>>(a.device, b.device, c.device);
    finish();
    c.download();
    for (int i = 0; i < 128; i++) {
        int sum = 0;
        for (int k = 0; k < 16; k++) sum += left[i / 8 * 16 + k] * right[k * 8 + i % 8];
        expect("product", c[i], sum);
    }
    return report();
}
