// Conversions to floats of 8 bits and back.
#include <cuda_fp8.h>

#include "../verify.h"

__global__ void convert(const float *x, __nv_fp8_e4m3 *y, __nv_fp8_e5m2 *z, float *back,
                        float2 *pairs) {
    int i = threadIdx.x;
    y[i] = __nv_fp8_e4m3(x[i]);
    z[i] = __nv_fp8_e5m2(x[i]);
    back[i] = float(y[i]) + float(z[i]);
    __nv_fp8x2_e4m3 pair(make_float2(x[i], x[i ^ 1]));
    pairs[i] = float2(pair);
}

// Round to a float with so many bits of mantissa, to the nearest, ties to even, at most the limit.
static double rounded(double value, int mantissa, int least, double limit) {
    int exponent;
    std::frexp(value, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    double unit = std::ldexp(1, exponent - mantissa), result = std::nearbyint(value / unit) * unit;
    return result > limit ? limit : result < -limit ? -limit : result;
}

int main() {
    const int n = 256;
    Array<float> x(n), back(n);
    Array<__nv_fp8_e4m3> y(n);
    Array<__nv_fp8_e5m2> z(n);
    Array<float2> pairs(n);
    for (int i = 0; i < n; i++) x[i] = std::ldexp(1 + i * 37 % 64 / 64.f, i / 7 - 19) * (i % 2 ? -1 : 1);
    x.upload();
    convert<<<1, n>>>(x.device, y.device, z.device, back.device, pairs.device);
    finish();
    back.download();
    pairs.download();
    for (int i = 0; i < n; i++) {
        double e4m3 = rounded(x[i], 3, -6, 448), e5m2 = rounded(x[i], 2, -14, 57344);
        expect("sum of both", back[i], static_cast<float>(e4m3 + e5m2));
        expect("e4m3", pairs[i].x, e4m3);
        expect("e4m3", pairs[i].y, rounded(x[i ^ 1], 3, -6, 448));
    }
    return report();
}
