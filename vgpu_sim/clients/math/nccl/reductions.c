#include "reductions.h"

#include "small_floats.h"

/* By ncclDataType_t. */
#define INTEGERS(X) X(0, int8_t, int64_t) X(1, uint8_t, uint64_t) X(2, int32_t, int64_t) \
  X(3, uint32_t, uint64_t) X(4, int64_t, int64_t) X(5, uint64_t, uint64_t)
#define SMALL_FLOATS(X) X(6, uint16_t, F16) X(9, uint16_t, BF16) X(10, uint8_t, E4M3) X(11, uint8_t, E5M2)
#define FLOATS(X) X(7, float) X(8, double)

static const uint8_t ELEMENT_BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static const struct tsr_small_float F16 = {5, 10, false}, BF16 = {8, 7, false}, E4M3 = {4, 3, true},
                                    E5M2 = {5, 2, false};

size_t tsr_element_bytes(int datatype) {
  return datatype >= 0 && datatype < (int)sizeof ELEMENT_BYTES ? ELEMENT_BYTES[datatype] : 0;
}

/* A maximum or minimum of numbers of which one is NaN is NaN. */
#define COMBINE(op, a, b)                                  \
  ((op) == TSR_PRODUCT   ? (a) * (b)                       \
   : (op) == TSR_MAXIMUM ? ((a) > (b) || (a) != (a) ? (a) : (b)) \
   : (op) == TSR_MINIMUM ? ((a) < (b) || (a) != (a) ? (a) : (b)) \
                         : (a) + (b))

#define FOR_ALL(type, wide, read, write, finish)                                \
  for (size_t i = 0; i < count; i++) {                                          \
    wide value = read(((const type *)parts[0])[i]);                             \
    for (int part = 1; part < parts_count; part++) {                            \
      const wide other = read(((const type *)parts[part])[i]);                  \
      value = COMBINE(op, value, other);                                        \
    }                                                                           \
    if (op == TSR_AVERAGE) value = (finish);                                    \
    ((type *)target)[i] = (type)write(value);                                   \
  }

#define SAME(value) (value)

/* Sums and products are the same modulo 2^64 for both signs, and unsigned ones may overflow. */
#define OF_INTEGERS(number, type, wide)                                                                  \
  static void reduce_##type(void *target, const void *const *parts, int parts_count, size_t count, int op) { \
    for (size_t i = 0; i < count; i++) {                                                                 \
      wide value = ((const type *)parts[0])[i];                                                          \
      for (int part = 1; part < parts_count; part++) {                                                   \
        const wide other = ((const type *)parts[part])[i];                                               \
        if (op == TSR_PRODUCT) value = (wide)((uint64_t)value * (uint64_t)other);                        \
        else if (op == TSR_MAXIMUM) value = value > other ? value : other;                               \
        else if (op == TSR_MINIMUM) value = value < other ? value : other;                               \
        else value = (wide)((uint64_t)value + (uint64_t)other);                                          \
      }                                                                                                  \
      if (op == TSR_AVERAGE) value = (wide)((type)value / (wide)parts_count);                            \
      ((type *)target)[i] = (type)value;                                                                 \
    }                                                                                                    \
  }
INTEGERS(OF_INTEGERS)

#define OF_FLOATS(number, type)                                                                          \
  static void reduce_##type(void *target, const void *const *parts, int parts_count, size_t count, int op) { \
    FOR_ALL(type, type, SAME, SAME, value / (type)parts_count)                                           \
  }
FLOATS(OF_FLOATS)

#define OF_SMALL_FLOATS(number, type, format)                                                             \
  static float widen_##format(uint32_t code) { return tsr_widen(code, format); }                          \
  static uint32_t narrow_##format(float value) { return tsr_narrow(value, format); }                      \
  static void reduce_##format(void *target, const void *const *parts, int parts_count, size_t count, int op) { \
    FOR_ALL(type, float, widen_##format, narrow_##format, value / (float)parts_count)                     \
  }
SMALL_FLOATS(OF_SMALL_FLOATS)

void tsr_reduce(void *target, const void *const *parts, int parts_count, size_t count, int datatype, int op) {
  switch (datatype) {
#define CASE(number, type, ...) \
  case number: reduce_##type(target, parts, parts_count, count, op); break;
#define SMALL_CASE(number, type, format) \
  case number: reduce_##format(target, parts, parts_count, count, op); break;
    INTEGERS(CASE)
    FLOATS(CASE)
    SMALL_FLOATS(SMALL_CASE)
#undef CASE
#undef SMALL_CASE
  }
}

void tsr_scale(void *array, size_t count, int datatype, const void *scalar) {
  switch (datatype) {
#define SCALE_CASE(number, type, wide)                                                              \
  case number:                                                                                      \
    for (size_t i = 0; i < count; i++)                                                              \
      ((type *)array)[i] = (type)((wide)((type *)array)[i] * (wide) * (const type *)scalar);         \
    break;
#define INTEGER_CASE(number, type, wide) SCALE_CASE(number, type, uint64_t)
#define CASE(number, type) SCALE_CASE(number, type, type)
#define SMALL_CASE(number, type, format)                                                            \
  case number:                                                                                      \
    for (size_t i = 0; i < count; i++)                                                              \
      ((type *)array)[i] = (type)narrow_##format(widen_##format(((type *)array)[i]) *               \
                                                 widen_##format(*(const type *)scalar));            \
    break;
    INTEGERS(INTEGER_CASE)
    FLOATS(CASE)
    SMALL_FLOATS(SMALL_CASE)
  }
}
