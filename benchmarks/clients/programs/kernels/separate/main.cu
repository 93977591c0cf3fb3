// Device code in two files, which are linked: a function and a variable of the other file.
#include "../verify.h"

extern __device__ int shared_counter;
extern __device__ int combine(int x, int y);

__global__ void call(int *a) {
    atomicAdd(&shared_counter, 1);
    a[threadIdx.x] = combine(a[threadIdx.x], threadIdx.x);
}

int main() {
    Array<int> a(64);
    fill(a, -100, 100);
    std::vector<int> before = a.host;
    call<<<1, 64>>>(a.device);
    finish();
    a.download();
    int count = 0;
    CHECK(cudaMemcpyFromSymbol(&count, shared_counter, sizeof count));
    expect("counter", count, 64 + 3);
    for (int i = 0; i < 64; i++) expect("combine", a[i], before[i] * 5 - i);
    return report();
}
