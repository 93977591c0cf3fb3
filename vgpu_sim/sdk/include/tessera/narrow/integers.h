/* Conversions between integers and the formats of 16 bits. */
#ifndef TESSERA_NARROW_INTEGERS_H
#define TESSERA_NARROW_INTEGERS_H

/* Returns a double between the same values of up to 51 bits as the integer: of its lowest
 * 11 bits, only whether any is set. */
TESSERA_HD double tessera_sticky(unsigned long long v) {
  if (v >> 53 == 0) return (double)v;
  return (double)((v & ~0x7ffull) | ((v & 0x7ff) != 0 ? 0x800 : 0));
}
TESSERA_HD double tessera_sticky(long long v) {
  return v < 0 ? -tessera_sticky(0ull - (unsigned long long)v) : tessera_sticky((unsigned long long)v);
}
/* Converts an integral value: those out of range to the nearest, a NaN to that of cvt. */
template <class T>
static __host__ __device__ __forceinline__ T tessera_integer(float v) {
  const bool is_signed = (T)-1 < (T)0;
  const T top = (T)1 << (8 * sizeof(T) - 1), least = is_signed ? top : (T)0;
  if (v != v) return sizeof(T) == 8 ? top : (T)0;
  if (v <= (float)least) return least;
  if (v >= (float)top * (is_signed ? -1.0f : 2.0f)) return (T)~least;
  return (T)v;
}

#endif

/* The operators of a type that becomes integers as cvt.rzi converts; the header that includes this one removes the
 * macros. */
#define TESSERA_TO_INTEGER(specifier, type) \
  specifier __host__ __device__ operator type() const { return tessera_integer<type>(truncf((float)*this)); }
#define TESSERA_TO_INTEGERS(specifier)          \
  TESSERA_TO_INTEGER(specifier, signed char)    \
  TESSERA_TO_INTEGER(specifier, unsigned char)  \
  TESSERA_TO_INTEGER(specifier, char)           \
  TESSERA_TO_INTEGER(specifier, short)          \
  TESSERA_TO_INTEGER(specifier, unsigned short) \
  TESSERA_TO_INTEGER(specifier, int)            \
  TESSERA_TO_INTEGER(specifier, unsigned int)   \
  TESSERA_TO_INTEGER(specifier, long)           \
  TESSERA_TO_INTEGER(specifier, unsigned long)  \
  TESSERA_TO_INTEGER(specifier, long long)      \
  TESSERA_TO_INTEGER(specifier, unsigned long long)
