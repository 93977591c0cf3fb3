/* nvcc's atomic built-in functions with an order and a scope: __nv_atomic_load,
 * __nv_atomic_fetch_add and the others. An operation is relaxed, between the fences that its order
 * needs. The scope of clusters is widened to the device. */
#ifndef TESSERA_ATOMIC_BUILTINS_H
#define TESSERA_ATOMIC_BUILTINS_H

enum {
  __NV_ATOMIC_RELAXED,
  __NV_ATOMIC_CONSUME,
  __NV_ATOMIC_ACQUIRE,
  __NV_ATOMIC_RELEASE,
  __NV_ATOMIC_ACQ_REL,
  __NV_ATOMIC_SEQ_CST
};
enum {
  __NV_THREAD_SCOPE_THREAD,
  __NV_THREAD_SCOPE_BLOCK,
  __NV_THREAD_SCOPE_CLUSTER,
  __NV_THREAD_SCOPE_DEVICE,
  __NV_THREAD_SCOPE_SYSTEM
};

#define TESSERA_BUILTIN static __device__ __forceinline__

TESSERA_BUILTIN void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  if (order == __NV_ATOMIC_RELAXED || scope == __NV_THREAD_SCOPE_THREAD) return;
  if (scope == __NV_THREAD_SCOPE_BLOCK) __threadfence_block();
  else if (scope <= __NV_THREAD_SCOPE_DEVICE) __threadfence();
  else __threadfence_system();
}

namespace tessera_builtin {
using tessera_16_bytes::copy_bits;
/* The unsigned integer of a size. */
template <unsigned Bytes>
struct carrier;
template <>
struct carrier<1> {
  using type = unsigned char;
};
template <>
struct carrier<2> {
  using type = unsigned short;
};
template <>
struct carrier<4> {
  using type = unsigned int;
};
template <>
struct carrier<8> {
  using type = unsigned long long;
};
template <>
struct carrier<16> {
  using type = tessera_16_bytes::words;
};
template <class T>
using bits = typename carrier<sizeof(T)>::type;
/* A type that no argument deduces, so that a pointer's alone does. */
template <class T>
struct same {
  using type = T;
};
template <class T>
using value = typename same<T>::type;

TESSERA_BUILTIN void fence_before(int order, int scope) {
  if (order >= __NV_ATOMIC_RELEASE) __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, scope);
}
TESSERA_BUILTIN void fence_after(int order, int scope) {
  if (order != __NV_ATOMIC_RELEASE) __nv_atomic_thread_fence(order, scope);
}

#define TESSERA_ACCESS(type, suffix, register)                                                  \
  TESSERA_BUILTIN type load(const type *p) {                                                    \
    type r;                                                                                     \
    __asm__ __volatile__("ld.relaxed.sys." suffix " %0, [%1];"                                  \
                         : "=" register(r) : "l"(p) : "memory");                                \
    return r;                                                                                   \
  }                                                                                             \
  TESSERA_BUILTIN void store(type *p, type v) {                                                 \
    __asm__ __volatile__("st.relaxed.sys." suffix " [%0], %1;" ::"l"(p), register(v)            \
                         : "memory");                                                           \
  }
TESSERA_ACCESS(unsigned short, "u16", "h")
TESSERA_ACCESS(unsigned int, "u32", "r")
TESSERA_ACCESS(unsigned long long, "u64", "l")
#undef TESSERA_ACCESS
TESSERA_BUILTIN unsigned char load(const unsigned char *p) {
  unsigned short r;
  __asm__ __volatile__("ld.relaxed.sys.u8 %0, [%1];" : "=h"(r) : "l"(p) : "memory");
  return (unsigned char)r;
}
TESSERA_BUILTIN void store(unsigned char *p, unsigned char v) {
  __asm__ __volatile__("st.relaxed.sys.u8 [%0], %1;" ::"l"(p), "h"((unsigned short)v) : "memory");
}
TESSERA_BUILTIN tessera_16_bytes::words load(const tessera_16_bytes::words *p) {
  tessera_16_bytes::words r;
  __asm__ __volatile__(
      "{ .reg .b128 r; ld.relaxed.sys.b128 r, [%2]; mov.b128 {%0, %1}, r; }"
      : "=l"(r.low), "=l"(r.high) : "l"(p) : "memory");
  return r;
}
TESSERA_BUILTIN void store(tessera_16_bytes::words *p, tessera_16_bytes::words v) {
  __asm__ __volatile__(
      "{ .reg .b128 v; mov.b128 v, {%1, %2}; st.relaxed.sys.b128 [%0], v; }"
      ::"l"(p), "l"(v.low), "l"(v.high) : "memory");
}

template <class T>
TESSERA_BUILTIN bool is_equal(T a, T b) {
  if constexpr (sizeof(T) == 16) return a.low == b.low && a.high == b.high;
  else return a == b;
}

/* Calls the function of a scope. */
#define TESSERA_SCOPED(name)                                                                    \
  template <class... A>                                                                         \
  TESSERA_BUILTIN auto call_##name(int scope, A... a) {                                         \
    if (scope <= __NV_THREAD_SCOPE_BLOCK) return name##_block(a...);                            \
    if (scope <= __NV_THREAD_SCOPE_DEVICE) return name(a...);                                   \
    return name##_system(a...);                                                                 \
  }
TESSERA_SCOPED(atomicCAS)
TESSERA_SCOPED(atomicExch)
TESSERA_SCOPED(atomicAdd)
TESSERA_SCOPED(atomicAnd)
TESSERA_SCOPED(atomicOr)
TESSERA_SCOPED(atomicXor)
TESSERA_SCOPED(atomicMin)
TESSERA_SCOPED(atomicMax)
#undef TESSERA_SCOPED

template <class T>
constexpr bool is_float = __is_same(T, float) || __is_same(T, double);
template <class T>
constexpr bool is_number = (sizeof(T) == 4 || sizeof(T) == 8) && (__is_integral(T) || is_float<T>);

/* The integer of T's size and signedness for which CUDA has minimum and maximum. */
template <class T>
using integer = typename tessera_16_bytes::choose<
    ((T)-1 < (T)0), typename tessera_16_bytes::choose<sizeof(T) == 4, int, long long>::type,
    bits<T>>::type;
}  // namespace tessera_builtin

template <class T>
TESSERA_BUILTIN T __nv_atomic_load_n(T *p, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  using namespace tessera_builtin;
  if (order == __NV_ATOMIC_SEQ_CST) fence_before(order, scope);
  const bits<T> r = load((const bits<T> *)p);
  fence_after(order, scope);
  return copy_bits<T>(r);
}
template <class T>
TESSERA_BUILTIN void __nv_atomic_load(T *p, T *result, int order,
                                      int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *result = __nv_atomic_load_n(p, order, scope);
}
template <class T>
TESSERA_BUILTIN void __nv_atomic_store_n(T *p, tessera_builtin::value<T> v, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
  using namespace tessera_builtin;
  fence_before(order, scope);
  store((bits<T> *)p, copy_bits<bits<T>>(v));
  if (order == __NV_ATOMIC_SEQ_CST) fence_after(order, scope);
}
template <class T>
TESSERA_BUILTIN void __nv_atomic_store(T *p, T *v, int order,
                                       int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_atomic_store_n(p, *v, order, scope);
}
template <class T>
TESSERA_BUILTIN T __nv_atomic_exchange_n(T *p, tessera_builtin::value<T> v, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
  using namespace tessera_builtin;
  static_assert(sizeof(T) >= 4, "__nv_atomic_exchange takes types of 4, 8 and 16 bytes");
  fence_before(order, scope);
  const bits<T> r = call_atomicExch(scope, (bits<T> *)p, copy_bits<bits<T>>(v));
  fence_after(order, scope);
  return copy_bits<T>(r);
}
template <class T>
TESSERA_BUILTIN void __nv_atomic_exchange(T *p, T *v, T *result, int order,
                                          int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *result = __nv_atomic_exchange_n(p, *v, order, scope);
}
template <class T>
TESSERA_BUILTIN bool __nv_atomic_compare_exchange_n(T *p, T *expected, tessera_builtin::value<T> v,
                                                    bool, int success, int failure,
                                                    int scope = __NV_THREAD_SCOPE_SYSTEM) {
  using namespace tessera_builtin;
  static_assert(sizeof(T) >= 2, "__nv_atomic_compare_exchange takes types of 2 to 16 bytes");
  const int order = success > failure ? success : failure;
  fence_before(order, scope);
  const bits<T> wanted = copy_bits<bits<T>>(*expected);
  const bits<T> old = call_atomicCAS(scope, (bits<T> *)p, wanted, copy_bits<bits<T>>(v));
  /* A release that fails may have to acquire. */
  fence_after(failure == __NV_ATOMIC_RELAXED ? order : __NV_ATOMIC_SEQ_CST, scope);
  if (is_equal(old, wanted)) return true;
  *expected = copy_bits<T>(old);
  return false;
}
template <class T>
TESSERA_BUILTIN bool __nv_atomic_compare_exchange(T *p, T *expected, T *v, bool weak, int success,
                                                  int failure,
                                                  int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return __nv_atomic_compare_exchange_n(p, expected, *v, weak, success, failure, scope);
}

#define TESSERA_FETCH(name, condition, type, function, operand)                                 \
  template <class T>                                                                            \
  TESSERA_BUILTIN T __nv_atomic_fetch_##name(T *p, tessera_builtin::value<T> v, int order,      \
                                             int scope = __NV_THREAD_SCOPE_SYSTEM) {            \
    using namespace tessera_builtin;                                                            \
    static_assert(condition, "__nv_atomic_fetch_" #name " does not take this type");            \
    using word = type;                                                                          \
    fence_before(order, scope);                                                                 \
    const word r = call_##function(scope, (word *)p, (word)(operand));                          \
    fence_after(order, scope);                                                                  \
    return (T)r;                                                                                \
  }                                                                                             \
  template <class T>                                                                            \
  TESSERA_BUILTIN void __nv_atomic_##name(T *p, tessera_builtin::value<T> v, int order,         \
                                          int scope = __NV_THREAD_SCOPE_SYSTEM) {               \
    __nv_atomic_fetch_##name(p, v, order, scope);                                               \
  }
#define TESSERA_SUM typename tessera_16_bytes::choose<is_float<T>, T, bits<T>>::type
TESSERA_FETCH(add, is_number<T>, TESSERA_SUM, atomicAdd, v)
TESSERA_FETCH(sub, is_number<T>, TESSERA_SUM, atomicAdd, -(word)v)
TESSERA_FETCH(and, is_number<T> && !is_float<T>, bits<T>, atomicAnd, v)
TESSERA_FETCH(or, is_number<T> && !is_float<T>, bits<T>, atomicOr, v)
TESSERA_FETCH(xor, is_number<T> && !is_float<T>, bits<T>, atomicXor, v)
TESSERA_FETCH(min, is_number<T> && !is_float<T>, integer<T>, atomicMin, v)
TESSERA_FETCH(max, is_number<T> && !is_float<T>, integer<T>, atomicMax, v)
#undef TESSERA_SUM
#undef TESSERA_FETCH
#undef TESSERA_BUILTIN

#endif
