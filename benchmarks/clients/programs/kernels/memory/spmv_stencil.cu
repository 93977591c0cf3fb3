// A sparse matrix by a vector, a warp per row, and a stencil with constant coefficients.
#include "../verify.h"

__global__ void spmv(int n, const int *__restrict__ rows, const int *__restrict__ columns,
                     const double *__restrict__ values, const double *__restrict__ x, double *y) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    double sum = 0;
    for (int j = rows[row] + lane; j < rows[row + 1]; j += 32)
        sum += values[j] * __ldg(&x[columns[j]]);
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (lane == 0) y[row] = sum;
}

__constant__ float coefficients[9];

__global__ void stencil(const float *in, float *out, int width, int height) {
    __shared__ float tile[18][34];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    for (int j = threadIdx.y; j < 18; j += 16)
        for (int i = threadIdx.x; i < 34; i += 32) {
            int from_x = min(max(static_cast<int>(blockIdx.x) * 32 + i - 1, 0), width - 1);
            int from_y = min(max(static_cast<int>(blockIdx.y) * 16 + j - 1, 0), height - 1);
            tile[j][i] = in[from_y * width + from_x];
        }
    __syncthreads();
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            sum += coefficients[j * 3 + i] * tile[threadIdx.y + j][threadIdx.x + i];
    out[y * width + x] = sum;
}

static int inside(int value, int limit) { return value < 0 ? 0 : value < limit ? value : limit - 1; }

int main() {
    const int n = 200, per_row = 40;
    Array<int> rows(n + 1), columns(n * per_row);
    Array<double> values(n * per_row), x(n), y(n);
    fill(values, -1, 1, 1);
    fill(x, -1, 1, 2);
    fill(columns, 0, n, 3);
    for (int row = 0; row < n; row++) rows[row + 1] = rows[row] + row % per_row;
    rows.upload();
    spmv<<<(n * 32 + 127) / 128, 128>>>(n, rows.device, columns.device, values.device, x.device,
                                        y.device);
    const int width = 101, height = 67;
    const float host[9] = {.1f, .2f, .1f, -.3f, 1.f, .25f, .5f, -.125f, .0625f};
    Array<float> image(width * height), out(width * height);
    fill(image, 0, 255, 4);
    CHECK(cudaMemcpyToSymbol(coefficients, host, sizeof host));
    stencil<<<dim3(4, 5), dim3(32, 16)>>>(image.device, out.device, width, height);
    finish();
    y.download();
    out.download();
    for (int row = 0; row < n; row++) {
        double sum = 0;
        for (int j = rows[row]; j < rows[row + 1]; j++) sum += values[j] * x[columns[j]];
        expect("spmv", y[row], sum, 1e-13);
    }
    for (int py = 0; py < height; py++)
        for (int px = 0; px < width; px++) {
            double sum = 0;
            for (int j = 0; j < 9; j++) {
                int from = inside(py + j / 3 - 1, height) * width + inside(px + j % 3 - 1, width);
                sum += static_cast<double>(host[j]) * image[from];
            }
            expect("stencil", out[py * width + px], sum, 1e-5);
        }
    return report();
}
