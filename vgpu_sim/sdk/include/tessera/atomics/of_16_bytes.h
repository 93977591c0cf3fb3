/* atomicCAS and atomicExch of 16 bytes, for types of that size and alignment (PTX ISA 8.3 and 8.4,
 * sm_90), and loads and stores of 16 bytes that no other access divides. */
#ifndef TESSERA_ATOMICS_OF_16_BYTES_H
#define TESSERA_ATOMICS_OF_16_BYTES_H

namespace tessera_16_bytes {
struct alignas(16) words {
  unsigned long long low, high;
};
template <bool Condition, class T>
struct only_if {};
template <class T>
struct only_if<true, T> {
  using type = T;
};
template <bool Condition, class T, class F>
struct choose {
  using type = T;
};
template <class T, class F>
struct choose<false, T, F> {
  using type = F;
};
/* T, if CUDA permits it here. */
template <class T>
using permitted = typename only_if<
    sizeof(T) == 16 && alignof(T) >= 16 && __is_trivially_copyable(T), T>::type;

template <class To, class From>
static __device__ __forceinline__ To copy_bits(const From &from) {
  static_assert(sizeof(To) == sizeof(From), "types of one size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace tessera_16_bytes

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TESSERA_16_BYTES(suffix, scope)                                                         \
  template <class T>                                                                            \
  static __device__ __forceinline__ tessera_16_bytes::permitted<T> atomicCAS##suffix(           \
      T *p, T expected, T v) {                                                                  \
    using tessera_16_bytes::words;                                                              \
    const words e = tessera_16_bytes::copy_bits<words>(expected);                               \
    const words n = tessera_16_bytes::copy_bits<words>(v);                                      \
    words r;                                                                                    \
    __asm__ __volatile__(                                                                       \
        "{ .reg .b128 e, n, r; mov.b128 e, {%3, %4}; mov.b128 n, {%5, %6};\n"                   \
        "atom.relaxed" scope ".cas.b128 r, [%2], e, n; mov.b128 {%0, %1}, r; }"                 \
        : "=l"(r.low), "=l"(r.high)                                                             \
        : "l"(p), "l"(e.low), "l"(e.high), "l"(n.low), "l"(n.high)                              \
        : "memory");                                                                            \
    return tessera_16_bytes::copy_bits<T>(r);                                                   \
  }                                                                                             \
  template <class T>                                                                            \
  static __device__ __forceinline__ tessera_16_bytes::permitted<T> atomicExch##suffix(T *p,     \
                                                                                      T v) {    \
    using tessera_16_bytes::words;                                                              \
    const words n = tessera_16_bytes::copy_bits<words>(v);                                      \
    words r;                                                                                    \
    __asm__ __volatile__(                                                                       \
        "{ .reg .b128 n, r; mov.b128 n, {%3, %4};\n"                                            \
        "atom.relaxed" scope ".exch.b128 r, [%2], n; mov.b128 {%0, %1}, r; }"                   \
        : "=l"(r.low), "=l"(r.high)                                                             \
        : "l"(p), "l"(n.low), "l"(n.high)                                                       \
        : "memory");                                                                            \
    return tessera_16_bytes::copy_bits<T>(r);                                                   \
  }
TESSERA_16_BYTES(, ".gpu")
TESSERA_16_BYTES(_block, ".cta")
TESSERA_16_BYTES(_system, ".sys")
#undef TESSERA_16_BYTES
#endif

#endif
