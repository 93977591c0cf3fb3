// A Fourier transform in shared memory, compared with its definition, and complex division.
#include <complex>

#include <cuComplex.h>

#include "../verify.h"

__global__ void fft(float2 *x, int log) {
    extern __shared__ float2 s[];
    int n = 1 << log;
    float2 *mine = x + blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[__brev(i) >> (32 - log)] = mine[i];
    for (int length = 2; length <= n; length <<= 1) {
        __syncthreads();
        for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
            int first = i / (length / 2) * length + i % (length / 2), second = first + length / 2;
            float sine, cosine;
            sincospif(-2.f * (i % (length / 2)) / length, &sine, &cosine);
            float2 a = s[first], b = s[second];
            float2 turned = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
            s[first] = make_float2(a.x + turned.x, a.y + turned.y);
            s[second] = make_float2(a.x - turned.x, a.y - turned.y);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine[i] = s[i];
}

__global__ void divide(cuDoubleComplex *a, const cuDoubleComplex *b) {
    int i = threadIdx.x;
    a[i] = cuCdiv(cuCmul(a[i], b[i]), b[i + 1]);
}

int main() {
    const int log = 9, n = 1 << log, transforms = 3;
    Array<float2> x(n * transforms);
    Array<cuDoubleComplex> a(64), b(65);
    std::mt19937 generator(1);
    std::uniform_real_distribution<double> values(-1, 1);
    for (float2 &value : x.host) value = make_float2(values(generator), values(generator));
    for (auto &value : a.host) value = make_cuDoubleComplex(values(generator), values(generator));
    for (auto &value : b.host) value = make_cuDoubleComplex(values(generator), 2.0);
    x.upload();
    a.upload();
    b.upload();
    std::vector<float2> signal = x.host;
    std::vector<cuDoubleComplex> left = a.host;
    fft<<<transforms, 128, n * sizeof(float2)>>>(x.device, log);
    divide<<<1, 64>>>(a.device, b.device);
    finish();
    x.download();
    a.download();
    for (int t = 0; t < transforms; t++)
        for (int k = t; k < n; k += 7) {
            std::complex<double> sum = 0;
            for (int i = 0; i < n; i++) {
                std::complex<double> value(signal[t * n + i].x, signal[t * n + i].y);
                sum += value * std::polar(1.0, -2 * M_PI * (i * k % n) / n);
            }
            expect("fft", x[t * n + k].x, sum.real(), 2e-5);
            expect("fft", x[t * n + k].y, sum.imag(), 2e-5);
        }
    for (int i = 0; i < 64; i++) {
        std::complex<double> p(left[i].x, left[i].y), q(b[i].x, b[i].y), r(b[i + 1].x, b[i + 1].y);
        expect("divide", a[i].x, (p * q / r).real(), 1e-14);
        expect("divide", a[i].y, (p * q / r).imag(), 1e-14);
    }
    return report();
}
