// malloc in a kernel, virtual functions, recursion, pointers to functions, and local arrays.
#include "../verify.h"

__global__ void heap(int **blocks, int *out, int n) {
    int *p = static_cast<int *>(malloc(n * sizeof(int)));
    blocks[threadIdx.x] = p;
    if (p) {
        memset(p, 0, n * sizeof(int));
        p[n - 1] = 3 + threadIdx.x;
    }
    __syncthreads();
    int other = (threadIdx.x + 1) % blockDim.x;
    out[threadIdx.x] = blocks[other] ? blocks[other][n - 1] + blocks[other][0] : -1;
    __syncthreads();
    free(p);
}

struct Base {
    __device__ virtual int f(int x) = 0;
};
struct Increment : Base {
    __device__ int f(int x) override { return x + 1; }
};
struct Multiply : Base {
    int factor;
    __device__ explicit Multiply(int factor) : factor(factor) {}
    __device__ int f(int x) override { return x * factor; }
};

__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

typedef int (*Function)(int);
__device__ int up(int x) { return x + 1; }
__device__ int down(int x) { return x - 1; }
__device__ Function table[2] = {up, down};

__global__ void calls(const int *a, int *out) {
    Increment increment;
    Multiply multiply(3);
    int t = threadIdx.x, value = a[t];
    Base *base = value & 1 ? static_cast<Base *>(&increment) : static_cast<Base *>(&multiply);
    int local[64], sum = 0;
    for (int i = 0; i < 64; i++) local[i] = a[i];
    for (int i = 0; i < 64; i++) sum += local[(a[i] + t) & 63];
    int chosen = 0;
    switch (value % 6) {
        case 0: chosen = 1; break;
        case 1: chosen = 5; break;
        case 2: chosen = value * 2; break;
        case 3: chosen = 9; break;
        case 4: chosen = -value; break;
        default: chosen = 8;
    }
    out[t] = base->f(value) + factorial(value % 9) + table[value % 2](5) + sum + chosen;
}

int main() {
    Array<int> a(64), out(64), sums(32);
    Array<int *> blocks(32);
    fill(a, 0, 100);
    heap<<<1, 32>>>(blocks.device, sums.device, 100);
    calls<<<1, 64>>>(a.device, out.device);
    finish();
    out.download();
    sums.download();
    for (int i = 0; i < 32; i++) expect("heap", sums[i], 3 + (i + 1) % 32);
    for (int i = 0; i < 64; i++) {
        int value = a[i], factorial = 1, sum = 0;
        for (int k = 2; k <= value % 9; k++) factorial *= k;
        for (int k = 0; k < 64; k++) sum += a[(a[k] + i) & 63];
        const int chosen[] = {1, 5, value * 2, 9, -value, 8};
        int called = (value & 1 ? value + 1 : value * 3) + (value % 2 ? 4 : 6);
        expect("calls", out[i], called + factorial + sum + chosen[value % 6]);
    }
    return report();
}
