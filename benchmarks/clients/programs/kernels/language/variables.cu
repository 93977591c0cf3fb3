// Variables of the device, templates, structures as arguments, launch bounds, and lambdas.
#include "../verify.h"

__device__ int counter = 5;
__constant__ double coefficients[4] = {1, 2, 3, 4};
__device__ const char *text = "hi";

template <class T> __global__ void set(T *p, T value) { p[threadIdx.x] = value; }

struct Argument {
    int a;
    double b;
    char c[12];
};

__global__ void __launch_bounds__(256, 2)
    use(Argument first, const __grid_constant__ Argument second, double *out) {
    int old = atomicAdd(&counter, 1);
    if (threadIdx.x == 0) out[32] = first.b;
    out[threadIdx.x] = second.c[threadIdx.x % 12] + coefficients[(first.a + threadIdx.x) & 3] + text[1];
    if (old < 5) out[0] = -1;
}

template <class F> __global__ void apply(int *values, F f) {
    values[threadIdx.x] = f(values[threadIdx.x]);
}

__global__ void scale(int *values, int factor) {
    auto f = [=] __device__(int x) { return x * factor; };
    for (int i = 0; i < 64; i++) {
        if (values[i] < 0) continue;
        if (values[i] > 1000) break;
        values[i] = f(values[i]);
    }
}

struct AddTo {
    int add;
    __device__ int operator()(int x) const { return x + add; }
};

int main() {
    Array<float> floats(32);
    Array<double> doubles(32), out(33);
    Array<int> values(64), more(64);
    fill(values, -100, 1100);
    fill(more, -100, 100);
    std::vector<int> before = values.host, others = more.host;
    Argument first = {7, 2.25, "abcdefghijk"}, second = {8, 1, "klmnopqrstu"};
    set<float><<<1, 32>>>(floats.device, 1.5f);
    set<double><<<1, 32>>>(doubles.device, -2.5);
    use<<<1, 32>>>(first, second, out.device);
    scale<<<1, 1>>>(values.device, 3);
    apply<<<1, 64>>>(more.device, AddTo{11});
    finish();
    floats.download();
    doubles.download();
    out.download();
    values.download();
    more.download();
    int count = 0;
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    expect("counter", count, 37);
    expect("argument", out[32], 2.25);
    for (int i = 0; i < 32; i++) {
        expect("set float", floats[i], 1.5);
        expect("set double", doubles[i], -2.5);
        expect("use", out[i], second.c[i % 12] + 1 + ((7 + i) & 3) + 'i');
    }
    bool ended = false;
    for (int i = 0; i < 64; i++) {
        ended = ended || before[i] > 1000;
        expect("scale", values[i], ended || before[i] < 0 ? before[i] : before[i] * 3);
        expect("apply", more[i], others[i] + 11);
    }
    return report();
}
