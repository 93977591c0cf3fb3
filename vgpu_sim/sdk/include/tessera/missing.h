/* Functions of libdevice that are not implemented: using one is an error when compiling. */
#ifndef TESSERA_MISSING_H
#define TESSERA_MISSING_H

#define TESSERA_MISSING __attribute__((error("not implemented in the CUDA headers of tessera cc")))
extern "C" {
TESSERA_MISSING __device__ double __nv_j0(double);
TESSERA_MISSING __device__ float __nv_j0f(float);
TESSERA_MISSING __device__ double __nv_j1(double);
TESSERA_MISSING __device__ float __nv_j1f(float);
TESSERA_MISSING __device__ double __nv_y0(double);
TESSERA_MISSING __device__ float __nv_y0f(float);
TESSERA_MISSING __device__ double __nv_y1(double);
TESSERA_MISSING __device__ float __nv_y1f(float);
TESSERA_MISSING __device__ double __nv_cyl_bessel_i0(double);
TESSERA_MISSING __device__ float __nv_cyl_bessel_i0f(float);
TESSERA_MISSING __device__ double __nv_cyl_bessel_i1(double);
TESSERA_MISSING __device__ float __nv_cyl_bessel_i1f(float);
TESSERA_MISSING __device__ double __nv_jn(int, double);
TESSERA_MISSING __device__ float __nv_jnf(int, float);
TESSERA_MISSING __device__ double __nv_yn(int, double);
TESSERA_MISSING __device__ float __nv_ynf(int, float);
}
#undef TESSERA_MISSING

#endif
