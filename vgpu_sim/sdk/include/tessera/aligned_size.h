/* A number of bytes that is also a promise: pointers and size are multiples of `Alignment`. */
#ifndef TESSERA_ALIGNED_SIZE_H
#define TESSERA_ALIGNED_SIZE_H

#include <cuda_runtime.h>

namespace cuda {

template <size_t Alignment>
struct aligned_size_t {
  static constexpr size_t align = Alignment;
  size_t value;
  __host__ __device__ constexpr explicit aligned_size_t(size_t bytes) : value(bytes) {}
  __host__ __device__ constexpr operator size_t() const { return value; }
};

#if defined(__CUDA__)
namespace tessera_copies {
template <class Word>
static __device__ __forceinline__ void words(void *target, const void *source, size_t bytes,
                                             size_t first, size_t step) {
  const size_t whole = bytes / sizeof(Word);
  for (size_t i = first; i < whole; i += step) ((Word *)target)[i] = ((const Word *)source)[i];
  /* The type of the elements promises an alignment, and nothing about the size. */
  for (size_t i = whole * sizeof(Word) + first; i < bytes; i += step) {
    ((unsigned char *)target)[i] = ((const unsigned char *)source)[i];
  }
}
/* Copies what thread `first` of `step` threads has to copy, in the largest words allowed. */
template <size_t Alignment>
static __device__ __forceinline__ void copy(void *target, const void *source, size_t bytes,
                                            size_t first = 0, size_t step = 1) {
  if constexpr (Alignment % 16 == 0) words<uint4>(target, source, bytes, first, step);
  else if constexpr (Alignment % 8 == 0) words<uint2>(target, source, bytes, first, step);
  else if constexpr (Alignment % 4 == 0) words<unsigned int>(target, source, bytes, first, step);
  else words<unsigned char>(target, source, bytes, first, step);
}
template <class T>
static __device__ __forceinline__ void copy_shape(T *target, const T *source, size_t bytes,
                                                  size_t first = 0, size_t step = 1) {
  copy<alignof(T)>(target, source, bytes, first, step);
}
template <class T, size_t Alignment>
static __device__ __forceinline__ void copy_shape(T *target, const T *source,
                                                  aligned_size_t<Alignment> bytes, size_t first = 0,
                                                  size_t step = 1) {
  copy<Alignment>(target, source, bytes.value, first, step);
}
}  // namespace tessera_copies
#endif

}  // namespace cuda

#endif
