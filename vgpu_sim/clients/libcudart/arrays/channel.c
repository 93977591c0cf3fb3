#include "arrays/channel.h"

#include "api.h"

enum { cudaErrorInvalidChannelDescriptor = 20 };

/* The driver's numbers. */
enum { UNSIGNED_8 = 0x01, SIGNED_8 = 0x08, HALF = 0x10, FLOAT = 0x20, NV12 = 0xb0 };

/* Return 0, 1 or 2 for 8, 16 or 32 bits. */
static int width_of(int bits) { return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : -1; }

cudaError_t tsr_format_of(const struct cudaChannelFormatDesc *channels, int *format,
                          unsigned int *count) {
  const int bits[4] = {channels->x, channels->y, channels->z, channels->w};
  unsigned int used = 0;
  while (used < 4 && bits[used]) used++;
  for (unsigned int i = 0; i < 4; i++)
    if (bits[i] != (i < used ? bits[0] : 0)) return cudaErrorInvalidChannelDescriptor;
  *count = used;
  if (channels->f > cudaChannelFormatKindNone &&
      channels->f <= cudaChannelFormatKindUnsignedNormalized1010102) {
    *format = NV12; /* the driver refuses it, as it would the others, and names why */
    return cudaSuccess;
  }
  const int width = width_of(bits[0]);
  if (width < 0) return cudaErrorInvalidChannelDescriptor;
  switch (channels->f) {
    case cudaChannelFormatKindUnsigned:
      *format = UNSIGNED_8 + width;
      return cudaSuccess;
    case cudaChannelFormatKindSigned:
      *format = SIGNED_8 + width;
      return cudaSuccess;
    case cudaChannelFormatKindFloat:
      *format = width == 1 ? HALF : FLOAT;
      return width == 0 ? cudaErrorInvalidChannelDescriptor : cudaSuccess;
    default:
      return cudaErrorInvalidChannelDescriptor;
  }
}

struct cudaChannelFormatDesc tsr_channels_of(int format, unsigned int count) {
  int bits = 32, kind = cudaChannelFormatKindFloat;
  if (format == HALF) bits = 16;
  if (format < SIGNED_8) {
    kind = cudaChannelFormatKindUnsigned;
    bits = 8 << (format - UNSIGNED_8);
  } else if (format < HALF) {
    kind = cudaChannelFormatKindSigned;
    bits = 8 << (format - SIGNED_8);
  }
  return (struct cudaChannelFormatDesc){bits, count > 1 ? bits : 0, count > 2 ? bits : 0,
                                        count > 3 ? bits : 0, kind};
}

struct cudaChannelFormatDesc tsr_cudaCreateChannelDesc(int x, int y, int z, int w, int f) {
  return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
