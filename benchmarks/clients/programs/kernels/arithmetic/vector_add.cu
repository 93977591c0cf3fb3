// Element by element: floats, vectors of four, fused multiply-add, and functions of doubles.
#include "../verify.h"

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void add_fours(const float4 *a, const float4 *b, float4 *c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 x = a[i], y = b[i];
        c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
}

__global__ void saxpy(float s, const float *__restrict__ x, float *y, size_t n) {
    size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = fmaf(s, x[i], y[i]);
}

__global__ void functions(const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = sqrt(x[i]) * exp(-x[i]) + sin(x[i]) / (1.0 + fabs(x[i])) + pow(x[i], 1.5);
}

int main() {
    const int n = 40001;
    Array<float> a(n), b(n), c(n), fours(n), y(n);
    Array<double> x(n), results(n);
    fill(a, -9, 9, 1);
    fill(b, -9, 9, 2);
    fill(y, -1, 1, 3);
    fill(x, 0, 20, 4);
    std::vector<float> before = y.host;
    int blocks = (n + 255) / 256;
    add<<<blocks, 256>>>(a.device, b.device, c.device, n);
    add_fours<<<16, 128>>>(reinterpret_cast<float4 *>(a.device),
                           reinterpret_cast<float4 *>(b.device),
                           reinterpret_cast<float4 *>(fours.device), n / 4);
    saxpy<<<blocks, 256>>>(2.5f, a.device, y.device, n);
    functions<<<blocks, 256>>>(x.device, results.device, n);
    finish();
    c.download();
    fours.download();
    y.download();
    results.download();
    for (int i = 0; i < n; i++) {
        expect("add", c[i], a[i] + b[i]);
        if (i < n / 4 * 4) expect("add_fours", fours[i], a[i] + b[i]);
        expect("saxpy", y[i], std::fma(2.5f, a[i], before[i]));
        double value = std::sqrt(x[i]) * std::exp(-x[i]);
        value += std::sin(x[i]) / (1.0 + std::fabs(x[i])) + std::pow(x[i], 1.5);
        expect("functions", results[i], value, 1e-14);
    }
    return report();
}
