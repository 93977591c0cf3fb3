/* Functions that no supported GPU has: using one is an error when compiling, which names the
 * function to use instead. */
#ifndef TESSERA_REMOVED_H
#define TESSERA_REMOVED_H

#define TESSERA_REMOVED(name)                                                                   \
  template <class... T>                                                                         \
  __attribute__((unavailable("compute capability 7.0 and later have no " #name "; use " #name   \
                             "_sync, whose first argument is the mask of lanes")))              \
  __host__ __device__ int name(T...);
TESSERA_REMOVED(__shfl)
TESSERA_REMOVED(__shfl_up)
TESSERA_REMOVED(__shfl_down)
TESSERA_REMOVED(__shfl_xor)
#undef TESSERA_REMOVED

#endif
