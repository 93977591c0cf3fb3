// printf, clocks and special registers in a kernel.
#include "../verify.h"

__global__ void speak(int n, float f, long long *out) {
    printf("%d.%d n=%d f=%.2f\n", blockIdx.x, threadIdx.x, n, f);
    long long before = clock64();
    unsigned long long begin, end;
    unsigned processor;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    __nanosleep(100);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
    asm("mov.u32 %0, %%smid;" : "=r"(processor));
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i * 3] = clock64() >= before;
    out[i * 3 + 1] = end >= begin;
    out[i * 3 + 2] = processor;
}

int main() {
    Array<long long> out(12, -1);
    std::fflush(stdout);
    speak<<<2, 2>>>(7, 2.5f, out.device);
    finish();
    out.download();
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    for (int i = 0; i < 4; i++) {
        expect("clock64", out[i * 3], 1);
        expect("globaltimer", out[i * 3 + 1], 1);
        expect("smid", out[i * 3 + 2] >= 0 && out[i * 3 + 2] < properties.multiProcessorCount, 1);
    }
    return report();
}
