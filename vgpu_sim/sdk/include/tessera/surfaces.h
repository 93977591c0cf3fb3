/* Loads from and stores to surface objects: surf1Dread to surfCubemapLayeredwrite (PTX ISA, suld
 * and sust). The coordinate x is in bytes. */
#ifndef TESSERA_SURFACES_H
#define TESSERA_SURFACES_H

#include "tessera/texels.h"

#define TESSERA_LIST(...) __VA_ARGS__

/* Texels as words of a size and number, which one instruction loads or stores. */
template <int bytes, int count>
struct tessera_words;
#define TESSERA_WORDS(bytes, count, word)  \
  template <>                              \
  struct tessera_words<bytes, count> {     \
    word w[count];                         \
  };
TESSERA_WORDS(1, 1, unsigned char)
TESSERA_WORDS(1, 2, unsigned char)
TESSERA_WORDS(1, 4, unsigned char)
TESSERA_WORDS(2, 1, unsigned short)
TESSERA_WORDS(2, 2, unsigned short)
TESSERA_WORDS(2, 4, unsigned short)
TESSERA_WORDS(4, 1, unsigned int)
TESSERA_WORDS(4, 2, unsigned int)
TESSERA_WORDS(4, 4, unsigned int)
TESSERA_WORDS(8, 1, unsigned long long)
TESSERA_WORDS(8, 2, unsigned long long)
#undef TESSERA_WORDS

template <class T>
using tessera_words_of =
    tessera_words<sizeof(typename tessera_texel<T>::member), tessera_texel<T>::count>;

#define TESSERA_ACCESS(name, geometry, place, bytes, count, width, letter, half, parameters,      \
                       inputs, to, from, outputs, given)                                          \
  static inline __device__ void tessera_##name##read(tessera_words<bytes, count> *words,          \
                                                     cudaSurfaceObject_t surface, parameters,     \
                                                     cudaSurfaceBoundaryMode mode) {              \
    half r[count];                                                                                \
    if (mode == cudaBoundaryModeZero)                                                             \
      asm volatile("suld.b." geometry to width ".zero " from ", [%[s], " place "];"               \
                   : outputs                                                                      \
                   : [s] "l"(surface), inputs                                                     \
                   : "memory");                                                                   \
    else if (mode == cudaBoundaryModeClamp)                                                       \
      asm volatile("suld.b." geometry to width ".clamp " from ", [%[s], " place "];"              \
                   : outputs                                                                      \
                   : [s] "l"(surface), inputs                                                     \
                   : "memory");                                                                   \
    else                                                                                          \
      asm volatile("suld.b." geometry to width ".trap " from ", [%[s], " place "];"               \
                   : outputs                                                                      \
                   : [s] "l"(surface), inputs                                                     \
                   : "memory");                                                                   \
    for (int n = 0; n < count; n++) words->w[n] = r[n];                                           \
  }                                                                                               \
  static inline __device__ void tessera_##name##write(const tessera_words<bytes, count> &words,   \
                                                      cudaSurfaceObject_t surface, parameters,    \
                                                      cudaSurfaceBoundaryMode mode) {             \
    half r[count];                                                                                \
    for (int n = 0; n < count; n++) r[n] = words.w[n];                                            \
    if (mode == cudaBoundaryModeZero)                                                             \
      asm volatile("sust.b." geometry to width ".zero [%[s], " place "], " from ";"               \
                   :                                                                              \
                   : [s] "l"(surface), given, inputs                                              \
                   : "memory");                                                                   \
    else if (mode == cudaBoundaryModeClamp)                                                       \
      asm volatile("sust.b." geometry to width ".clamp [%[s], " place "], " from ";"              \
                   :                                                                              \
                   : [s] "l"(surface), given, inputs                                              \
                   : "memory");                                                                   \
    else                                                                                          \
      asm volatile("sust.b." geometry to width ".trap [%[s], " place "], " from ";"               \
                   :                                                                              \
                   : [s] "l"(surface), given, inputs                                              \
                   : "memory");                                                                   \
  }
#define TESSERA_ONE(name, geometry, place, bytes, width, letter, half, parameters, inputs)        \
  TESSERA_ACCESS(name, geometry, place, bytes, 1, width, letter, half, TESSERA_LIST(parameters),  \
                 TESSERA_LIST(inputs), "", "%[a]", [a] "=" letter(r[0]), [a] letter(r[0]))
#define TESSERA_TWO(name, geometry, place, bytes, width, letter, half, parameters, inputs)        \
  TESSERA_ACCESS(name, geometry, place, bytes, 2, width, letter, half, TESSERA_LIST(parameters),  \
                 TESSERA_LIST(inputs), ".v2", "{%[a], %[b]}",                                     \
                 TESSERA_LIST([a] "=" letter(r[0]), [b] "=" letter(r[1])),                        \
                 TESSERA_LIST([a] letter(r[0]), [b] letter(r[1])))
#define TESSERA_FOUR(name, geometry, place, bytes, width, letter, half, parameters, inputs)       \
  TESSERA_ACCESS(name, geometry, place, bytes, 4, width, letter, half, TESSERA_LIST(parameters),  \
                 TESSERA_LIST(inputs), ".v4", "{%[a], %[b], %[c], %[d]}",                         \
                 TESSERA_LIST([a] "=" letter(r[0]), [b] "=" letter(r[1]), [c] "=" letter(r[2]),   \
                              [d] "=" letter(r[3])),                                              \
                 TESSERA_LIST([a] letter(r[0]), [b] letter(r[1]), [c] letter(r[2]),               \
                              [d] letter(r[3])))
#define TESSERA_SIZE(each, name, geometry, place, parameters, inputs, ...)                        \
  each(name, geometry, place, __VA_ARGS__, TESSERA_LIST(parameters), TESSERA_LIST(inputs))
#define TESSERA_SIZES(name, geometry, place, parameters, inputs, ...)                             \
  TESSERA_SIZE(TESSERA_ONE, name, geometry, place, TESSERA_LIST(parameters),                      \
               TESSERA_LIST(inputs), __VA_ARGS__)                                                 \
  TESSERA_SIZE(TESSERA_TWO, name, geometry, place, TESSERA_LIST(parameters),                      \
               TESSERA_LIST(inputs), __VA_ARGS__)

#define TESSERA_SURFACE(name, geometry, place, parameters, names, inputs)                         \
  TESSERA_SIZES(name, geometry, place, TESSERA_LIST(parameters), TESSERA_LIST(inputs), 1, ".b8",  \
                "h", unsigned short)                                                              \
  TESSERA_SIZE(TESSERA_FOUR, name, geometry, place, TESSERA_LIST(parameters),                     \
               TESSERA_LIST(inputs), 1, ".b8", "h", unsigned short)                               \
  TESSERA_SIZES(name, geometry, place, TESSERA_LIST(parameters), TESSERA_LIST(inputs), 2, ".b16", \
                "h", unsigned short)                                                              \
  TESSERA_SIZE(TESSERA_FOUR, name, geometry, place, TESSERA_LIST(parameters),                     \
               TESSERA_LIST(inputs), 2, ".b16", "h", unsigned short)                              \
  TESSERA_SIZES(name, geometry, place, TESSERA_LIST(parameters), TESSERA_LIST(inputs), 4, ".b32", \
                "r", unsigned int)                                                                \
  TESSERA_SIZE(TESSERA_FOUR, name, geometry, place, TESSERA_LIST(parameters),                     \
               TESSERA_LIST(inputs), 4, ".b32", "r", unsigned int)                                \
  TESSERA_SIZES(name, geometry, place, TESSERA_LIST(parameters), TESSERA_LIST(inputs), 8, ".b64", \
                "l", unsigned long long)                                                          \
  template <class T>                                                                              \
  static inline __device__ T name##read(cudaSurfaceObject_t surface, parameters,                  \
                                        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {    \
    tessera_words_of<T> words;                                                                    \
    tessera_##name##read(&words, surface, names, mode);                                           \
    T texel;                                                                                      \
    __builtin_memcpy(&texel, &words, sizeof texel);                                               \
    return texel;                                                                                 \
  }                                                                                               \
  template <class T>                                                                              \
  static inline __device__ void name##read(T *to, cudaSurfaceObject_t surface, parameters,        \
                                           cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { \
    *to = name##read<T>(surface, names, mode);                                                    \
  }                                                                                               \
  template <class T>                                                                              \
  static inline __device__ void name##write(                                                      \
      T texel, cudaSurfaceObject_t surface, parameters,                                           \
      cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                                      \
    tessera_words_of<T> words;                                                                    \
    __builtin_memcpy(&words, &texel, sizeof texel);                                               \
    tessera_##name##write(words, surface, names, mode);                                           \
  }

TESSERA_SURFACE(surf1D, "1d", "{%[x]}", int x, x, [x] "r"(x))
TESSERA_SURFACE(surf2D, "2d", "{%[x], %[y]}", TESSERA_LIST(int x, int y), TESSERA_LIST(x, y),
                TESSERA_LIST([x] "r"(x), [y] "r"(y)))
TESSERA_SURFACE(surf3D, "3d", "{%[x], %[y], %[z], %[z]}", TESSERA_LIST(int x, int y, int z),
                TESSERA_LIST(x, y, z), TESSERA_LIST([x] "r"(x), [y] "r"(y), [z] "r"(z)))
TESSERA_SURFACE(surf1DLayered, "a1d", "{%[l], %[x]}", TESSERA_LIST(int x, int layer),
                TESSERA_LIST(x, layer), TESSERA_LIST([x] "r"(x), [l] "r"(layer)))
TESSERA_SURFACE(surf2DLayered, "a2d", "{%[l], %[x], %[y], %[y]}",
                TESSERA_LIST(int x, int y, int layer), TESSERA_LIST(x, y, layer),
                TESSERA_LIST([x] "r"(x), [y] "r"(y), [l] "r"(layer)))
TESSERA_SURFACE(surfCubemap, "a2d", "{%[l], %[x], %[y], %[y]}",
                TESSERA_LIST(int x, int y, int face), TESSERA_LIST(x, y, face),
                TESSERA_LIST([x] "r"(x), [y] "r"(y), [l] "r"(face)))
TESSERA_SURFACE(surfCubemapLayered, "a2d", "{%[l], %[x], %[y], %[y]}",
                TESSERA_LIST(int x, int y, int layer), TESSERA_LIST(x, y, layer),
                TESSERA_LIST([x] "r"(x), [y] "r"(y), [l] "r"(layer)))

#undef TESSERA_SURFACE
#undef TESSERA_SIZES
#undef TESSERA_SIZE
#undef TESSERA_FOUR
#undef TESSERA_TWO
#undef TESSERA_ONE
#undef TESSERA_ACCESS
#undef TESSERA_LIST

#endif
