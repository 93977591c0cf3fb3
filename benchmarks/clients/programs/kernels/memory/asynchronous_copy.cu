// Copies to shared memory that proceed while the block computes: two stages, and a barrier.
#include <cuda/barrier>
#include <cuda_pipeline.h>

#include "../verify.h"

__global__ void staged(const float4 *in, float4 *out, int tiles) {
    __shared__ float4 s[2][128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][t], in + t, sizeof(float4));
    __pipeline_commit();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles)
            __pipeline_memcpy_async(&s[(tile + 1) % 2][t], in + (tile + 1) * 128 + t, sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = s[tile % 2][127 - t];
        out[tile * 128 + t] = make_float4(v.x + 1, v.y * 2, -v.z, v.w);
        __syncthreads();
    }
}

__global__ void with_barrier(int *values) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int s[64];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    for (int round = 0; round < 4; round++) {
        s[threadIdx.x] = values[threadIdx.x] + round;
        barrier.arrive_and_wait();
        values[threadIdx.x] = s[threadIdx.x ^ 1] * 2;
        barrier.arrive_and_wait();
    }
}

int main() {
    const int tiles = 5, n = tiles * 128;
    Array<float4> in(n), out(n);
    Array<int> values(64);
    for (int i = 0; i < n; i++) in[i] = make_float4(i, i + .5f, i * .25f, -i);
    in.upload();
    fill(values, 0, 1000);
    std::vector<int> expected = values.host;
    staged<<<1, 128>>>(in.device, out.device, tiles);
    with_barrier<<<1, 64>>>(values.device);
    finish();
    out.download();
    values.download();
    for (int i = 0; i < n; i++) {
        float4 v = in[i / 128 * 128 + 127 - i % 128];
        expect("x", out[i].x, v.x + 1);
        expect("y", out[i].y, v.y * 2);
        expect("z", out[i].z, -v.z);
        expect("w", out[i].w, v.w);
    }
    for (int round = 0; round < 4; round++) {
        std::vector<int> before = expected;
        for (int i = 0; i < 64; i++) expected[i] = (before[i ^ 1] + round) * 2;
    }
    for (int i = 0; i < 64; i++) expect("barrier", values[i], expected[i]);
    return report();
}
