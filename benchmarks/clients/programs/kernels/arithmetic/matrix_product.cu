// Products of matrices: tiles in shared memory at edges, and 8 by 8 values in registers.
#include "../verify.h"

template <int Tile>
__global__ void by_tiles(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float left[Tile][Tile], right[Tile][Tile + 1];
    int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
    float sum = 0;
    for (int begin = 0; begin < k; begin += Tile) {
        int i = begin + threadIdx.x, j = begin + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && i < k ? a[row * k + i] : 0;
        right[threadIdx.y][threadIdx.x] = column < n && j < k ? b[j * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int t = 0; t < Tile; t++) sum += left[threadIdx.y][t] * right[t][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

__global__ void in_registers(const float *a, const float *b, float *c, int n) {
    __shared__ float left[8][128], right[8][128];
    float sums[8][8] = {};
    int x = threadIdx.x % 16 * 8, y = threadIdx.x / 16 * 8, t = threadIdx.x;
    for (int k = 0; k < n; k += 8) {
        const float *from = &b[(k + t / 32) * n + blockIdx.x * 128 + t % 32 * 4];
        *reinterpret_cast<float4 *>(&right[t / 32][t % 32 * 4]) =
            *reinterpret_cast<const float4 *>(from);
        float4 four = *reinterpret_cast<const float4 *>(
            &a[(blockIdx.y * 128 + t / 2) * n + k + t % 2 * 4]);
        left[t % 2 * 4][t / 2] = four.x;
        left[t % 2 * 4 + 1][t / 2] = four.y;
        left[t % 2 * 4 + 2][t / 2] = four.z;
        left[t % 2 * 4 + 3][t / 2] = four.w;
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; kk++)
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sums[i][j] = fmaf(left[kk][y + i], right[kk][x + j], sums[i][j]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            c[(blockIdx.y * 128 + y + i) * n + blockIdx.x * 128 + x + j] = sums[i][j];
}

static double product(Array<float> &a, Array<float> &b, int row, int column, int n, int k) {
    double sum = 0;
    for (int i = 0; i < k; i++) sum += static_cast<double>(a[row * k + i]) * b[i * n + column];
    return sum;
}

int main() {
    const int m = 70, n = 53, k = 91, square = 256;
    Array<float> a(m * k), b(k * n), c(m * n);
    Array<float> p(square * square), q(square * square), r(square * square);
    fill(a, -1, 1, 1);
    fill(b, -1, 1, 2);
    fill(p, -1, 1, 3);
    fill(q, -1, 1, 4);
    by_tiles<16><<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a.device, b.device, c.device,
                                                                       m, n, k);
    in_registers<<<dim3(2, 2), 256>>>(p.device, q.device, r.device, square);
    finish();
    c.download();
    r.download();
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++)
            expect("by_tiles", c[row * n + column], product(a, b, row, column, n, k), 1e-5);
    for (int row = 0; row < square; row++)
        for (int column = row % 3; column < square; column += 3)
            expect("in_registers", r[row * square + column],
                   product(p, q, row, column, square, square), 1e-5);
    return report();
}
