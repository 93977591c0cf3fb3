// Products of tiles with nvcuda::wmma: halves, bfloat16, bytes and tf32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "../verify.h"

using namespace nvcuda;

template <class T, class Layout>
__global__ void product(const T *a, const T *b, float *c, int k, int b_stride, int b_step) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Layout> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(left, a + i, k);
        wmma::load_matrix_sync(right, b + i * b_step, b_stride);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

__global__ void bytes(const signed char *a, const signed char *b, int *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::fill_fragment(sum, 0);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

__global__ void tf32(const float *a, const float *b, float *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.f);
    wmma::load_matrix_sync(left, a, 8);
    wmma::load_matrix_sync(right, b, 8);
    for (int i = 0; i < left.num_elements; i++) left.x[i] = wmma::__float_to_tf32(left.x[i]);
    for (int i = 0; i < right.num_elements; i++) right.x[i] = wmma::__float_to_tf32(right.x[i]);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

int main() {
    const int k = 64;  // small integers, so that each product and sum is exact
    Array<__half> half_a(16 * k), half_b(16 * k);
    Array<__nv_bfloat16> brain_a(16 * k), brain_b(16 * k);
    Array<signed char> byte_a(256), byte_b(256);
    Array<float> float_a(128), float_b(128), half_c(256), brain_c(256), float_c(256);
    Array<int> a(16 * k), b(16 * k), byte_c(256);
    fill(a, -9, 9, 1);
    fill(b, -9, 9, 2);
    for (int i = 0; i < 16 * k; i++) {
        half_a[i] = __float2half(a[i]);
        half_b[i] = __float2half(b[i]);
        brain_a[i] = __float2bfloat16(a[i]);
        brain_b[i] = __float2bfloat16(b[i]);
    }
    fill(byte_a, -128, 127, 3);
    fill(byte_b, -128, 127, 4);
    for (int i = 0; i < 128; i++) {
        float_a[i] = a[i];
        float_b[i] = b[i];
    }
    half_a.upload();
    half_b.upload();
    brain_a.upload();
    brain_b.upload();
    float_a.upload();
    float_b.upload();
    product<__half, wmma::col_major><<<1, 32>>>(half_a.device, half_b.device, half_c.device, k, k, 1);
    product<__nv_bfloat16, wmma::row_major>
        <<<1, 32>>>(brain_a.device, brain_b.device, brain_c.device, k, 16, 16);
    bytes<<<1, 32>>>(byte_a.device, byte_b.device, byte_c.device);
    tf32<<<1, 32>>>(float_a.device, float_b.device, float_c.device);
    finish();
    half_c.download();
    brain_c.download();
    byte_c.download();
    float_c.download();
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 16; column++) {
            int of_halves = 0, of_brains = 0, of_bytes = 0, of_floats = 0;
            for (int i = 0; i < k; i++) {
                of_halves += a[row * k + i] * b[column * k + i];
                of_brains += a[row * k + i] * b[i * 16 + column];
            }
            for (int i = 0; i < 16; i++) of_bytes += byte_a[row * 16 + i] * byte_b[column * 16 + i];
            for (int i = 0; i < 8; i++) of_floats += a[row * 8 + i] * b[column * 8 + i];
            int at = row * 16 + column;
            expect("halves", half_c[at], of_halves);
            expect("bfloat16", brain_c[at], of_brains);
            expect("bytes", byte_c[at], of_bytes);
            expect("tf32", float_c[at], of_floats);
        }
    return report();
}
