/* Euclidean norms. One thread sums squares in double precision, those of very large and of very
 * small elements apart and scaled by a power of two, so that none overflows or vanishes. */
#include <pthread.h>
#include <stdio.h>

#include "api.h"
#include "kernel.h"
#include "reduce.h"

#define LARGE "0d5F30000000000000"      /* 2^500 */
#define SMALL "0d20B0000000000000"      /* 2^-500 */
#define SCALE_UP "0d6570000000000000"   /* 2^600 */
#define SCALE_DOWN "0d1A70000000000000" /* 2^-600 */

static const char body[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry norm(.param .u64 x, .param .u64 step, .param .u32 count, .param .u64 result)\n{\n"
    ".reg .pred %%p, %%is_large, %%is_small; .reg .b32 %%n; .reg .b64 %%at, %%step; .reg .f32 %%single;\n"
    ".reg .f64 %%v, %%large, %%middle, %%small, %%zero;\n"
    "ld.param.u64 %%at, [x];\nld.param.u64 %%step, [step];\nld.param.u32 %%n, [count];\n"
    "cvt.rn.f64.u32 %%zero, 0;\nmov.f64 %%large, %%zero;\nmov.f64 %%middle, %%zero;\n"
    "mov.f64 %%small, %%zero;\nsetp.eq.u32 %%p, %%n, 0;\n@%%p bra summed;\n"
    "next:\n%s\nabs.f64 %%v, %%v;\n"
    "setp.gt.f64 %%is_large, %%v, " LARGE ";\nsetp.lt.f64 %%is_small, %%v, " SMALL ";\n"
    "@%%is_large mul.rn.f64 %%v, %%v, " SCALE_DOWN ";\n@%%is_small mul.rn.f64 %%v, %%v, " SCALE_UP ";\n"
    "@%%is_large fma.rn.f64 %%large, %%v, %%v, %%large;\n"
    "@%%is_small fma.rn.f64 %%small, %%v, %%v, %%small;\nor.pred %%p, %%is_large, %%is_small;\n"
    "@!%%p fma.rn.f64 %%middle, %%v, %%v, %%middle;\nadd.u64 %%at, %%at, %%step;\nsub.u32 %%n, %%n, 1;\n"
    "setp.ne.u32 %%p, %%n, 0;\n@%%p bra next;\nsummed:\n"
    "setp.gt.f64 %%p, %%large, %%zero;\n@%%p bra with_large;\n"
    "setp.neu.f64 %%p, %%middle, %%zero;\n@%%p bra without_large;\n"
    "sqrt.rn.f64 %%v, %%small;\nmul.rn.f64 %%v, %%v, " SCALE_DOWN ";\nbra store;\n"
    "without_large:\nmul.rn.f64 %%small, %%small, " SCALE_DOWN ";\n"
    "mul.rn.f64 %%small, %%small, " SCALE_DOWN ";\nadd.rn.f64 %%middle, %%middle, %%small;\n"
    "sqrt.rn.f64 %%v, %%middle;\nbra store;\n"
    "with_large:\nmul.rn.f64 %%middle, %%middle, " SCALE_DOWN ";\n"
    "mul.rn.f64 %%middle, %%middle, " SCALE_DOWN ";\nadd.rn.f64 %%large, %%large, %%middle;\n"
    "sqrt.rn.f64 %%v, %%large;\nmul.rn.f64 %%v, %%v, " SCALE_UP ";\n"
    "store:\nld.param.u64 %%at, [result];\n%s\nret;\n}\n";

static const struct {
  const char *load, *store;
} accesses[] = {
    [TSR_F32] = {"ld.global.f32 %single, [%at];\ncvt.f64.f32 %v, %single;",
                 "cvt.rn.f32.f64 %single, %v;\nst.global.f32 [%at], %single;"},
    [TSR_F64] = {"ld.global.f64 %v, [%at];", "st.global.f64 [%at], %v;"},
};

extern int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z,
                          unsigned int shared_bytes, cudaStream_t stream, void **parameters,
                          void **extra);

static void *kernel_of(int type) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static void *kernels[2]; /* with lock */
  char text[4096];
  pthread_mutex_lock(&lock);
  if (!kernels[type]) {
    const int length = snprintf(text, sizeof text, body, accesses[type].load, accesses[type].store);
    if (length > 0 && (size_t)length < sizeof text) kernels[type] = tsr_kernel_load(text, "norm");
  }
  void *const kernel = kernels[type];
  pthread_mutex_unlock(&lock);
  return kernel;
}

struct vector {
  uint64_t address, step;
  uint32_t count;
};

static cublasStatus_t put_norm(struct tsr_blas *blas, const void *what, int type, uint64_t result) {
  struct vector vector = *(const struct vector *)what;
  void *const kernel = kernel_of(type);
  void *parameters[] = {&vector.address, &vector.step, &vector.count, &result};
  if (!kernel) return CUBLAS_STATUS_INTERNAL_ERROR;
  const int code = cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, blas->stream, parameters, NULL);
  return code == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static cublasStatus_t norm(cublasHandle_t handle, int n, const void *x, int incx, void *result, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool is_empty = n <= 0 || incx <= 0; /* whose norm is 0 */
  if (!result || (!is_empty && !x)) return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t bytes = type == TSR_F64 ? sizeof(double) : sizeof(float);
  const struct vector vector = {(uint64_t)(uintptr_t)x, is_empty ? 0 : (uint64_t)incx * bytes,
                                is_empty ? 0 : (uint32_t)n};
  return tsr_blas_reduce(blas, put_norm, &vector, type, result);
}

cublasStatus_t tsr_cublasSnrm2_v2(cublasHandle_t handle, int n, const float *x, int incx, float *norm_of) {
  return norm(handle, n, x, incx, norm_of, TSR_F32);
}

cublasStatus_t tsr_cublasDnrm2_v2(cublasHandle_t handle, int n, const double *x, int incx, double *norm_of) {
  return norm(handle, n, x, incx, norm_of, TSR_F64);
}
