/* The types that textures and surfaces return, as elements and their number. */
#ifndef TESSERA_TEXELS_H
#define TESSERA_TEXELS_H

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
TESSERA_ONE_TEXEL(long long, long long, 1)
TESSERA_ONE_TEXEL(longlong1, long long, 1)
TESSERA_ONE_TEXEL(longlong2, long long, 2)
TESSERA_ONE_TEXEL(unsigned long long, unsigned long long, 1)
TESSERA_ONE_TEXEL(ulonglong1, unsigned long long, 1)
TESSERA_ONE_TEXEL(ulonglong2, unsigned long long, 2)
TESSERA_ONE_TEXEL(double, double, 1)
TESSERA_ONE_TEXEL(double1, double, 1)
TESSERA_ONE_TEXEL(double2, double, 2)
#undef TESSERA_TEXEL
#undef TESSERA_ONE_TEXEL

#endif
