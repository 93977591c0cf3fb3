/* Conversions of threadIdx, blockIdx, blockDim and gridDim, which clang declares and leaves to the
 * header that defines dim3 and uint3. */
#ifndef TESSERA_VARIABLES_H
#define TESSERA_VARIABLES_H

#define TESSERA_CONVERSIONS(variable)                                         \
  __device__ inline __cuda_builtin_##variable##_t::operator dim3() const {    \
    return dim3(x, y, z);                                                     \
  }                                                                           \
  __device__ inline __cuda_builtin_##variable##_t::operator uint3() const {   \
    return uint3{x, y, z};                                                    \
  }
TESSERA_CONVERSIONS(threadIdx)
TESSERA_CONVERSIONS(blockIdx)
TESSERA_CONVERSIONS(blockDim)
TESSERA_CONVERSIONS(gridDim)
#undef TESSERA_CONVERSIONS

#endif
