// Kernels that a kernel launches.
#include "../verify.h"

__global__ void child(int *p, int add) { p[threadIdx.x + blockIdx.x * blockDim.x] += add; }

__global__ void parent(int *p, int n) {
    if (threadIdx.x == 0) {
        child<<<n / 128, 128>>>(p, 1);
        child<<<1, 32, 0, cudaStreamTailLaunch>>>(p, 3);
    }
}

int main() {
    const int n = 512;
    Array<int> a(n);
    parent<<<1, 32>>>(a.device, n);
    finish();
    a.download();
    for (int i = 0; i < n; i++) expect("child", a[i], i < 32 ? 4 : 1);
    return report();
}
