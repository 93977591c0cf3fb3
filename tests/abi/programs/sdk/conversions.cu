// Conversions, fused operations and integer intrinsics, against definitions by integers alone: a float is
// a sign, an integer and a power of two, and rounding compares remainders with half of the unit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "check.h"

namespace {
using Wide = unsigned __int128;
using Code = unsigned long long;
constexpr Code ANY_NAN = ~0ull - 1;  // no code of 16 bits, and no integer that the inputs convert to
enum Rounding { NEAREST, ZERO, UP, DOWN };

// A format: `digits` of the significand, `bits` in all; `least` is the exponent of the smallest number.
struct Format {
  int digits, bits, least;
  Code largest, infinity;
};
constexpr Format DOUBLE{53, 64, -1074, 0x7fefffffffffffff, 0x7ff0000000000000};
constexpr Format FLOAT{24, 32, -149, 0x7f7fffff, 0x7f800000};
constexpr Format HALF{11, 16, -24, 0x7bff, 0x7c00};
constexpr Format BRAIN{8, 16, -133, 0x7f7f, 0x7f80};
constexpr Format E4M3{4, 8, -9, 0x7e, 0x7f};
constexpr Format E5M2{3, 8, -16, 0x7b, 0x7c};

struct Exact {
  bool negative = false, infinite = false, nan = false;
  Wide count = 0;
  int exponent = 0;
};
Exact decode(const Format& format, Code code) {
  Exact value;
  value.negative = code >> (format.bits - 1) & 1;
  const Code size = code & ~0ull >> (65 - format.bits);
  if (size > format.largest) {
    value.infinite = size == format.infinity && format.infinity != 0x7f;
    value.nan = !value.infinite;
    return value;
  }
  const int field = int(size >> (format.digits - 1));
  value.count = size & ((1ull << (format.digits - 1)) - 1);
  if (field) value.count |= Wide(1) << (format.digits - 1);
  value.exponent = format.least + (field ? field - 1 : 0);
  return value;
}
int length(Wide v) {
  int n = 0;
  for (; v; v >>= 1) n++;
  return n;
}
// The number of units of 2^unit next to a value, as the mode says.
Wide counted(const Exact& value, int unit, Rounding mode) {
  if (unit <= value.exponent) return value.count << (value.exponent - unit);
  const int shift = unit - value.exponent;
  const Wide count = shift < 128 ? value.count >> shift : 0;
  const Wide remainder = shift < 128 ? value.count - (count << shift) : value.count;
  const Wide half = shift <= 127 ? Wide(1) << (shift - 1) : Wide(0);
  bool away;
  if (mode == NEAREST)
    away = half && (remainder > half || (remainder == half && (count & 1)));
  else
    away = remainder != 0 && mode != ZERO && (mode == DOWN) == value.negative;
  return count + away;
}
Code encode(const Format& format, const Exact& value, Rounding mode, bool saturate = false) {
  if (value.nan) return ANY_NAN;
  const Code sign = Code(value.negative) << (format.bits - 1);
  const Code beyond = saturate ? format.largest : format.infinity;
  if (value.infinite) return sign | beyond;
  if (value.count == 0) return sign;
  const int unit = std::max(value.exponent + length(value.count) - format.digits, format.least);
  const Code code = (Code(unit - format.least) << (format.digits - 1)) + Code(counted(value, unit, mode));
  if (code <= format.largest) return sign | code;
  const bool stays = mode == ZERO || (mode == DOWN && !value.negative) || (mode == UP && value.negative);
  return sign | (stays ? format.largest : beyond);
}
template <class T>
Exact of_integer(T v) {
  Exact value;
  value.negative = v < 0;
  value.count = v < 0 ? Wide(0) - Wide((__int128)v) : Wide(v);
  return value;
}
// A NaN becomes the value of 2^(bits - 1) if either side has 64 bits, else 0.
template <class T>
Code to_integer(const Exact& value, Rounding mode, bool from_double = false) {
  const bool is_signed = std::is_signed<T>::value;
  const int bits = 8 * sizeof(T);
  const Wide top = Wide(1) << (bits - 1);
  if (value.nan) return bits == 64 || from_double ? Code((long long)(T)top) : 0;
  const Wide limit = value.negative ? (is_signed ? top : 0) : is_signed ? top - 1 : 2 * top - 1;
  const bool is_beyond = value.infinite || (value.count && value.exponent + length(value.count) > 65);
  const Wide size = is_beyond ? limit : std::min(counted(value, 0, mode), limit);
  return Code((long long)(T)(value.negative ? Wide(0) - size : size));
}
// a * b + c; a summand far below the other one is only seen by its sign.
Exact fused(const Exact& a, const Exact& b, const Exact& c) {
  Exact product;
  product.negative = a.negative != b.negative;
  product.nan = a.nan || b.nan || (a.infinite && !b.infinite && !b.count) || (b.infinite && !a.infinite && !a.count);
  product.infinite = a.infinite || b.infinite;
  Exact sum;
  sum.nan = product.nan || c.nan || (product.infinite && c.infinite && product.negative != c.negative);
  if (sum.nan) return sum;
  if (product.infinite) return product;
  if (c.infinite) return c;
  product.count = a.count * b.count;
  product.exponent = a.exponent + b.exponent;
  if (!product.count && !c.count) {
    sum.negative = product.negative && c.negative;
    return sum;
  }
  if (!product.count) return c;
  if (!c.count) return product;
  const bool first = product.exponent >= c.exponent;
  const Exact &high = first ? product : c, &low = first ? c : product;
  const int gap = high.exponent - low.exponent;
  const int shift = gap > 90 ? 60 : gap;
  const __int128 tall = __int128(high.count << shift), small = gap > 90 ? 1 : __int128(low.count);
  const __int128 total = (high.negative ? -tall : tall) + (low.negative ? -small : small);
  sum.negative = total < 0;
  sum.count = Wide(total < 0 ? -total : total);
  sum.exponent = high.exponent - shift;
  return sum;
}

// Operators, which truncate as the functions _rz.
constexpr int OPERATORS = 12;
template <class T>
__host__ __device__ Code by_operator(T x, int k) {
  switch (k) {
    case 0: return (Code)(long long)(signed char)x;
    case 1: return (unsigned char)x;
    case 2: return (Code)(long long)(char)x;
    case 3: return (Code)(long long)(short)x;
    case 4: return (unsigned short)x;
    case 5: return (Code)(long long)(int)x;
    case 6: return (unsigned)x;
    case 7: return (Code)(long)x;
    case 8: return (unsigned long)x;
    case 9: return (Code)(long long)x;
    case 10: return (Code)x;
    default: return (bool)x;
  }
}
Code exact_operator(const Exact& value, int k) {
  switch (k) {
    case 0: return to_integer<signed char>(value, ZERO);
    case 1: return to_integer<unsigned char>(value, ZERO);
    case 2: return to_integer<char>(value, ZERO);
    case 3: return to_integer<short>(value, ZERO);
    case 4: return to_integer<unsigned short>(value, ZERO);
    case 5: return to_integer<int>(value, ZERO);
    case 6: return to_integer<unsigned>(value, ZERO);
    case 7:
    case 9: return to_integer<long long>(value, ZERO);
    case 8:
    case 10: return to_integer<Code>(value, ZERO);
    default: return value.nan || value.infinite || value.count;
  }
}

// Compares results with the definition's, of the device and, where functions exist there, of the host.
template <class Op>
__global__ void apply(const typename Op::In* in, Code* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
#pragma unroll 1
    for (int k = 0; k < Op::count; k++) out[i * Op::count + k] = Op::at(in[i], k);
}
template <class Op>
int check(const char* name, const std::vector<typename Op::In>& in) {
  const int n = int(in.size());
  Device<typename Op::In> inputs(in);
  Device<Code> out(size_t(n) * Op::count);
  apply<Op><<<(n + 127) / 128, 128>>>(inputs, out, n);
  const std::vector<Code> got = out.read();
  int bad = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < Op::count; k++) {
      const Code exact = Op::exact(in[i], k);
      Code results[] = {got[size_t(i) * Op::count + k], exact};
      if constexpr (Op::on_host) results[1] = Op::at(in[i], k);
      for (const Code& result : results)
        if (exact == ANY_NAN ? !Op::is_nan(result, k) && result != exact : result != exact) {
          if (!bad++)
            printf("  %s: input %d, function %d: %llx instead of %llx%s\n", name, i, k, result, exact,
                   &result == results ? "" : " (host)");
        }
    }
  return bad;
}

#define FORMAT(name, type, pair, word, words, layout, opposite, others)                                     \
  struct name {                                                                                             \
    using one = type;                                                                                       \
    using two = pair;                                                                                       \
    static constexpr const Format &format = layout, &other_format = others;                                 \
    __host__ __device__ static Code other(one x) {                                                          \
      return __builtin_bit_cast(unsigned short, opposite(x));                                               \
    }                                                                                                       \
    __host__ __device__ static one raw(unsigned short x) { return __ushort_as_##word(x); }                  \
    __host__ __device__ static Code bits(one x) { return __##word##_as_ushort(x); }                         \
    __host__ __device__ static one of_double(double x) { return __double2##word(x); }                       \
    __host__ __device__ static Code of_float(float x, int k) {                                              \
      return bits(k == 0   ? __float2##word##_rn(x)                                                         \
                  : k == 1 ? __float2##word##_rz(x)                                                         \
                  : k == 2 ? __float2##word##_ru(x)                                                         \
                           : __float2##word##_rd(x));                                                       \
    }                                                                                                       \
    FROM(word, int, int) FROM(word, uint, unsigned int) FROM(word, short, short)                            \
    FROM(word, ushort, unsigned short) FROM(word, ll, long long) FROM(word, ull, unsigned long long)        \
    __host__ __device__ static Code char_rz(one x) { return (Code)(long long)__##word##2char_rz(x); }       \
    __host__ __device__ static Code uchar_rz(one x) { return __##word##2uchar_rz(x); }                      \
  };
#define FROM(word, name, type)                                                                              \
  __host__ __device__ static Code of_##name(type x, int k) {                                                \
    return bits(k == 0   ? __##name##2##word##_rn(x)                                                        \
                : k == 1 ? __##name##2##word##_rz(x)                                                        \
                : k == 2 ? __##name##2##word##_ru(x)                                                        \
                         : __##name##2##word##_rd(x));                                                      \
  }                                                                                                         \
  __host__ __device__ static Code to_##name(one x, int k) {                                                 \
    return (Code)(long long)(k == 0   ? __##word##2##name##_rn(x)                                           \
                             : k == 1 ? __##word##2##name##_rz(x)                                           \
                             : k == 2 ? __##word##2##name##_ru(x)                                           \
                                      : __##word##2##name##_rd(x));                                         \
  }
FORMAT(Half, __half, __half2, half, half2, HALF, __nv_bfloat16, BRAIN)
FORMAT(Brain, __nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162, BRAIN, __half, HALF)

bool is_nan_of(const Format& format, Code code) { return decode(format, code).nan; }
const Format& small(int kind) { return kind < 2 ? E4M3 : E5M2; }
__host__ __device__ __nv_saturation_t saturation(int kind) { return kind & 1 ? __NV_SATFINITE : __NV_NOSAT; }
__host__ __device__ __nv_fp8_interpretation_t kind_of(int kind) { return kind < 2 ? __NV_E4M3 : __NV_E5M2; }

// Doubles and, of the same value rounded, floats to 16 and to 8 bits.
template <class F>
struct OfWide {
  using In = double;
  static constexpr int count = 13;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(double x, int k) {
    if (k == 0) return F::bits(F::of_double(x));
    if (k < 5) return F::of_float((float)x, k - 1);
    if (k < 9) return __nv_cvt_double_to_fp8(x, saturation(k - 5), kind_of(k - 5));
    return __nv_cvt_float_to_fp8((float)x, saturation(k - 9), kind_of(k - 9));
  }
  static Code exact(double x, int k) {
    const Exact wide = decode(DOUBLE, __builtin_bit_cast(Code, x));
    const Exact narrow = decode(FLOAT, __builtin_bit_cast(unsigned, (float)x));
    if (k == 0) return encode(F::format, wide, NEAREST);
    if (k < 5) return encode(F::format, narrow, Rounding(k - 1));
    return encode(small((k - 5) & 3), k < 9 ? wide : narrow, NEAREST, (k - 5) & 1);
  }
  static bool is_nan(Code code, int k) { return is_nan_of(k < 5 ? F::format : small((k - 5) & 3), code); }
};
template <class F>
struct OfInteger {
  using In = long long;
  static constexpr int count = 24;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(long long x, int k) {
    switch (k >> 2) {
      case 0: return F::of_int((int)x, k & 3);
      case 1: return F::of_uint((unsigned)x, k & 3);
      case 2: return F::of_short((short)x, k & 3);
      case 3: return F::of_ushort((unsigned short)x, k & 3);
      case 4: return F::of_ll(x, k & 3);
      default: return F::of_ull((Code)x, k & 3);
    }
  }
  static Code exact(long long x, int k) {
    const Exact values[] = {of_integer((int)x),            of_integer((unsigned)x), of_integer((short)x),
                            of_integer((unsigned short)x), of_integer(x),           of_integer((Code)x)};
    return encode(F::format, values[k >> 2], Rounding(k & 3));
  }
  static bool is_nan(Code, int) { return false; }
};
// All values of 16 bits to integers, to float, to the other format and to 8 bits.
template <class F>
struct Of16Bits {
  using In = unsigned short;
  static constexpr int count = 32 + OPERATORS;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(unsigned short code, int k) {
    const typename F::one x = F::raw(code);
    if (k >= 32) return by_operator(x, k - 32);
    switch (k >> 2) {
      case 0: return F::to_int(x, k & 3);
      case 1: return F::to_uint(x, k & 3);
      case 2: return F::to_short(x, k & 3);
      case 3: return F::to_ushort(x, k & 3);
      case 4: return F::to_ll(x, k & 3);
      case 5: return F::to_ull(x, k & 3);
      case 6: return to_8_bits(x, k & 3);
      default:
        return k == 28   ? F::char_rz(x)
               : k == 29 ? F::uchar_rz(x)
               : k == 30 ? __builtin_bit_cast(unsigned, (float)x)
                         : F::other(x);
    }
  }
  __host__ __device__ static Code to_8_bits(__half_raw x, int k) {
    return __nv_cvt_halfraw_to_fp8(x, saturation(k), kind_of(k));
  }
  __host__ __device__ static Code to_8_bits(__nv_bfloat16_raw x, int k) {
    return __nv_cvt_bfloat16raw_to_fp8(x, saturation(k), kind_of(k));
  }
  __host__ __device__ static Code to_8_bits(__half x, int k) { return to_8_bits((__half_raw)x, k); }
  __host__ __device__ static Code to_8_bits(__nv_bfloat16 x, int k) { return to_8_bits((__nv_bfloat16_raw)x, k); }
  static Code exact(unsigned short code, int k) {
    const Exact value = decode(F::format, code);
    const Rounding mode = Rounding(k & 3);
    if (k >= 32) return exact_operator(value, k - 32);
    switch (k >> 2) {
      case 0: return to_integer<int>(value, mode);
      case 1: return to_integer<unsigned>(value, mode);
      case 2: return to_integer<short>(value, mode);
      case 3: return to_integer<unsigned short>(value, mode);
      case 4: return to_integer<long long>(value, mode);
      case 5: return to_integer<Code>(value, mode);
      case 6: return encode(small(k & 3), value, NEAREST, k & 1);
      default:
        return k == 28   ? to_integer<signed char>(value, ZERO)
               : k == 29 ? to_integer<unsigned char>(value, ZERO)
                         : encode(k == 30 ? FLOAT : F::other_format, value, NEAREST);
    }
  }
  static bool is_nan(Code code, int k) {
    return is_nan_of(k == 31 ? F::other_format : k == 30 ? FLOAT : small(k & 3), code);
  }
};
struct Of8Bits {
  using In = unsigned char;
  static constexpr int count = 4 + 2 * OPERATORS;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(unsigned char x, int k) {
    if (k < 2) return ((__half_raw)__nv_cvt_fp8_to_halfraw(x, k ? __NV_E5M2 : __NV_E4M3)).x;
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = b.__x = x;
    if (k < 4) return __builtin_bit_cast(unsigned, k == 2 ? (float)a : (float)b);
    return k & 1 ? by_operator(b, (k - 4) / 2) : by_operator(a, (k - 4) / 2);
  }
  static Code exact(unsigned char x, int k) {
    const Exact value = decode(k & 1 ? E5M2 : E4M3, x);
    return k < 4 ? encode(k < 2 ? HALF : FLOAT, value, NEAREST) : exact_operator(value, (k - 4) / 2);
  }
  static bool is_nan(Code code, int k) { return is_nan_of(k < 2 ? HALF : FLOAT, code); }
};

// Powers of two: code c is 2^(c - 127), and 255 is a NaN. What is rounded are absolute values.
struct OfPower {
  using In = unsigned char;
  static constexpr int count = 4 + OPERATORS;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(unsigned char code, int k) {
    __nv_fp8_e8m0 x;
    x.__x = code;
    switch (k) {
      case 0: return __nv_cvt_e8m0_to_bf16raw(code).x;
      case 1: return __builtin_bit_cast(unsigned short, (__half)x);
      case 2: return __builtin_bit_cast(unsigned, (float)x);
      case 3: return __builtin_bit_cast(Code, (double)x);
      default: return by_operator(x, k - 4);
    }
  }
  static const Format& format(int k) { return k == 0 ? BRAIN : k == 1 ? HALF : k == 2 ? FLOAT : DOUBLE; }
  static Code exact(unsigned char code, int k) {
    Exact value;
    value.nan = code == 255;
    value.count = 1;
    value.exponent = code - 127;
    return k < 4 ? encode(format(k), value, NEAREST) : exact_operator(value, k - 4);
  }
  static bool is_nan(Code code, int k) { return is_nan_of(format(k), code); }
};
Code exact_power(const Exact& value, bool saturate, bool up) {
  const int beyond = saturate ? 254 : 255;
  if (value.nan) return 255;
  if (value.infinite) return beyond;
  const int code = value.exponent + length(value.count) + 126 + (up && (value.count & (value.count - 1)));
  if (!value.count || code < 0) return 0;
  return code <= 254 ? code : up ? beyond : 254;
}
struct ToPower {
  using In = double;
  static constexpr int count = 15;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(double x, int k) {
    const cudaRoundMode mode = k & 2 ? cudaRoundPosInf : cudaRoundZero;
    if (k < 4) return __nv_cvt_double_to_e8m0(x, saturation(k), mode);
    if (k < 8) return __nv_cvt_float_to_e8m0((float)x, saturation(k), mode);
    if (k < 12) return __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16((float)x), saturation(k), mode);
    return k == 12   ? __nv_fp8_e8m0(x).__x
           : k == 13 ? __nv_fp8_e8m0((float)x).__x
                     : __nv_fp8_e8m0(__nv_bfloat16((float)x)).__x;
  }
  static Code exact(double x, int k) {
    const Exact narrow = decode(FLOAT, __builtin_bit_cast(unsigned, (float)x));
    const int type = k < 12 ? k / 4 : k - 12;
    Exact value = type == 0 ? decode(DOUBLE, __builtin_bit_cast(Code, x)) : narrow;
    if (type == 2 && !value.nan) value = decode(BRAIN, encode(BRAIN, narrow, NEAREST));
    return exact_power(value, k >= 12 || (k & 1), k >= 12 || (k & 2));
  }
  static bool is_nan(Code, int) { return false; }
};
struct IntegerToPower {
  using In = long long;
  static constexpr int count = 8;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(long long x, int k) {
    switch (k) {
      case 0: return __nv_fp8_e8m0((short)x).__x;
      case 1: return __nv_fp8_e8m0((unsigned short)x).__x;
      case 2: return __nv_fp8_e8m0((int)x).__x;
      case 3: return __nv_fp8_e8m0((unsigned)x).__x;
      case 4: return __nv_fp8_e8m0((long)x).__x;
      case 5: return __nv_fp8_e8m0((unsigned long)x).__x;
      case 6: return __nv_fp8_e8m0(x).__x;
      default: return __nv_fp8_e8m0((Code)x).__x;
    }
  }
  static Code exact(long long x, int k) {
    const Exact values[] = {of_integer((short)x), of_integer((unsigned short)x), of_integer((int)x),
                            of_integer((unsigned)x)};
    return exact_power(k < 4 ? values[k] : k & 1 ? of_integer((Code)x) : of_integer(x), true, true);
  }
  static bool is_nan(Code, int) { return false; }
};

// Between float or double and integers of 32 and 64 bits, and from double to float.
#define IN_MODES(function, x, k) \
  ((k) == 0 ? function##_rn(x) : (k) == 1 ? function##_rz(x) : (k) == 2 ? function##_ru(x) : function##_rd(x))
#define TO_INTEGERS(name, type)                                                             \
  __device__ Code to_integers(type x, int k) {                                              \
    switch (k >> 2) {                                                                       \
      case 0: return (Code)(long long)IN_MODES(__##name##2int, x, k & 3);                   \
      case 1: return IN_MODES(__##name##2uint, x, k & 3);                                   \
      case 2: return (Code)IN_MODES(__##name##2ll, x, k & 3);                               \
      default: return IN_MODES(__##name##2ull, x, k & 3);                                   \
    }                                                                                       \
  }
TO_INTEGERS(float, float)
TO_INTEGERS(double, double)
template <class T>
struct ToWideIntegers {
  using In = Code;
  static constexpr bool is_double = sizeof(T) == 8;
  static constexpr int count = is_double ? 20 : 16;
  static constexpr bool on_host = false;
  __device__ static Code at(Code code, int k) {
    if constexpr (is_double) {
      const double x = __builtin_bit_cast(double, code);
      return k < 16 ? to_integers(x, k) : __builtin_bit_cast(unsigned, IN_MODES(__double2float, x, k & 3));
    } else {
      return to_integers(__builtin_bit_cast(float, (unsigned)code), k);
    }
  }
  static Code exact(Code code, int k) {
    const Exact value = decode(is_double ? DOUBLE : FLOAT, code);
    const Rounding mode = Rounding(k & 3);
    switch (k >> 2) {
      case 0: return to_integer<int>(value, mode, is_double);
      case 1: return to_integer<unsigned>(value, mode, is_double);
      case 2: return to_integer<long long>(value, mode, is_double);
      case 3: return to_integer<Code>(value, mode, is_double);
      default: return encode(FLOAT, value, mode);
    }
  }
  static bool is_nan(Code code, int) { return is_nan_of(FLOAT, code); }
};
struct OfWideIntegers {
  using In = long long;
  static constexpr int count = 26;
  static constexpr bool on_host = false;
  __device__ static Code at(long long x, int k) {
    switch (k >> 2) {
      case 0: return __builtin_bit_cast(unsigned, IN_MODES(__int2float, (int)x, k & 3));
      case 1: return __builtin_bit_cast(unsigned, IN_MODES(__uint2float, (unsigned)x, k & 3));
      case 2: return __builtin_bit_cast(unsigned, IN_MODES(__ll2float, x, k & 3));
      case 3: return __builtin_bit_cast(unsigned, IN_MODES(__ull2float, (Code)x, k & 3));
      case 4: return __builtin_bit_cast(Code, IN_MODES(__ll2double, x, k & 3));
      case 5: return __builtin_bit_cast(Code, IN_MODES(__ull2double, (Code)x, k & 3));
      default: return __builtin_bit_cast(Code, k == 24 ? __int2double_rn((int)x) : __uint2double_rn((unsigned)x));
    }
  }
  static Code exact(long long x, int k) {
    const Exact values[] = {of_integer((int)x), of_integer((unsigned)x), of_integer(x), of_integer((Code)x)};
    if (k >= 24) return encode(DOUBLE, values[k - 24], NEAREST);
    return encode(k < 16 ? FLOAT : DOUBLE, values[k < 16 ? k >> 2 : (k >> 2) - 2], Rounding(k & 3));
  }
  static bool is_nan(Code, int) { return false; }
};
struct Triple {
  unsigned a, b, c;
};
template <class F>
struct Fused {
  using In = Triple;
  static constexpr int count = 5;
  static constexpr bool on_host = true;
  __host__ __device__ static Code at(Triple t, int k) {
    using two = typename F::two;
    const typename F::one a = F::raw(t.a), b = F::raw(t.b), c = F::raw(t.c);
    if (k == 0) return F::bits(__hfma(a, b, c));
    const two r = k < 3 ? __hfma2(two(a, b), two(b, c), two(c, a)) : __hcmadd(two(a, b), two(b, c), two(c, a));
    return F::bits(k & 1 ? r.x : r.y);
  }
  static Exact rounded(const Exact& a, const Exact& b, const Exact& c) {
    const Exact value = fused(a, b, c);
    return value.nan ? value : decode(F::format, encode(F::format, value, NEAREST));
  }
  static Code exact(Triple t, int k) {
    const Exact a = decode(F::format, t.a), b = decode(F::format, t.b), c = decode(F::format, t.c);
    Exact minus = b;
    minus.negative = !b.negative;
    const Exact result = k == 0 || k == 1 ? fused(a, b, c)
                         : k == 2         ? fused(b, c, a)
                         : k == 3         ? fused(minus, c, rounded(a, b, c))
                                          : fused(b, b, rounded(a, c, a));
    return encode(F::format, result, NEAREST);
  }
  static bool is_nan(Code code, int) { return is_nan_of(F::format, code); }
};

// One lane or a whole word at a time, in 128 bits, which no sum or product of 64 bits leaves.
constexpr unsigned OPERANDS[][2] = {{0x44332291, 0x88776655}, {0x80ff7f01, 0x0180fe7f}, {0, ~0u}};
struct BytePerm {
  using In = unsigned;
  static constexpr int count = 3;
  static constexpr bool on_host = false;
  __device__ static Code at(unsigned selector, int k) {
    return k == 0   ? __byte_perm(0x44332291, 0x88776655, selector)
           : k == 1 ? __byte_perm(0x80ff7f01, 0x0180fe7f, selector)
                    : __byte_perm(0, ~0u, selector);
  }
  static Code exact(unsigned selector, int k) {
    const Code bytes = OPERANDS[k][0] | Code(OPERANDS[k][1]) << 32;
    Code out = 0;
    for (int i = 0; i < 4; i++) out |= (bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
  }
  static bool is_nan(Code, int) { return false; }
};
struct Integers {
  using In = Triple;
  static constexpr int count = 24;
  static constexpr bool on_host = false;
  __device__ static Code at(Triple t, int k) {
    const Code a = t.a | Code(t.b) << 32, b = t.c | Code(t.a) << 32;
    switch (k) {
      case 0: return __brev(t.a);
      case 1: return __brevll(a);
      case 2: return __clz((int)t.a);
      case 3: return __clzll((long long)a);
      case 4: return __ffs((int)t.a);
      case 5: return __ffsll((long long)a);
      case 6: return __popc(t.a);
      case 7: return __popcll(a);
      case 8: return __sad((int)t.a, (int)t.b, t.c);
      case 9: return __usad(t.a, t.b, t.c);
      case 10: return (unsigned)__mulhi((int)t.a, (int)t.b);
      case 11: return __umulhi(t.a, t.b);
      case 12: return (Code)__mul64hi((long long)a, (long long)b);
      case 13: return __umul64hi(a, b);
      case 14: return __funnelshift_l(t.a, t.b, t.c);
      case 15: return __funnelshift_lc(t.a, t.b, t.c);
      case 16: return __funnelshift_r(t.a, t.b, t.c);
      case 17: return __funnelshift_rc(t.a, t.b, t.c);
      case 18: return (unsigned)__hadd((int)t.a, (int)t.b);
      case 19: return (unsigned)__rhadd((int)t.a, (int)t.b);
      case 20: return __uhadd(t.a, t.b);
      case 21: return __urhadd(t.a, t.b);
      case 22: return (unsigned)__mul24((int)t.a, (int)t.b);
      default: return __umul24(t.a, t.b);
    }
  }
  static int first(Code v, int bits) {  // the lowest set bit, counted from 1
    for (int i = 0; i < bits; i++)
      if (v >> i & 1) return i + 1;
    return 0;
  }
  static Code reversed(Code v, int bits) {
    Code out = 0;
    for (int i = 0; i < bits; i++) out |= (v >> i & 1) << (bits - 1 - i);
    return out;
  }
  static int ones(Code v) {
    int n = 0;
    for (int i = 0; i < 64; i++) n += v >> i & 1;
    return n;
  }
  static long long low_24(unsigned v) { return (long long)(v & 0x7fffff) - (v & 0x800000); }
  static Code exact(Triple t, int k) {
    const Code a = t.a | Code(t.b) << 32, b = t.c | Code(t.a) << 32;
    const long long signed_gap = (long long)(int)t.a - (int)t.b, gap = (long long)t.a - t.b;
    const int wrapped = t.c % 32, clamped = t.c > 32 ? 32 : t.c;
    switch (k) {
      case 0: return reversed(t.a, 32);
      case 1: return reversed(a, 64);
      case 2: return 32 - length(t.a);
      case 3: return 64 - length(a);
      case 4: return first(t.a, 32);
      case 5: return first(a, 64);
      case 6: return ones(t.a);
      case 7: return ones(a);
      case 8: return (unsigned)((signed_gap < 0 ? -signed_gap : signed_gap) + t.c);
      case 9: return (unsigned)((gap < 0 ? -gap : gap) + t.c);
      case 10: return (unsigned)((__int128)(int)t.a * (int)t.b >> 32);
      case 11: return (unsigned)(Wide(t.a) * t.b >> 32);
      case 12: return (Code)((__int128)(long long)a * (long long)b >> 64);
      case 13: return (Code)(Wide(a) * b >> 64);
      case 14: return (unsigned)(Wide(a) << wrapped >> 32);
      case 15: return (unsigned)(Wide(a) << clamped >> 32);
      case 16: return (unsigned)(a >> wrapped);
      case 17: return (unsigned)(a >> clamped);
      case 18: return (unsigned)(((long long)(int)t.a + (int)t.b) >> 1);
      case 19: return (unsigned)(((long long)(int)t.a + (int)t.b + 1) >> 1);
      case 20: return (unsigned)((Code(t.a) + t.b) >> 1);
      case 21: return (unsigned)((Code(t.a) + t.b + 1) >> 1);
      case 22: return (unsigned)(low_24(t.a) * low_24(t.b));
      default: return (unsigned)(Code(t.a & 0xffffff) * (t.b & 0xffffff));
    }
  }
  static bool is_nan(Code, int) { return false; }
};
#define COMPARISONS(X, word, sign, op) X(vcmp##word, sign, a op b ? -1 : 0) X(vset##word, sign, a op b ? 1 : 0)
#define PAIRED(X)                                                                              \
  X(vadd, 0, a + b) X(vaddss, 1, clamp(a + b)) X(vaddus, 0, clamp(a + b))                      \
  X(vsub, 0, a - b) X(vsubss, 1, clamp(a - b)) X(vsubus, 0, clamp(a - b))                      \
  X(vavgu, 0, (a + b + 1) / 2) X(vhaddu, 0, (a + b) / 2)                                       \
  X(vavgs, 1, (a + b + (a + b >= 0 ? 1 : -1)) / 2)                                             \
  X(vabsdiffs, 1, std::abs(a - b)) X(vabsdiffu, 0, std::abs(a - b))                            \
  X(vmaxs, 1, std::max(a, b)) X(vmaxu, 0, std::max(a, b))                                      \
  X(vmins, 1, std::min(a, b)) X(vminu, 0, std::min(a, b))                                      \
  COMPARISONS(X, eq, 0, ==) COMPARISONS(X, ne, 0, !=)                                          \
  COMPARISONS(X, ges, 1, >=) COMPARISONS(X, geu, 0, >=) COMPARISONS(X, gts, 1, >)              \
  COMPARISONS(X, gtu, 0, >) COMPARISONS(X, les, 1, <=) COMPARISONS(X, leu, 0, <=)              \
  COMPARISONS(X, lts, 1, <) COMPARISONS(X, ltu, 0, <)
#define SINGLE(X) \
  X(vabs, 1, std::abs(a)) X(vabsss, 1, clamp(std::abs(a))) X(vneg, 1, -a) X(vnegss, 1, clamp(-a))
#define COUNT(name, sign, expression) +1
constexpr int PAIRS = 0 PAIRED(COUNT), SINGLES = 0 SINGLE(COUNT);

// Lanes of the same operands in 2 and in 4 parts, and sums of their differences.
struct Lanes {
  using In = Triple;
  static constexpr int count = 2 * (PAIRS + SINGLES + 2);
  static constexpr bool on_host = false;
  __device__ static Code at(Triple t, int k) {
    int next = 0;
#define TRY(call) if (k == next++) return (unsigned)(call);
#define DEVICE(name, sign, expression) TRY(__##name##2(t.a, t.b)) TRY(__##name##4(t.a, t.b))
    PAIRED(DEVICE)
#undef DEVICE
#define DEVICE(name, sign, expression) TRY(__##name##2(t.a)) TRY(__##name##4(t.a))
    SINGLE(DEVICE)
    TRY(__vsads2(t.a, t.b)) TRY(__vsads4(t.a, t.b)) TRY(__vsadu2(t.a, t.b)) TRY(__vsadu4(t.a, t.b))
    return ANY_NAN;
  }
  static Code exact(Triple t, int k) {
    const int bits = k & 1 ? 8 : 16, which = k / 2;
    unsigned out = 0, sum = 0;
    for (int at = 0; at < 32; at += bits) {
      const int size = 1 << bits;
      int next = 0, result = 0;
      bool is_signed = false;
      const auto lane = [&](unsigned word) {
        const int v = int(word >> at) & (size - 1);
        return is_signed && v >= size / 2 ? v - size : v;
      };
      const auto clamp = [&](int v) {
        return is_signed ? std::min(std::max(v, -size / 2), size / 2 - 1) : std::min(std::max(v, 0), size - 1);
      };
#define HOST(name, sign, expression)            \
  if (which == next++) {                        \
    is_signed = sign;                           \
    const int a = lane(t.a), b = lane(t.b);     \
    (void)b, result = expression;               \
  }
      PAIRED(HOST) SINGLE(HOST)
      if (which >= PAIRS + SINGLES) {
        is_signed = which == PAIRS + SINGLES;
        sum += std::abs(lane(t.a) - lane(t.b));
      }
      out |= unsigned(result & (size - 1)) << at;
    }
    return which >= PAIRS + SINGLES ? sum : out;
  }
  static bool is_nan(Code, int) { return false; }
};

// Values of a format in each of its ranges, the midpoints above them, and what is next to these.
void add_neighbours(std::vector<double>& all, double v) {
  for (const double x : {v, std::nextafter(v, INFINITY), std::nextafter(v, -INFINITY)}) all.insert(all.end(), {x, -x});
}
std::vector<double> doubles(const Format& format) {
  std::vector<double> all;
  for (Code code = 0; code <= format.largest; code += code < 16 || code + 16 > format.largest ? 1 : 7) {
    const Exact value = decode(format, code);
    const double v = std::ldexp(double(value.count), value.exponent);
    add_neighbours(all, v);
    add_neighbours(all, v + std::ldexp(0.5, value.exponent));
  }
  for (int exponent = -1074; exponent < 1024; exponent++) add_neighbours(all, std::ldexp(1.0, exponent));
  for (const double v : {double(NAN), double(INFINITY), 0.0, double(0x1.fffffefffffffp127)}) add_neighbours(all, v);
  return all;
}
std::vector<long long> integers() {
  std::vector<long long> all;
  for (int shift = 0; shift < 64; shift++)
    for (const Code step : {0ull, 1ull, 3ull, 1ull << shift >> 8, 1ull << shift >> 9, 1ull << shift >> 11,
                            1ull << shift >> 12, (1ull << shift >> 12) * 3, (1ull << shift >> 9) * 3,
                            1ull << shift >> 24, (1ull << shift >> 24) * 3, 1ull << shift >> 53,
                            (1ull << shift >> 53) * 3})
      for (const long long more : {-1, 0, 1}) {
        const Code v = (1ull << shift) + step + Code(more);
        all.insert(all.end(), {(long long)v, (long long)(0 - v)});
      }
  return all;
}
// Codes of each exponent; where digits are near the unit or the smallest float, each digit is the last or first one.
std::vector<Code> wide_codes(const Format& format) {
  std::vector<Code> all;
  const int fraction = format.digits - 1;
  const Code sign = 1ull << (format.bits - 1), mask = (1ull << fraction) - 1;
  for (Code field = 0; field << fraction <= format.infinity; field++) {
    const int exponent = format.least + int(field) + fraction;
    const bool is_close = (exponent >= -3 && exponent < 68) || (exponent > -155 && exponent < -120) || exponent > 1020;
    for (int shift = 0; shift <= fraction; shift += is_close || shift == fraction - 1 ? 1 : fraction - 1)
      for (const Code digits : {1ull << shift, (1ull << shift) - 1, ~0ull << shift, 3ull << shift})
        all.insert(all.end(), {field << fraction | (digits & mask), field << fraction | (digits & mask) | sign});
  }
  return all;
}
std::vector<Triple> triples(const std::vector<unsigned>& values) {
  std::vector<Triple> all;
  for (const unsigned a : values)
    for (const unsigned b : values)
      for (const unsigned c : values) all.push_back({a, b, c});
  return all;
}
// Codes at the ends of each range of a format, with both signs, and some between.
std::vector<unsigned> codes(const Format& format) {
  const unsigned one = unsigned(encode(format, of_integer(1), NEAREST)), unit = 1u << (format.digits - 1);
  std::vector<unsigned> all;
  for (const unsigned code : {0u, 1u, 2u, 3u, unit - 1, unit, unit + 1, one - 1, one, one + 1, one + unit / 2,
                              one - unit * unsigned(format.digits), one / 2, one / 2 + 1, one / 2 - unit,
                              unsigned(format.largest), unsigned(format.largest) - 1, unsigned(format.infinity), 0x7fffu})
    all.insert(all.end(), {code, code | 0x8000});
  return all;
}
template <class T>
std::vector<T> all_codes(int n) {
  return generate<T>(n, [](int i) { return i; });
}
}  // namespace

int main() {
  int bad = report("half", check<OfWide<Half>>("from floats", doubles(HALF)) +
                               check<OfInteger<Half>>("from integers", integers()) +
                               check<Of16Bits<Half>>("to others", all_codes<unsigned short>(65536)) +
                               check<Fused<Half>>("fused", triples(codes(HALF))));
  bad += report("bfloat16", check<OfWide<Brain>>("from floats", doubles(BRAIN)) +
                                check<OfInteger<Brain>>("from integers", integers()) +
                                check<Of16Bits<Brain>>("to others", all_codes<unsigned short>(65536)) +
                                check<Fused<Brain>>("fused", triples(codes(BRAIN))));
  bad += report("8 bits", check<Of8Bits>("to others", all_codes<unsigned char>(256)));
  bad += report("powers", check<OfPower>("to others", all_codes<unsigned char>(256)) +
                              check<ToPower>("from floats", doubles(BRAIN)) +
                              check<IntegerToPower>("from integers", integers()));
  bad += report("wide", check<ToWideIntegers<float>>("from float", wide_codes(FLOAT)) +
                            check<ToWideIntegers<double>>("from double", wide_codes(DOUBLE)) +
                            check<OfWideIntegers>("from integers", integers()));
  const std::vector<Triple> words =
      triples({0, 1, 2, 31, 32, 33, 255, 0x7fffffff, 0x80000000, ~0u, 0x80ff7f01, 0x0180fe7f, 0x12345678, 0x7fff8000,
               0x80007fff, 0xffff0000});
  bad += report("permutations", check<BytePerm>("__byte_perm", all_codes<unsigned>(65536)));
  bad += report("integers", check<Integers>("words", words) + check<Lanes>("lanes", words));
  return bad != 0;
}
