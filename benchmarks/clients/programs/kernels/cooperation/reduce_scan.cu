// Sums, prefix sums and maxima with shuffles, shared memory and atomic operations.
#include "../verify.h"

__device__ float sum_of_warp(float value) {
    for (int offset = 16; offset; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
    return value;
}

__global__ void reduce(const float *x, float *out, int n) {
    __shared__ float sums[32];
    float value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        value += x[i];
    value = sum_of_warp(value);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = sum_of_warp(threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0);
        if (threadIdx.x == 0) atomicAdd(out, value);
    }
}

__device__ int scan_of_warp(int value) {
    for (int offset = 1; offset < 32; offset <<= 1) {
        int other = __shfl_up_sync(~0u, value, offset);
        if (threadIdx.x % 32 >= offset) value += other;
    }
    return value;
}

__global__ void scan(const int *x, int *y) {
    __shared__ int sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32;
    int value = scan_of_warp(x[i]);
    if (threadIdx.x % 32 == 31) sums[warp] = value;
    __syncthreads();
    if (warp == 0) sums[threadIdx.x] = scan_of_warp(sums[threadIdx.x]);
    __syncthreads();
    y[i] = value + (warp ? sums[warp - 1] : 0);
}

__global__ void maximum(const double *x, double *out) {
    extern __shared__ double values[];
    values[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int half = blockDim.x / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half)
            values[threadIdx.x] = fmax(values[threadIdx.x], values[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) out[blockIdx.x] = values[0];
}

int main() {
    const int n = 8192, threads = 1024;
    Array<float> x(n), sum(1);
    Array<int> numbers(n), prefixes(n);
    Array<double> doubles(n), largest(n / 256);
    fill(x, 0, 1, 1);
    fill(numbers, -100, 100, 2);
    fill(doubles, -1e9, 1e9, 3);
    reduce<<<5, 256>>>(x.device, sum.device, n);
    scan<<<n / threads, threads>>>(numbers.device, prefixes.device);
    maximum<<<n / 256, 256, 256 * sizeof(double)>>>(doubles.device, largest.device);
    finish();
    sum.download();
    prefixes.download();
    largest.download();
    double total = 0;
    for (int i = 0, prefix = 0; i < n; i++) {
        total += x[i];
        prefix = i % threads ? prefix + numbers[i] : numbers[i];
        expect("scan", prefixes[i], prefix);
    }
    expect("reduce", sum[0], total, 1e-5);
    for (int block = 0; block < n / 256; block++) {
        double found = doubles[block * 256];
        for (int i = 1; i < 256; i++) found = std::fmax(found, doubles[block * 256 + i]);
        expect("maximum", largest[block], found);
    }
    return report();
}
