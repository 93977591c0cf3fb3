// Random numbers by counters (Philox 4x32-10) and by xorshift, and their normal distribution.
#include <cstdint>

#include "../verify.h"

__host__ __device__ uint32_t high(uint32_t a, uint32_t b) {
    return static_cast<uint64_t>(a) * b >> 32;
}

__host__ __device__ uint4 philox(uint4 c, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = high(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        uint32_t high1 = high(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return c;
}

__global__ void words(uint4 *out, uint64_t seed, uint64_t offset) {
    uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    uint4 counter = make_uint4(offset, offset >> 32, i, i >> 32);
    out[i] = philox(counter, make_uint2(seed, seed >> 32));
}

__global__ void normals(const uint4 *in, float2 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float u = __uint2float_rn(in[i].x) * 2.3283064e-10f + 1e-10f, sine, cosine;
    __sincosf(6.2831853f * (in[i].y * 2.3283064e-10f) - 3.14159265f, &sine, &cosine);
    float length = sqrtf(-2 * __logf(u));
    out[i] = make_float2(length * sine, length * cosine);
}

__host__ __device__ uint64_t next(uint64_t x) {
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

__global__ void xorshift(uint64_t *state) {
    state[threadIdx.x] = next(state[threadIdx.x]) * 0x2545F4914F6CDD1Dull % 1000003;
}

int main() {
    const int n = 4096;
    const uint64_t seed = 0x123456789abcdefull, offset = 1ull << 33 | 7;
    // The first known answer of the generator's authors: counter and key 0.
    uint4 known = philox(make_uint4(0, 0, 0, 0), make_uint2(0, 0));
    expect("known answer", known.x, 0x6627e8d5);
    expect("known answer", known.w, 0x9b00dbd8);
    Array<uint4> random(n);
    Array<float2> normal(n);
    Array<uint64_t> state(256);
    for (int i = 0; i < 256; i++) state[i] = 88172645463325252ull * (i + 1);
    state.upload();
    std::vector<uint64_t> before = state.host;
    words<<<n / 128, 128>>>(random.device, seed, offset);
    normals<<<n / 128, 128>>>(random.device, normal.device);
    xorshift<<<1, 256>>>(state.device);
    finish();
    random.download();
    normal.download();
    state.download();
    for (int i = 0; i < n; i++) {
        uint4 expected = philox(make_uint4(offset, offset >> 32, i, 0), make_uint2(seed, seed >> 32));
        expect("words", random[i].x, expected.x);
        expect("words", random[i].y, expected.y);
        expect("words", random[i].z, expected.z);
        expect("words", random[i].w, expected.w);
        double u = expected.x * 2.3283064e-10 + 1e-10, angle = expected.y * 2.3283064e-10;
        double length = std::sqrt(-2 * std::log(u));
        expect("normals", normal[i].x, length * std::sin(6.2831853 * angle - 3.14159265), 1e-4);
        expect("normals", normal[i].y, length * std::cos(6.2831853 * angle - 3.14159265), 1e-4);
    }
    for (int i = 0; i < 256; i++)
        expect("xorshift", state[i], next(before[i]) * 0x2545F4914F6CDD1Dull % 1000003);
    return report();
}
