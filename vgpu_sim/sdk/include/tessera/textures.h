/* Fetches from texture objects: tex1D to texCubemapLayered (PTX ISA, tex and tld4). */
#ifndef TESSERA_TEXTURES_H
#define TESSERA_TEXTURES_H

/* The elements of the types that fetches return, and their number. */
template <class T>
struct tessera_texel;

#define TESSERA_ONE_TEXEL(type, element, number)   \
  template <>                                      \
  struct tessera_texel<type> {                     \
    typedef element member;                        \
    static const int count = number;               \
  };
#define TESSERA_TEXEL(prefix, element)     \
  TESSERA_ONE_TEXEL(element, element, 1)   \
  TESSERA_ONE_TEXEL(prefix##1, element, 1) \
  TESSERA_ONE_TEXEL(prefix##2, element, 2) \
  TESSERA_ONE_TEXEL(prefix##4, element, 4)
TESSERA_ONE_TEXEL(char, char, 1)
TESSERA_TEXEL(char, signed char)
TESSERA_TEXEL(uchar, unsigned char)
TESSERA_TEXEL(short, short)
TESSERA_TEXEL(ushort, unsigned short)
TESSERA_TEXEL(int, int)
TESSERA_TEXEL(uint, unsigned int)
TESSERA_TEXEL(float, float)
#undef TESSERA_TEXEL
#undef TESSERA_ONE_TEXEL

/* The registers in which PTX returns elements of a type: signed or unsigned integers, or floats. */
template <class E>
struct tessera_fetched;
#define TESSERA_FETCHED(element, quad) \
  template <>                          \
  struct tessera_fetched<element> {    \
    typedef quad type;                 \
  };
TESSERA_FETCHED(char, int4)
TESSERA_FETCHED(signed char, int4)
TESSERA_FETCHED(short, int4)
TESSERA_FETCHED(int, int4)
TESSERA_FETCHED(unsigned char, uint4)
TESSERA_FETCHED(unsigned short, uint4)
TESSERA_FETCHED(unsigned int, uint4)
TESSERA_FETCHED(float, float4)
#undef TESSERA_FETCHED

template <class T>
using tessera_quad = typename tessera_fetched<typename tessera_texel<T>::member>::type;

template <class T>
static inline __device__ T tessera_of_quad(const tessera_quad<T> &quad) {
  typedef typename tessera_texel<T>::member member;
  union {
    T texel;
    member elements[tessera_texel<T>::count];
  } to = {};
  to.elements[0] = (member)quad.x;
  if (tessera_texel<T>::count > 1) to.elements[1 % tessera_texel<T>::count] = (member)quad.y;
  if (tessera_texel<T>::count > 2) {
    to.elements[2 % tessera_texel<T>::count] = (member)quad.z;
    to.elements[3 % tessera_texel<T>::count] = (member)quad.w;
  }
  return to.texel;
}

#define TESSERA_LIST(...) __VA_ARGS__

/* One function of PTX for each kind of registers, and the two functions of CUDA C++. */
#define TESSERA_FETCH_AS(name, instruction, type, letter, quad, operands, parameters, inputs)     \
  static inline __device__ void tessera_##name(quad *to, cudaTextureObject_t texture, parameters) { \
    asm(instruction type operands                                                                 \
        : [a] "=" letter(to->x), [b] "=" letter(to->y), [c] "=" letter(to->z),                     \
          [d] "=" letter(to->w)                                                                   \
        : [t] "l"(texture), inputs);                                                              \
  }
#define TESSERA_FETCH(name, instruction, coordinate, operands, parameters, names, inputs)          \
  TESSERA_FETCH_AS(name, instruction, ".v4.s32." coordinate, "r", int4, operands,                  \
                   TESSERA_LIST(parameters), TESSERA_LIST(inputs))                                \
  TESSERA_FETCH_AS(name, instruction, ".v4.u32." coordinate, "r", uint4, operands,                 \
                   TESSERA_LIST(parameters), TESSERA_LIST(inputs))                                \
  TESSERA_FETCH_AS(name, instruction, ".v4.f32." coordinate, "f", float4, operands,                \
                   TESSERA_LIST(parameters), TESSERA_LIST(inputs))                                \
  template <class T>                                                                              \
  static inline __device__ T name(cudaTextureObject_t texture, parameters) {                      \
    tessera_quad<T> quad;                                                                         \
    tessera_##name(&quad, texture, names);                                                        \
    return tessera_of_quad<T>(quad);                                                              \
  }                                                                                               \
  template <class T>                                                                              \
  static inline __device__ void name(T *to, cudaTextureObject_t texture, parameters) {            \
    *to = name<T>(texture, names);                                                                \
  }                                                                                               \
  /* No texture is sparse. */                                                                     \
  template <class T>                                                                              \
  static inline __device__ T name(cudaTextureObject_t texture, parameters, bool *resident) {      \
    *resident = true;                                                                             \
    return name<T>(texture, names);                                                               \
  }

#define TESSERA_TO " {%[a], %[b], %[c], %[d]}, "
/* A form without a level, with a level, and with gradients. */
#define TESSERA_FETCHES(name, geometry, place, parameters, names, inputs, gradients, given)        \
  TESSERA_FETCH(name, "tex." geometry, "f32", TESSERA_TO "[%[t], " place "];",                     \
                TESSERA_LIST(parameters), TESSERA_LIST(names), TESSERA_LIST(inputs))              \
  TESSERA_FETCH(name##Lod, "tex.level." geometry, "f32",                                          \
                TESSERA_TO "[%[t], " place "], %[level];", TESSERA_LIST(parameters, float level),  \
                TESSERA_LIST(names, level), TESSERA_LIST(inputs, [level] "f"(level)))             \
  TESSERA_FETCH(name##Grad, "tex.grad." geometry, "f32",                                          \
                TESSERA_TO "[%[t], " place "], " gradients ";",                                   \
                TESSERA_LIST(parameters, given dx, given dy), TESSERA_LIST(names, dx, dy),        \
                TESSERA_LIST(inputs, TESSERA_GRADIENTS_##given))
#define TESSERA_GRADIENTS_float [dx] "f"(dx), [dy] "f"(dy)
#define TESSERA_GRADIENTS_float2 \
  [dx] "f"(dx.x), [ex] "f"(dx.y), [dy] "f"(dy.x), [ey] "f"(dy.y)
#define TESSERA_GRADIENTS_float4                                                        \
  [dx] "f"(dx.x), [ex] "f"(dx.y), [fx] "f"(dx.z), [dy] "f"(dy.x), [ey] "f"(dy.y), \
      [fy] "f"(dy.z)
#define TESSERA_X [x] "f"(x)
#define TESSERA_XY [x] "f"(x), [y] "f"(y)
#define TESSERA_XYZ [x] "f"(x), [y] "f"(y), [z] "f"(z)
#define TESSERA_LAYER [layer] "r"(layer)

TESSERA_FETCH(tex1Dfetch, "tex.1d", "s32", TESSERA_TO "[%[t], {%[x]}];", int x, x, [x] "r"(x))
TESSERA_FETCHES(tex1D, "1d", "{%[x]}", float x, x, TESSERA_X, "{%[dx]}, {%[dy]}", float)
TESSERA_FETCHES(tex2D, "2d", "{%[x], %[y]}", TESSERA_LIST(float x, float y), TESSERA_LIST(x, y),
                TESSERA_LIST(TESSERA_XY), "{%[dx], %[ex]}, {%[dy], %[ey]}", float2)
TESSERA_FETCHES(tex3D, "3d", "{%[x], %[y], %[z], %[z]}", TESSERA_LIST(float x, float y, float z),
                TESSERA_LIST(x, y, z), TESSERA_LIST(TESSERA_XYZ),
                "{%[dx], %[ex], %[fx], %[fx]}, {%[dy], %[ey], %[fy], %[fy]}", float4)
TESSERA_FETCHES(tex1DLayered, "a1d", "{%[layer], %[x]}", TESSERA_LIST(float x, int layer),
                TESSERA_LIST(x, layer), TESSERA_LIST(TESSERA_X, TESSERA_LAYER), "{%[dx]}, {%[dy]}",
                float)
TESSERA_FETCHES(tex2DLayered, "a2d", "{%[layer], %[x], %[y], %[y]}",
                TESSERA_LIST(float x, float y, int layer), TESSERA_LIST(x, y, layer),
                TESSERA_LIST(TESSERA_XY, TESSERA_LAYER), "{%[dx], %[ex]}, {%[dy], %[ey]}", float2)
TESSERA_FETCHES(texCubemap, "cube", "{%[x], %[y], %[z], %[z]}",
                TESSERA_LIST(float x, float y, float z), TESSERA_LIST(x, y, z),
                TESSERA_LIST(TESSERA_XYZ),
                "{%[dx], %[ex], %[fx], %[fx]}, {%[dy], %[ey], %[fy], %[fy]}", float4)
TESSERA_FETCHES(texCubemapLayered, "acube", "{%[layer], %[x], %[y], %[z]}",
                TESSERA_LIST(float x, float y, float z, int layer), TESSERA_LIST(x, y, z, layer),
                TESSERA_LIST(TESSERA_XYZ, TESSERA_LAYER),
                "{%[dx], %[ex], %[fx], %[fx]}, {%[dy], %[ey], %[fy], %[fy]}", float4)

/* One channel of the four texels that a linear filter would use. */
#define TESSERA_GATHER(channel, number)                                                         \
  TESSERA_FETCH(tessera_gather##number, "tld4." channel ".2d", "f32",                           \
                TESSERA_TO "[%[t], {%[x], %[y]}];", TESSERA_LIST(float x, float y),             \
                TESSERA_LIST(x, y), TESSERA_LIST(TESSERA_XY))
TESSERA_GATHER("r", 0)
TESSERA_GATHER("g", 1)
TESSERA_GATHER("b", 2)
TESSERA_GATHER("a", 3)
template <class T>
static inline __device__ T tex2Dgather(cudaTextureObject_t texture, float x, float y,
                                       int channel = 0) {
  switch (channel) {
    case 1:
      return tessera_gather1<T>(texture, x, y);
    case 2:
      return tessera_gather2<T>(texture, x, y);
    case 3:
      return tessera_gather3<T>(texture, x, y);
    default:
      return tessera_gather0<T>(texture, x, y);
  }
}
template <class T>
static inline __device__ void tex2Dgather(T *to, cudaTextureObject_t texture, float x, float y,
                                          int channel = 0) {
  *to = tex2Dgather<T>(texture, x, y, channel);
}

#undef TESSERA_GATHER
#undef TESSERA_LAYER
#undef TESSERA_XYZ
#undef TESSERA_XY
#undef TESSERA_X
#undef TESSERA_GRADIENTS_float4
#undef TESSERA_GRADIENTS_float2
#undef TESSERA_GRADIENTS_float
#undef TESSERA_FETCHES
#undef TESSERA_TO
#undef TESSERA_FETCH
#undef TESSERA_FETCH_AS
#undef TESSERA_LIST

#endif
