/* Floating-point formats narrower than 32 bits: conversions from and to float, rounding to nearest even. */
#ifndef TSR_NCCL_SMALL_FLOATS_H
#define TSR_NCCL_SMALL_FLOATS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct tsr_small_float {
  int exponent_bits, mantissa_bits;
  bool no_infinity; /* as e4m3: all ones is the only NaN, and conversions saturate */
};

static inline uint32_t tsr_bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float tsr_float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline int tsr_bias(struct tsr_small_float format) { return (1 << (format.exponent_bits - 1)) - 1; }

static inline float tsr_widen(uint32_t code, struct tsr_small_float format) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const uint32_t magnitude = code & ((1u << width) - 1), sign = (code >> width & 1) << 31;
  const uint32_t exponent = magnitude >> format.mantissa_bits, ones = (1u << format.exponent_bits) - 1;
  if (format.no_infinity ? magnitude == (1u << width) - 1 : exponent == ones)
    return tsr_float_of(sign | 0x7F800000u | magnitude << (23 - format.mantissa_bits));
  /* The product is exact, also for subnormal numbers. */
  const float scale = tsr_float_of((uint32_t)(127 + 127 - tsr_bias(format)) << 23);
  return tsr_float_of(sign | tsr_bits_of(tsr_float_of(magnitude << (23 - format.mantissa_bits)) * scale));
}

static inline uint32_t tsr_narrow(float value, struct tsr_small_float format) {
  const int width = format.exponent_bits + format.mantissa_bits;
  const uint32_t bits = tsr_bits_of(value), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 31 << width;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  if (magnitude > 0x7F800000u) return sign | (format.no_infinity ? (1u << width) - 1 : infinity | 1u << (format.mantissa_bits - 1));
  const bool subnormal = magnitude < 0x800000u;
  const uint32_t significand = (magnitude & 0x7FFFFFu) | (subnormal ? 0 : 0x800000u);
  int exponent = (subnormal ? 1 : (int)(magnitude >> 23)) - 127 + tsr_bias(format);
  int shift = 23 - format.mantissa_bits;
  if (exponent < 1) {
    shift += 1 - exponent;
    exponent = 1;
  }
  if (shift > 25) return sign;
  const uint32_t rest = significand & ((1u << shift) - 1), half = shift ? 1u << (shift - 1) : 0;
  uint32_t rounded = significand >> shift;
  if (shift && (rest > half || (rest == half && (rounded & 1)))) rounded++;
  /* A normal significand's leading one adds 1 to the exponent. */
  const uint64_t code = ((uint64_t)(exponent - 1) << format.mantissa_bits) + rounded;
  const uint32_t largest = format.no_infinity ? (1u << width) - 2 : infinity;
  return sign | (code > largest ? largest : (uint32_t)code);
}

#endif
