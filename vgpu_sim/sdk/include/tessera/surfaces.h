/* Loads and stores through surface objects: CUDA C++ Programming Guide, "Surface Functions". An x is
 * in bytes. */
#ifndef TESSERA_SURFACES_H
#define TESSERA_SURFACES_H

#define TESSERA_EACH(...) __VA_ARGS__

/* A word is kept in a register of its size; `pattern` lists the registers. */
#define TESSERA_LOAD(geometry, kind, mode, pattern, at, out, ...)                               \
  __asm__ __volatile__("suld.b." geometry "." kind "." mode " " pattern ", [%[surface], " at "];" \
                       : TESSERA_EACH out                                                        \
                       : [surface] "l"(surface), __VA_ARGS__                                     \
                       : "memory")
#define TESSERA_STORE(geometry, kind, mode, pattern, at, in, ...)                               \
  __asm__ __volatile__("sust.b." geometry "." kind "." mode " [%[surface], " at "], " pattern ";" \
                       :                                                                         \
                       : TESSERA_EACH in, [surface] "l"(surface), __VA_ARGS__                    \
                       : "memory")

#define TESSERA_LOADS(geometry, mode, at, ...)                                                  \
  if (bytes == 1) TESSERA_LOAD(geometry, "b8", mode, "%0", at, ("=h"(half)), __VA_ARGS__);       \
  if (bytes == 2) TESSERA_LOAD(geometry, "b16", mode, "%0", at, ("=h"(half)), __VA_ARGS__);      \
  if (bytes == 4) TESSERA_LOAD(geometry, "b32", mode, "%0", at, ("=r"(w[0])), __VA_ARGS__);      \
  if (bytes == 8)                                                                                \
    TESSERA_LOAD(geometry, "v2.b32", mode, "{%0, %1}", at, ("=r"(w[0]), "=r"(w[1])),             \
                 __VA_ARGS__);                                                                   \
  if (bytes == 16)                                                                               \
    TESSERA_LOAD(geometry, "v4.b32", mode, "{%0, %1, %2, %3}", at,                               \
                 ("=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])), __VA_ARGS__);
#define TESSERA_STORES(geometry, mode, at, ...)                                                 \
  if (bytes == 1) TESSERA_STORE(geometry, "b8", mode, "%0", at, ("h"(half)), __VA_ARGS__);       \
  if (bytes == 2) TESSERA_STORE(geometry, "b16", mode, "%0", at, ("h"(half)), __VA_ARGS__);      \
  if (bytes == 4) TESSERA_STORE(geometry, "b32", mode, "%0", at, ("r"(w[0])), __VA_ARGS__);      \
  if (bytes == 8)                                                                                \
    TESSERA_STORE(geometry, "v2.b32", mode, "{%0, %1}", at, ("r"(w[0]), "r"(w[1])), __VA_ARGS__); \
  if (bytes == 16)                                                                               \
    TESSERA_STORE(geometry, "v4.b32", mode, "{%0, %1, %2, %3}", at,                              \
                  ("r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])), __VA_ARGS__);

/* The functions of CUDA; `mode` says what an access outside of the surface does. */
#define TESSERA_SURFACE(name, parameters, arguments, geometry, at, ...)                         \
  template <class T>                                                                             \
  static __device__ inline T name##read(cudaSurfaceObject_t surface, TESSERA_EACH parameters,    \
                                        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {   \
    enum { bytes = sizeof(T) };                                                                  \
    static_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16, "");      \
    unsigned short half = 0;                                                                     \
    unsigned int w[4] = {0, 0, 0, 0};                                                            \
    if (mode == cudaBoundaryModeZero) {                                                          \
      TESSERA_LOADS(geometry, "zero", at, __VA_ARGS__)                                           \
    } else if (mode == cudaBoundaryModeClamp) {                                                  \
      TESSERA_LOADS(geometry, "clamp", at, __VA_ARGS__)                                          \
    } else {                                                                                     \
      TESSERA_LOADS(geometry, "trap", at, __VA_ARGS__)                                           \
    }                                                                                            \
    T made;                                                                                      \
    __builtin_memcpy(&made, bytes < 4 ? (const void *)&half : (const void *)w, bytes);           \
    return made;                                                                                 \
  }                                                                                              \
  template <class T>                                                                             \
  static __device__ inline void name##read(T *out, cudaSurfaceObject_t surface,                  \
                                           TESSERA_EACH parameters,                              \
                                           cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { \
    *out = name##read<T>(surface, TESSERA_EACH arguments, mode);                                 \
  }                                                                                              \
  template <class T>                                                                             \
  static __device__ inline void name##write(T data, cudaSurfaceObject_t surface,                 \
                                            TESSERA_EACH parameters,                             \
                                            cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { \
    enum { bytes = sizeof(T) };                                                                  \
    static_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16, "");      \
    unsigned short half = 0;                                                                     \
    unsigned int w[4] = {0, 0, 0, 0};                                                            \
    __builtin_memcpy(bytes < 4 ? (void *)&half : (void *)w, &data, bytes);                       \
    if (mode == cudaBoundaryModeZero) {                                                          \
      TESSERA_STORES(geometry, "zero", at, __VA_ARGS__)                                          \
    } else if (mode == cudaBoundaryModeClamp) {                                                  \
      TESSERA_STORES(geometry, "clamp", at, __VA_ARGS__)                                         \
    } else {                                                                                     \
      TESSERA_STORES(geometry, "trap", at, __VA_ARGS__)                                          \
    }                                                                                            \
  }

TESSERA_SURFACE(surf1D, (int x), (x), "1d", "{%[x]}", [x] "r"(x))
TESSERA_SURFACE(surf2D, (int x, int y), (x, y), "2d", "{%[x], %[y]}", [x] "r"(x), [y] "r"(y))
TESSERA_SURFACE(surf3D, (int x, int y, int z), (x, y, z), "3d", "{%[x], %[y], %[z], %[z]}",
                [x] "r"(x), [y] "r"(y), [z] "r"(z))
TESSERA_SURFACE(surf1DLayered, (int x, int layer), (x, layer), "a1d", "{%[layer], %[x]}",
                [layer] "r"(layer), [x] "r"(x))
TESSERA_SURFACE(surf2DLayered, (int x, int y, int layer), (x, y, layer), "a2d",
                "{%[layer], %[x], %[y], %[y]}", [layer] "r"(layer), [x] "r"(x), [y] "r"(y))
TESSERA_SURFACE(surfCubemap, (int x, int y, int face), (x, y, face), "a2d",
                "{%[face], %[x], %[y], %[y]}", [face] "r"(face), [x] "r"(x), [y] "r"(y))
TESSERA_SURFACE(surfCubemapLayered, (int x, int y, int face), (x, y, face), "a2d",
                "{%[face], %[x], %[y], %[y]}", [face] "r"(face), [x] "r"(x), [y] "r"(y))

#undef TESSERA_SURFACE
#undef TESSERA_STORES
#undef TESSERA_LOADS
#undef TESSERA_STORE
#undef TESSERA_LOAD
#undef TESSERA_EACH

#endif
