// Bitonic sort in shared memory, a Mandelbrot set whose loops diverge, and bodies that attract.
#include <algorithm>

#include "../verify.h"

__global__ void bitonic(int *a) {
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[t] = a[t];
    __syncthreads();
    for (int k = 2; k <= blockDim.x; k <<= 1)
        for (int j = k >> 1; j; j >>= 1) {
            int partner = t ^ j;
            if (partner > t) {
                bool up = (t & k) == 0;
                int x = s[t], y = s[partner];
                if ((x > y) == up) {
                    s[t] = y;
                    s[partner] = x;
                }
            }
            __syncthreads();
        }
    a[t] = s[t];
}

// The fused operations are written out, so that CPU and GPU round alike.
__host__ __device__ int iterations(int x, int y, int limit) {
    double cr = -2.0 + x / 32.0, ci = -1.5 + y / 32.0, a = 0, b = 0;
    int i = 0;
    while (i < limit) {
        double square = b * b, product = a * b;
        if (!(fma(a, a, square) < 4)) break;
        b = fma(2.0, product, ci);
        a = fma(a, a, -square) + cr;
        i++;
    }
    return i;
}

__global__ void mandelbrot(int *out, int width, int height, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = iterations(x, y, limit);
}

__global__ void attract(const float4 *bodies, float4 *speeds, int n, float step) {
    __shared__ float4 s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 me = bodies[i];
    float ax = 0, ay = 0, az = 0;
    for (int begin = 0; begin < n; begin += 256) {
        s[threadIdx.x] = bodies[begin + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 256; j++) {
            float4 other = s[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float force = other.w * inverse * inverse * inverse;
            ax += force * dx;
            ay += force * dy;
            az += force * dz;
        }
        __syncthreads();
    }
    float4 speed = speeds[i];
    speeds[i] = make_float4(speed.x + ax * step, speed.y + ay * step, speed.z + az * step, 0);
}

int main() {
    const int width = 97, height = 96, limit = 300, n = 512;
    Array<int> numbers(1024), image(width * height);
    Array<float4> bodies(n), speeds(n);
    fill(numbers, -1e6, 1e6, 1);
    std::mt19937 generator(2);
    std::uniform_real_distribution<float> values(-1, 1);
    for (float4 &body : bodies.host) {
        body = {values(generator), values(generator), values(generator), 1 + values(generator)};
    }
    bodies.upload();
    bitonic<<<1, 1024, 1024 * sizeof(int)>>>(numbers.device);
    mandelbrot<<<dim3(7, 12), dim3(16, 8)>>>(image.device, width, height, limit);
    attract<<<n / 256, 256>>>(bodies.device, speeds.device, n, 0.01f);
    finish();
    std::vector<int> sorted = numbers.host;
    std::sort(sorted.begin(), sorted.end());
    numbers.download();
    image.download();
    speeds.download();
    for (int i = 0; i < 1024; i++) expect("bitonic", numbers[i], sorted[i]);
    for (int i = 0; i < width * height; i++)
        expect("mandelbrot", image[i], iterations(i % width, i / width, limit));
    for (int i = 0; i < n; i++) {
        double ax = 0, ay = 0, az = 0;
        for (const float4 &other : bodies.host) {
            double dx = other.x - bodies[i].x, dy = other.y - bodies[i].y;
            double dz = other.z - bodies[i].z;
            double force = other.w / std::pow(dx * dx + dy * dy + dz * dz + 0.01, 1.5);
            ax += force * dx;
            ay += force * dy;
            az += force * dz;
        }
        expect("attract x", speeds[i].x, ax * 0.01, 1e-4);
        expect("attract y", speeds[i].y, ay * 0.01, 1e-4);
        expect("attract z", speeds[i].z, az * 0.01, 1e-4);
    }
    return report();
}
