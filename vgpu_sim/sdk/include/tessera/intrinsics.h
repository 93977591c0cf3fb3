/* Arithmetic with a rounding mode, conversions, bit operations and video instructions: the parts of
 * libdevice that one or a few PTX instructions do. */
#ifndef TESSERA_INTRINSICS_H
#define TESSERA_INTRINSICS_H

#define TESSERA_D extern "C" __device__ __inline__ __attribute__((always_inline))
#define TESSERA_ASM1(name, result, type, instruction, out, in)   \
  TESSERA_D result name(type a) {                                \
    result r;                                                    \
    __asm__(instruction " %0, %1;" : out(r) : in(a));            \
    return r;                                                    \
  }
#define TESSERA_ASM2(name, type, instruction, in)                           \
  TESSERA_D type name(type a, type b) {                                     \
    type r;                                                                 \
    __asm__(instruction " %0, %1, %2;" : "=" in(r) : in(a), in(b));         \
    return r;                                                               \
  }
#define TESSERA_ASM3(name, type, instruction, in)                                   \
  TESSERA_D type name(type a, type b, type c) {                                     \
    type r;                                                                         \
    __asm__(instruction " %0, %1, %2, %3;" : "=" in(r) : in(a), in(b), in(c));      \
    return r;                                                                       \
  }

TESSERA_ASM2(__nv_fadd_rd, float, "add.rm.f32", "f")
TESSERA_ASM2(__nv_fsub_rd, float, "sub.rm.f32", "f")
TESSERA_ASM2(__nv_fmul_rd, float, "mul.rm.f32", "f")
TESSERA_ASM2(__nv_fdiv_rd, float, "div.rm.f32", "f")
TESSERA_ASM1(__nv_frcp_rd, float, float, "rcp.rm.f32", "=""f", "f")
TESSERA_ASM1(__nv_fsqrt_rd, float, float, "sqrt.rm.f32", "=""f", "f")
TESSERA_ASM3(__nv_fmaf_rd, float, "fma.rm.f32", "f")
TESSERA_ASM3(__nv_fmaf_ieee_rd, float, "fma.rm.f32", "f")
TESSERA_ASM2(__nv_fadd_rn, float, "add.rn.f32", "f")
TESSERA_ASM2(__nv_fsub_rn, float, "sub.rn.f32", "f")
TESSERA_ASM2(__nv_fmul_rn, float, "mul.rn.f32", "f")
TESSERA_ASM2(__nv_fdiv_rn, float, "div.rn.f32", "f")
TESSERA_ASM1(__nv_frcp_rn, float, float, "rcp.rn.f32", "=""f", "f")
TESSERA_ASM1(__nv_fsqrt_rn, float, float, "sqrt.rn.f32", "=""f", "f")
TESSERA_ASM3(__nv_fmaf_rn, float, "fma.rn.f32", "f")
TESSERA_ASM3(__nv_fmaf_ieee_rn, float, "fma.rn.f32", "f")
TESSERA_ASM2(__nv_fadd_ru, float, "add.rp.f32", "f")
TESSERA_ASM2(__nv_fsub_ru, float, "sub.rp.f32", "f")
TESSERA_ASM2(__nv_fmul_ru, float, "mul.rp.f32", "f")
TESSERA_ASM2(__nv_fdiv_ru, float, "div.rp.f32", "f")
TESSERA_ASM1(__nv_frcp_ru, float, float, "rcp.rp.f32", "=""f", "f")
TESSERA_ASM1(__nv_fsqrt_ru, float, float, "sqrt.rp.f32", "=""f", "f")
TESSERA_ASM3(__nv_fmaf_ru, float, "fma.rp.f32", "f")
TESSERA_ASM3(__nv_fmaf_ieee_ru, float, "fma.rp.f32", "f")
TESSERA_ASM2(__nv_fadd_rz, float, "add.rz.f32", "f")
TESSERA_ASM2(__nv_fsub_rz, float, "sub.rz.f32", "f")
TESSERA_ASM2(__nv_fmul_rz, float, "mul.rz.f32", "f")
TESSERA_ASM2(__nv_fdiv_rz, float, "div.rz.f32", "f")
TESSERA_ASM1(__nv_frcp_rz, float, float, "rcp.rz.f32", "=""f", "f")
TESSERA_ASM1(__nv_fsqrt_rz, float, float, "sqrt.rz.f32", "=""f", "f")
TESSERA_ASM3(__nv_fmaf_rz, float, "fma.rz.f32", "f")
TESSERA_ASM3(__nv_fmaf_ieee_rz, float, "fma.rz.f32", "f")
TESSERA_ASM2(__nv_dadd_rd, double, "add.rm.f64", "d")
TESSERA_ASM2(__nv_dsub_rd, double, "sub.rm.f64", "d")
TESSERA_ASM2(__nv_dmul_rd, double, "mul.rm.f64", "d")
TESSERA_ASM2(__nv_ddiv_rd, double, "div.rm.f64", "d")
TESSERA_ASM1(__nv_drcp_rd, double, double, "rcp.rm.f64", "=""d", "d")
TESSERA_ASM1(__nv_dsqrt_rd, double, double, "sqrt.rm.f64", "=""d", "d")
TESSERA_ASM3(__nv_fma_rd, double, "fma.rm.f64", "d")
TESSERA_ASM2(__nv_dadd_rn, double, "add.rn.f64", "d")
TESSERA_ASM2(__nv_dsub_rn, double, "sub.rn.f64", "d")
TESSERA_ASM2(__nv_dmul_rn, double, "mul.rn.f64", "d")
TESSERA_ASM2(__nv_ddiv_rn, double, "div.rn.f64", "d")
TESSERA_ASM1(__nv_drcp_rn, double, double, "rcp.rn.f64", "=""d", "d")
TESSERA_ASM1(__nv_dsqrt_rn, double, double, "sqrt.rn.f64", "=""d", "d")
TESSERA_ASM3(__nv_fma_rn, double, "fma.rn.f64", "d")
TESSERA_ASM2(__nv_dadd_ru, double, "add.rp.f64", "d")
TESSERA_ASM2(__nv_dsub_ru, double, "sub.rp.f64", "d")
TESSERA_ASM2(__nv_dmul_ru, double, "mul.rp.f64", "d")
TESSERA_ASM2(__nv_ddiv_ru, double, "div.rp.f64", "d")
TESSERA_ASM1(__nv_drcp_ru, double, double, "rcp.rp.f64", "=""d", "d")
TESSERA_ASM1(__nv_dsqrt_ru, double, double, "sqrt.rp.f64", "=""d", "d")
TESSERA_ASM3(__nv_fma_ru, double, "fma.rp.f64", "d")
TESSERA_ASM2(__nv_dadd_rz, double, "add.rz.f64", "d")
TESSERA_ASM2(__nv_dsub_rz, double, "sub.rz.f64", "d")
TESSERA_ASM2(__nv_dmul_rz, double, "mul.rz.f64", "d")
TESSERA_ASM2(__nv_ddiv_rz, double, "div.rz.f64", "d")
TESSERA_ASM1(__nv_drcp_rz, double, double, "rcp.rz.f64", "=""d", "d")
TESSERA_ASM1(__nv_dsqrt_rz, double, double, "sqrt.rz.f64", "=""d", "d")
TESSERA_ASM3(__nv_fma_rz, double, "fma.rz.f64", "d")
TESSERA_ASM1(__nv_float2int_rd, int, float, "cvt.rmi.s32.f32", "=r", "f")
TESSERA_ASM1(__nv_int2float_rd, float, int, "cvt.rm.f32.s32", "=f", "r")
TESSERA_ASM1(__nv_float2int_rn, int, float, "cvt.rni.s32.f32", "=r", "f")
TESSERA_ASM1(__nv_int2float_rn, float, int, "cvt.rn.f32.s32", "=f", "r")
TESSERA_ASM1(__nv_float2int_ru, int, float, "cvt.rpi.s32.f32", "=r", "f")
TESSERA_ASM1(__nv_int2float_ru, float, int, "cvt.rp.f32.s32", "=f", "r")
TESSERA_ASM1(__nv_float2int_rz, int, float, "cvt.rzi.s32.f32", "=r", "f")
TESSERA_ASM1(__nv_int2float_rz, float, int, "cvt.rz.f32.s32", "=f", "r")
TESSERA_ASM1(__nv_float2uint_rd, unsigned int, float, "cvt.rmi.u32.f32", "=r", "f")
TESSERA_ASM1(__nv_uint2float_rd, float, unsigned int, "cvt.rm.f32.u32", "=f", "r")
TESSERA_ASM1(__nv_float2uint_rn, unsigned int, float, "cvt.rni.u32.f32", "=r", "f")
TESSERA_ASM1(__nv_uint2float_rn, float, unsigned int, "cvt.rn.f32.u32", "=f", "r")
TESSERA_ASM1(__nv_float2uint_ru, unsigned int, float, "cvt.rpi.u32.f32", "=r", "f")
TESSERA_ASM1(__nv_uint2float_ru, float, unsigned int, "cvt.rp.f32.u32", "=f", "r")
TESSERA_ASM1(__nv_float2uint_rz, unsigned int, float, "cvt.rzi.u32.f32", "=r", "f")
TESSERA_ASM1(__nv_uint2float_rz, float, unsigned int, "cvt.rz.f32.u32", "=f", "r")
TESSERA_ASM1(__nv_float2ll_rd, long long, float, "cvt.rmi.s64.f32", "=l", "f")
TESSERA_ASM1(__nv_ll2float_rd, float, long long, "cvt.rm.f32.s64", "=f", "l")
TESSERA_ASM1(__nv_float2ll_rn, long long, float, "cvt.rni.s64.f32", "=l", "f")
TESSERA_ASM1(__nv_ll2float_rn, float, long long, "cvt.rn.f32.s64", "=f", "l")
TESSERA_ASM1(__nv_float2ll_ru, long long, float, "cvt.rpi.s64.f32", "=l", "f")
TESSERA_ASM1(__nv_ll2float_ru, float, long long, "cvt.rp.f32.s64", "=f", "l")
TESSERA_ASM1(__nv_float2ll_rz, long long, float, "cvt.rzi.s64.f32", "=l", "f")
TESSERA_ASM1(__nv_ll2float_rz, float, long long, "cvt.rz.f32.s64", "=f", "l")
TESSERA_ASM1(__nv_float2ull_rd, unsigned long long, float, "cvt.rmi.u64.f32", "=l", "f")
TESSERA_ASM1(__nv_ull2float_rd, float, unsigned long long, "cvt.rm.f32.u64", "=f", "l")
TESSERA_ASM1(__nv_float2ull_rn, unsigned long long, float, "cvt.rni.u64.f32", "=l", "f")
TESSERA_ASM1(__nv_ull2float_rn, float, unsigned long long, "cvt.rn.f32.u64", "=f", "l")
TESSERA_ASM1(__nv_float2ull_ru, unsigned long long, float, "cvt.rpi.u64.f32", "=l", "f")
TESSERA_ASM1(__nv_ull2float_ru, float, unsigned long long, "cvt.rp.f32.u64", "=f", "l")
TESSERA_ASM1(__nv_float2ull_rz, unsigned long long, float, "cvt.rzi.u64.f32", "=l", "f")
TESSERA_ASM1(__nv_ull2float_rz, float, unsigned long long, "cvt.rz.f32.u64", "=f", "l")
TESSERA_ASM1(__nv_double2int_rd, int, double, "cvt.rmi.s32.f64", "=r", "d")
TESSERA_ASM1(__nv_double2int_rn, int, double, "cvt.rni.s32.f64", "=r", "d")
TESSERA_ASM1(__nv_int2double_rn, double, int, "cvt.rn.f64.s32", "=d", "r")
TESSERA_ASM1(__nv_double2int_ru, int, double, "cvt.rpi.s32.f64", "=r", "d")
TESSERA_ASM1(__nv_double2int_rz, int, double, "cvt.rzi.s32.f64", "=r", "d")
TESSERA_ASM1(__nv_double2uint_rd, unsigned int, double, "cvt.rmi.u32.f64", "=r", "d")
TESSERA_ASM1(__nv_double2uint_rn, unsigned int, double, "cvt.rni.u32.f64", "=r", "d")
TESSERA_ASM1(__nv_uint2double_rn, double, unsigned int, "cvt.rn.f64.u32", "=d", "r")
TESSERA_ASM1(__nv_double2uint_ru, unsigned int, double, "cvt.rpi.u32.f64", "=r", "d")
TESSERA_ASM1(__nv_double2uint_rz, unsigned int, double, "cvt.rzi.u32.f64", "=r", "d")
TESSERA_ASM1(__nv_double2ll_rd, long long, double, "cvt.rmi.s64.f64", "=l", "d")
TESSERA_ASM1(__nv_ll2double_rd, double, long long, "cvt.rm.f64.s64", "=d", "l")
TESSERA_ASM1(__nv_double2ll_rn, long long, double, "cvt.rni.s64.f64", "=l", "d")
TESSERA_ASM1(__nv_ll2double_rn, double, long long, "cvt.rn.f64.s64", "=d", "l")
TESSERA_ASM1(__nv_double2ll_ru, long long, double, "cvt.rpi.s64.f64", "=l", "d")
TESSERA_ASM1(__nv_ll2double_ru, double, long long, "cvt.rp.f64.s64", "=d", "l")
TESSERA_ASM1(__nv_double2ll_rz, long long, double, "cvt.rzi.s64.f64", "=l", "d")
TESSERA_ASM1(__nv_ll2double_rz, double, long long, "cvt.rz.f64.s64", "=d", "l")
TESSERA_ASM1(__nv_double2ull_rd, unsigned long long, double, "cvt.rmi.u64.f64", "=l", "d")
TESSERA_ASM1(__nv_ull2double_rd, double, unsigned long long, "cvt.rm.f64.u64", "=d", "l")
TESSERA_ASM1(__nv_double2ull_rn, unsigned long long, double, "cvt.rni.u64.f64", "=l", "d")
TESSERA_ASM1(__nv_ull2double_rn, double, unsigned long long, "cvt.rn.f64.u64", "=d", "l")
TESSERA_ASM1(__nv_double2ull_ru, unsigned long long, double, "cvt.rpi.u64.f64", "=l", "d")
TESSERA_ASM1(__nv_ull2double_ru, double, unsigned long long, "cvt.rp.f64.u64", "=d", "l")
TESSERA_ASM1(__nv_double2ull_rz, unsigned long long, double, "cvt.rzi.u64.f64", "=l", "d")
TESSERA_ASM1(__nv_ull2double_rz, double, unsigned long long, "cvt.rz.f64.u64", "=d", "l")
TESSERA_ASM1(__nv_double2float_rd, float, double, "cvt.rm.f32.f64", "=f", "d")
TESSERA_ASM1(__nv_double2float_rn, float, double, "cvt.rn.f32.f64", "=f", "d")
TESSERA_ASM1(__nv_double2float_ru, float, double, "cvt.rp.f32.f64", "=f", "d")
TESSERA_ASM1(__nv_double2float_rz, float, double, "cvt.rz.f32.f64", "=f", "d")
TESSERA_ASM1(__nv_fast_sinf, float, float, "sin.approx.f32", "=f", "f")
TESSERA_ASM1(__nv_fast_cosf, float, float, "cos.approx.f32", "=f", "f")
TESSERA_ASM1(__nv_fast_log2f, float, float, "lg2.approx.f32", "=f", "f")
TESSERA_ASM1(__nv_rsqrtf, float, float, "rsqrt.approx.f32", "=f", "f")
TESSERA_ASM2(__nv_fast_fdividef, float, "div.approx.f32", "f")
TESSERA_ASM1(tessera_ex2, float, float, "ex2.approx.f32", "=f", "f")
TESSERA_ASM1(__nv_saturatef, float, float, "cvt.sat.f32.f32", "=f", "f")
TESSERA_ASM3(__nv_fmaf, float, "fma.rn.f32", "f")
TESSERA_ASM3(__nv_fma, double, "fma.rn.f64", "d")
TESSERA_D float __nv_fast_expf(float a) { return tessera_ex2(a * 1.4426950408889634f); }
TESSERA_D float __nv_fast_exp10f(float a) { return tessera_ex2(a * 3.3219280948873623f); }
TESSERA_D float __nv_fast_logf(float a) { return __nv_fast_log2f(a) * 0.6931471805599453f; }
TESSERA_D float __nv_fast_log10f(float a) { return __nv_fast_log2f(a) * 0.3010299956639812f; }
TESSERA_D float __nv_fast_powf(float a, float b) { return tessera_ex2(b * __nv_fast_log2f(a)); }
TESSERA_D void __nv_fast_sincosf(float a, float *s, float *c) {
  *s = __nv_fast_sinf(a);
  *c = __nv_fast_cosf(a);
}
TESSERA_D float __nv_fast_tanf(float a) {
  return __nv_fast_fdividef(__nv_fast_sinf(a), __nv_fast_cosf(a));
}
/* Correctly rounded: a double has more than twice the bits. */
TESSERA_D float __nv_frsqrt_rn(float a) { return (float)(1.0 / __builtin_sqrt((double)a)); }

TESSERA_D int __nv_abs(int a) { return a < 0 ? -a : a; }
TESSERA_D long long __nv_llabs(long long a) { return a < 0 ? -a : a; }
TESSERA_D int __nv_max(int a, int b) { return a > b ? a : b; }
TESSERA_D int __nv_min(int a, int b) { return a < b ? a : b; }
TESSERA_D unsigned int __nv_umax(unsigned int a, unsigned int b) { return a > b ? a : b; }
TESSERA_D unsigned int __nv_umin(unsigned int a, unsigned int b) { return a < b ? a : b; }
TESSERA_D long long __nv_llmax(long long a, long long b) { return a > b ? a : b; }
TESSERA_D long long __nv_llmin(long long a, long long b) { return a < b ? a : b; }
TESSERA_D unsigned long long __nv_ullmax(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}
TESSERA_D unsigned long long __nv_ullmin(unsigned long long a, unsigned long long b) {
  return a < b ? a : b;
}
TESSERA_ASM1(__nv_brev, int, int, "brev.b32", "=r", "r")
TESSERA_ASM1(__nv_brevll, long long, long long, "brev.b64", "=l", "l")
TESSERA_ASM3(tessera_permuted, int, "prmt.b32", "r")
/* Of each digit of the selector, CUDA defines 3 bits; the fourth makes prmt repeat a byte's sign. */
TESSERA_D int __nv_byte_perm(int a, int b, int selector) {
  return tessera_permuted(a, b, selector & 0x7777);
}
TESSERA_ASM3(__nv_sad, int, "sad.s32", "r")
TESSERA_ASM2(__nv_mulhi, int, "mul.hi.s32", "r")
TESSERA_ASM2(__nv_umulhi, unsigned int, "mul.hi.u32", "r")
TESSERA_ASM2(__nv_mul64hi, long long, "mul.hi.s64", "l")
TESSERA_ASM2(__nv_umul64hi, unsigned long long, "mul.hi.u64", "l")
TESSERA_ASM2(__nv_mul24, int, "mul24.lo.s32", "r")
TESSERA_ASM2(__nv_umul24, unsigned int, "mul24.lo.u32", "r")
TESSERA_ASM3(__nv_usad, unsigned int, "sad.u32", "r")
TESSERA_D int __nv_clz(int a) { return a ? __builtin_clz(a) : 32; }
TESSERA_D int __nv_clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
TESSERA_D int __nv_popc(unsigned int a) { return __builtin_popcount(a); }
TESSERA_D int __nv_popcll(unsigned long long a) { return __builtin_popcountll(a); }
TESSERA_D int __nv_ffs(int a) { return __nv_clz(__nv_brev(a)) % 32 + (a != 0); }
TESSERA_D int __nv_ffsll(long long a) { return __nv_clzll(__nv_brevll(a)) % 64 + (a != 0); }
TESSERA_D int __nv_hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
TESSERA_D int __nv_rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
TESSERA_D int __nv_uhadd(unsigned int a, unsigned int b) { return (int)((a & b) + ((a ^ b) >> 1)); }
TESSERA_D unsigned int __nv_urhadd(unsigned int a, unsigned int b) {
  return (a | b) - ((a ^ b) >> 1);
}
TESSERA_D int __nv_float_as_int(float a) { return __builtin_bit_cast(int, a); }
TESSERA_D unsigned int __nv_float_as_uint(float a) { return __builtin_bit_cast(unsigned int, a); }
TESSERA_D float __nv_int_as_float(int a) { return __builtin_bit_cast(float, a); }
TESSERA_D float __nv_uint_as_float(unsigned int a) { return __builtin_bit_cast(float, a); }
TESSERA_D unsigned long long __nv_double_as_longlong(double a) {
  return __builtin_bit_cast(unsigned long long, a);
}
TESSERA_D double __nv_longlong_as_double(long long a) { return __builtin_bit_cast(double, a); }
TESSERA_D int __nv_double2hiint(double a) { return (int)(__nv_double_as_longlong(a) >> 32); }
TESSERA_D int __nv_double2loint(double a) { return (int)__nv_double_as_longlong(a); }
TESSERA_D double __nv_hiloint2double(int a, int b) {
  return __nv_longlong_as_double((long long)(((unsigned long long)(unsigned)a << 32) | (unsigned)b));
}
TESSERA_D unsigned short __nv_float2half_rn(float a) {
  unsigned short r;
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a));
  return r;
}
TESSERA_D float __nv_half2float(unsigned short a) {
  float r;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a));
  return r;
}

/* Two halves or four bytes of a word, one by one. */
#define TESSERA_LANES(name, count, type, expression)                        \
  TESSERA_D int name(int x, int y) {                                        \
    const int bits = 32 / count;                                            \
    unsigned int out = 0;                                                   \
    for (int i = 0; i < count; i++) {                                       \
      const int a = (type)((unsigned int)x >> bits * i);                    \
      const int b = (type)((unsigned int)y >> bits * i);                    \
      const int r = expression;                                             \
      out |= ((unsigned int)r & (~0u >> (32 - bits))) << bits * i;          \
    }                                                                       \
    return (int)out;                                                        \
  }
#define TESSERA_LANES1(name, count, type, expression)                       \
  TESSERA_D int name(int x) {                                               \
    const int bits = 32 / count;                                            \
    unsigned int out = 0;                                                   \
    for (int i = 0; i < count; i++) {                                       \
      const int a = (type)((unsigned int)x >> bits * i);                    \
      const int r = expression;                                             \
      out |= ((unsigned int)r & (~0u >> (32 - bits))) << bits * i;          \
    }                                                                       \
    return (int)out;                                                        \
  }
#define TESSERA_SUM(name, count, type)                                      \
  TESSERA_D int name(int x, int y) {                                        \
    const int bits = 32 / count;                                            \
    int out = 0;                                                            \
    for (int i = 0; i < count; i++) {                                       \
      const int a = (type)((unsigned int)x >> bits * i);                    \
      const int b = (type)((unsigned int)y >> bits * i);                    \
      out += a > b ? a - b : b - a;                                         \
    }                                                                       \
    return out;                                                             \
  }
#define TESSERA_CLAMP(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))

TESSERA_LANES1(__nv_vabs2, 2, short, a < 0 ? -a : a)
TESSERA_LANES1(__nv_vabsss2, 2, short, TESSERA_CLAMP(a < 0 ? -a : a, 0, 32767))
TESSERA_LANES1(__nv_vneg2, 2, short, -a)
TESSERA_LANES1(__nv_vnegss2, 2, short, TESSERA_CLAMP(-a, -32768, 32767))
TESSERA_LANES(__nv_vabsdiffs2, 2, short, a > b ? a - b : b - a)
TESSERA_LANES(__nv_vabsdiffu2, 2, unsigned short, a > b ? a - b : b - a)
TESSERA_LANES(__nv_vadd2, 2, unsigned short, a + b)
TESSERA_LANES(__nv_vaddss2, 2, short, TESSERA_CLAMP(a + b, -32768, 32767))
TESSERA_LANES(__nv_vaddus2, 2, unsigned short, TESSERA_CLAMP(a + b, 0, 65535))
TESSERA_LANES(__nv_vsub2, 2, unsigned short, a - b)
TESSERA_LANES(__nv_vsubss2, 2, short, TESSERA_CLAMP(a - b, -32768, 32767))
TESSERA_LANES(__nv_vsubus2, 2, unsigned short, TESSERA_CLAMP(a - b, 0, 65535))
TESSERA_LANES(__nv_vavgs2, 2, short, (a + b + (a + b >= 0)) >> 1)
TESSERA_LANES(__nv_vavgu2, 2, unsigned short, (a + b + 1) >> 1)
TESSERA_LANES(__nv_vhaddu2, 2, unsigned short, (a + b) >> 1)
TESSERA_LANES(__nv_vmaxs2, 2, short, a > b ? a : b)
TESSERA_LANES(__nv_vmaxu2, 2, unsigned short, a > b ? a : b)
TESSERA_LANES(__nv_vmins2, 2, short, a < b ? a : b)
TESSERA_LANES(__nv_vminu2, 2, unsigned short, a < b ? a : b)
TESSERA_LANES(__nv_vcmpeq2, 2, unsigned short, a == b ? -1 : 0)
TESSERA_LANES(__nv_vseteq2, 2, unsigned short, a == b)
TESSERA_LANES(__nv_vcmpne2, 2, unsigned short, a != b ? -1 : 0)
TESSERA_LANES(__nv_vsetne2, 2, unsigned short, a != b)
TESSERA_LANES(__nv_vcmpges2, 2, short, a >= b ? -1 : 0)
TESSERA_LANES(__nv_vsetges2, 2, short, a >= b)
TESSERA_LANES(__nv_vcmpgeu2, 2, unsigned short, a >= b ? -1 : 0)
TESSERA_LANES(__nv_vsetgeu2, 2, unsigned short, a >= b)
TESSERA_LANES(__nv_vcmpgts2, 2, short, a > b ? -1 : 0)
TESSERA_LANES(__nv_vsetgts2, 2, short, a > b)
TESSERA_LANES(__nv_vcmpgtu2, 2, unsigned short, a > b ? -1 : 0)
TESSERA_LANES(__nv_vsetgtu2, 2, unsigned short, a > b)
TESSERA_LANES(__nv_vcmples2, 2, short, a <= b ? -1 : 0)
TESSERA_LANES(__nv_vsetles2, 2, short, a <= b)
TESSERA_LANES(__nv_vcmpleu2, 2, unsigned short, a <= b ? -1 : 0)
TESSERA_LANES(__nv_vsetleu2, 2, unsigned short, a <= b)
TESSERA_LANES(__nv_vcmplts2, 2, short, a < b ? -1 : 0)
TESSERA_LANES(__nv_vsetlts2, 2, short, a < b)
TESSERA_LANES(__nv_vcmpltu2, 2, unsigned short, a < b ? -1 : 0)
TESSERA_LANES(__nv_vsetltu2, 2, unsigned short, a < b)
TESSERA_SUM(__nv_vsads2, 2, short)
TESSERA_SUM(__nv_vsadu2, 2, unsigned short)
TESSERA_LANES1(__nv_vabs4, 4, signed char, a < 0 ? -a : a)
TESSERA_LANES1(__nv_vabsss4, 4, signed char, TESSERA_CLAMP(a < 0 ? -a : a, 0, 127))
TESSERA_LANES1(__nv_vneg4, 4, signed char, -a)
TESSERA_LANES1(__nv_vnegss4, 4, signed char, TESSERA_CLAMP(-a, -128, 127))
TESSERA_LANES(__nv_vabsdiffs4, 4, signed char, a > b ? a - b : b - a)
TESSERA_LANES(__nv_vabsdiffu4, 4, unsigned char, a > b ? a - b : b - a)
TESSERA_LANES(__nv_vadd4, 4, unsigned char, a + b)
TESSERA_LANES(__nv_vaddss4, 4, signed char, TESSERA_CLAMP(a + b, -128, 127))
TESSERA_LANES(__nv_vaddus4, 4, unsigned char, TESSERA_CLAMP(a + b, 0, 255))
TESSERA_LANES(__nv_vsub4, 4, unsigned char, a - b)
TESSERA_LANES(__nv_vsubss4, 4, signed char, TESSERA_CLAMP(a - b, -128, 127))
TESSERA_LANES(__nv_vsubus4, 4, unsigned char, TESSERA_CLAMP(a - b, 0, 255))
TESSERA_LANES(__nv_vavgs4, 4, signed char, (a + b + (a + b >= 0)) >> 1)
TESSERA_LANES(__nv_vavgu4, 4, unsigned char, (a + b + 1) >> 1)
TESSERA_LANES(__nv_vhaddu4, 4, unsigned char, (a + b) >> 1)
TESSERA_LANES(__nv_vmaxs4, 4, signed char, a > b ? a : b)
TESSERA_LANES(__nv_vmaxu4, 4, unsigned char, a > b ? a : b)
TESSERA_LANES(__nv_vmins4, 4, signed char, a < b ? a : b)
TESSERA_LANES(__nv_vminu4, 4, unsigned char, a < b ? a : b)
TESSERA_LANES(__nv_vcmpeq4, 4, unsigned char, a == b ? -1 : 0)
TESSERA_LANES(__nv_vseteq4, 4, unsigned char, a == b)
TESSERA_LANES(__nv_vcmpne4, 4, unsigned char, a != b ? -1 : 0)
TESSERA_LANES(__nv_vsetne4, 4, unsigned char, a != b)
TESSERA_LANES(__nv_vcmpges4, 4, signed char, a >= b ? -1 : 0)
TESSERA_LANES(__nv_vsetges4, 4, signed char, a >= b)
TESSERA_LANES(__nv_vcmpgeu4, 4, unsigned char, a >= b ? -1 : 0)
TESSERA_LANES(__nv_vsetgeu4, 4, unsigned char, a >= b)
TESSERA_LANES(__nv_vcmpgts4, 4, signed char, a > b ? -1 : 0)
TESSERA_LANES(__nv_vsetgts4, 4, signed char, a > b)
TESSERA_LANES(__nv_vcmpgtu4, 4, unsigned char, a > b ? -1 : 0)
TESSERA_LANES(__nv_vsetgtu4, 4, unsigned char, a > b)
TESSERA_LANES(__nv_vcmples4, 4, signed char, a <= b ? -1 : 0)
TESSERA_LANES(__nv_vsetles4, 4, signed char, a <= b)
TESSERA_LANES(__nv_vcmpleu4, 4, unsigned char, a <= b ? -1 : 0)
TESSERA_LANES(__nv_vsetleu4, 4, unsigned char, a <= b)
TESSERA_LANES(__nv_vcmplts4, 4, signed char, a < b ? -1 : 0)
TESSERA_LANES(__nv_vsetlts4, 4, signed char, a < b)
TESSERA_LANES(__nv_vcmpltu4, 4, unsigned char, a < b ? -1 : 0)
TESSERA_LANES(__nv_vsetltu4, 4, unsigned char, a < b)
TESSERA_SUM(__nv_vsads4, 4, signed char)
TESSERA_SUM(__nv_vsadu4, 4, unsigned char)

#undef TESSERA_LANES
#undef TESSERA_LANES1
#undef TESSERA_SUM
#undef TESSERA_CLAMP

#endif
