/* Bulk copies of the tensor memory accelerator (PTX ISA, cp.async.bulk), for cuda/barrier. */
#ifndef TESSERA_BULK_COPIES_H
#define TESSERA_BULK_COPIES_H

#if defined(__CUDA__)
namespace tessera_bulk {
#define TESSERA_BULK static __device__ __forceinline__
TESSERA_BULK unsigned int shared_address(const void *p) {
  return (unsigned int)__cvta_generic_to_shared(p);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TESSERA_BULK unsigned long long global_address(const void *p) {
  return (unsigned long long)__cvta_generic_to_global(p);
}
TESSERA_BULK void global_to_shared(void *target, const void *source, unsigned int bytes,
                                   const void *bar) {
  __asm__ __volatile__(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(shared_address(target)), "l"(global_address(source)), "r"(bytes),
      "r"(shared_address(bar)) : "memory");
}
TESSERA_BULK void cp_async_bulk_shared_to_global(void *target, const void *source,
                                                 unsigned int bytes) {
  __asm__ __volatile__("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                       :: "l"(global_address(target)), "r"(shared_address(source)), "r"(bytes)
                       : "memory");
}
TESSERA_BULK void cp_async_bulk_commit_group() {
  __asm__ __volatile__("cp.async.bulk.commit_group;" ::: "memory");
}
template <int Groups>
TESSERA_BULK void cp_async_bulk_wait_group_read() {
  __asm__ __volatile__("cp.async.bulk.wait_group.read %0;" :: "n"(Groups) : "memory");
}
TESSERA_BULK void fence_proxy_async_shared_cta() {
  __asm__ __volatile__("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Copies the box of a tensor map at some coordinates, of one to five dimensions. */
#define TESSERA_TO_SHARED(dimensions, coordinates, ...)                                         \
  __asm__ __volatile__("cp.async.bulk.tensor." dimensions                                       \
                       "d.shared::cluster.global.mbarrier::complete_tx::bytes"                  \
                       " [%0], [%1, {" coordinates "}], [%2];"                                  \
                       :: "r"(shared_address(target)), "l"(map), "r"(shared_address(bar)),      \
                       __VA_ARGS__ : "memory")
TESSERA_BULK void tensor_to_shared(void *target, const void *map, const void *bar, int a) {
  TESSERA_TO_SHARED("1", "%3", "r"(a));
}
TESSERA_BULK void tensor_to_shared(void *target, const void *map, const void *bar, int a, int b) {
  TESSERA_TO_SHARED("2", "%3, %4", "r"(a), "r"(b));
}
TESSERA_BULK void tensor_to_shared(void *target, const void *map, const void *bar, int a, int b,
                                   int c) {
  TESSERA_TO_SHARED("3", "%3, %4, %5", "r"(a), "r"(b), "r"(c));
}
TESSERA_BULK void tensor_to_shared(void *target, const void *map, const void *bar, int a, int b,
                                   int c, int d) {
  TESSERA_TO_SHARED("4", "%3, %4, %5, %6", "r"(a), "r"(b), "r"(c), "r"(d));
}
TESSERA_BULK void tensor_to_shared(void *target, const void *map, const void *bar, int a, int b,
                                   int c, int d, int e) {
  TESSERA_TO_SHARED("5", "%3, %4, %5, %6, %7", "r"(a), "r"(b), "r"(c), "r"(d), "r"(e));
}
#undef TESSERA_TO_SHARED
#define TESSERA_TO_GLOBAL(dimensions, coordinates, ...)                                         \
  __asm__ __volatile__("cp.async.bulk.tensor." dimensions "d.global.shared::cta.bulk_group"     \
                       " [%0, {" coordinates "}], [%1];"                                        \
                       :: "l"(map), "r"(shared_address(source)), __VA_ARGS__ : "memory")
TESSERA_BULK void tensor_to_global(const void *map, const void *source, int a) {
  TESSERA_TO_GLOBAL("1", "%2", "r"(a));
}
TESSERA_BULK void tensor_to_global(const void *map, const void *source, int a, int b) {
  TESSERA_TO_GLOBAL("2", "%2, %3", "r"(a), "r"(b));
}
TESSERA_BULK void tensor_to_global(const void *map, const void *source, int a, int b, int c) {
  TESSERA_TO_GLOBAL("3", "%2, %3, %4", "r"(a), "r"(b), "r"(c));
}
TESSERA_BULK void tensor_to_global(const void *map, const void *source, int a, int b, int c,
                                   int d) {
  TESSERA_TO_GLOBAL("4", "%2, %3, %4, %5", "r"(a), "r"(b), "r"(c), "r"(d));
}
TESSERA_BULK void tensor_to_global(const void *map, const void *source, int a, int b, int c, int d,
                                   int e) {
  TESSERA_TO_GLOBAL("5", "%2, %3, %4, %5, %6", "r"(a), "r"(b), "r"(c), "r"(d), "r"(e));
}
#undef TESSERA_TO_GLOBAL
#endif
#undef TESSERA_BULK
}  // namespace tessera_bulk
#endif

#endif
