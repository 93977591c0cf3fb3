/* How textures are sampled: CUDA Driver API, "CUDA_TEXTURE_DESC". */
#include <math.h>
#include <string.h>

#include "textures/descriptor.h"

enum {
  KNOWN_FLAGS = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP,
  MAX_ANISOTROPY = 16,
};

/* How many coordinates have an address mode; none in linear memory. */
static int dimensions_of(enum tsr_shape_kind shape) {
  switch (shape) {
    case TSR_SHAPE_LINEAR:
      return 0;
    case TSR_SHAPE_1D:
    case TSR_SHAPE_1D_LAYERED:
      return 1;
    case TSR_SHAPE_3D:
      return 3;
    default:
      return 2;
  }
}

/* Without normalized coordinates, wrapping and mirroring are clamping (CUDA Runtime API,
 * cudaCreateTextureObject). */
static bool put_address_modes(const CUDA_TEXTURE_DESC *texture, struct tsr_descriptor *descriptor) {
  const int dimensions = dimensions_of((enum tsr_shape_kind)descriptor->shape);
  for (int i = 0; i < 3; i++) {
    CUaddress_mode mode = i < dimensions ? texture->addressMode[i] : CU_TR_ADDRESS_MODE_CLAMP;
    if ((unsigned)mode > CU_TR_ADDRESS_MODE_BORDER) return false;
    if (!descriptor->normalized && mode != CU_TR_ADDRESS_MODE_BORDER)
      mode = CU_TR_ADDRESS_MODE_CLAMP;
    descriptor->address_modes[i] = (uint8_t)mode;
  }
  return true;
}

static bool is_float(const struct tsr_descriptor *descriptor) {
  return descriptor->format == TSR_FORMAT_F16 || descriptor->format == TSR_FORMAT_F32;
}

static bool returns_floats(const struct tsr_descriptor *descriptor) {
  return is_float(descriptor) ||
         (!descriptor->as_integer &&
          !tsr_format_is_wide_integer((enum tsr_format)descriptor->format));
}

/* Filters interpolate, so they need values that are returned as floats. */
static bool put_filters(const CUDA_TEXTURE_DESC *texture, struct tsr_descriptor *descriptor) {
  if (descriptor->shape == TSR_SHAPE_LINEAR) return true; /* ignored */
  if ((unsigned)texture->filterMode > CU_TR_FILTER_MODE_LINEAR ||
      (unsigned)texture->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
    return false;
  descriptor->filter = (uint8_t)texture->filterMode;
  if (descriptor->levels > 1) descriptor->mipmap_filter = (uint8_t)texture->mipmapFilterMode;
  return (!descriptor->filter && !descriptor->mipmap_filter) || returns_floats(descriptor);
}

/* The nearest binary16 number, at most the greatest finite one. */
static float round_to_half(float value) {
  const float greatest = 65504.0F, least_normal = 0x1p-14F, step = 0x1p-24F;
  if (isnan(value)) return value;
  if (fabsf(value) >= greatest) return copysignf(greatest, value);
  if (fabsf(value) < least_normal) {
    const float whole = 0x1p23F; /* sums with it are rounded to integers, ties to even */
    return copysignf((fabsf(value) / step + whole - whole) * step, value);
  }
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFU;
  memcpy(&value, &bits, sizeof(bits));
  return value;
}

static float clamp(float value, float least) {
  return value >= 1.0F ? 1.0F : value > least ? value : least;
}

/* An H100 keeps the border colour in the format of the texture's elements (docs/silicon.md). */
static float convert_border(const struct tsr_descriptor *descriptor, float value) {
  const enum tsr_format format = (enum tsr_format)descriptor->format;
  const bool is_signed = format == TSR_FORMAT_S8 || format == TSR_FORMAT_S16;
  if (format == TSR_FORMAT_F16) return round_to_half(value);
  if (format == TSR_FORMAT_F32 || tsr_format_is_wide_integer(format)) return value;
  if (!descriptor->as_integer) return clamp(value, is_signed ? -1.0F : 0.0F);
  const bool is_byte = format == TSR_FORMAT_U8 || format == TSR_FORMAT_S8;
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  bits &= is_byte ? 0xFFU : 0xFFFFU;
  const uint32_t sign = is_byte ? 0x80U : 0x8000U;
  if (is_signed) bits = (bits ^ sign) - sign;
  memcpy(&value, &bits, sizeof(bits));
  return value;
}

CUresult tsr_describe_sampling(const CUDA_TEXTURE_DESC *texture,
                               struct tsr_descriptor *descriptor) {
  const unsigned flags = texture->flags;
  if (flags & ~(unsigned)KNOWN_FLAGS) return CUDA_ERROR_INVALID_VALUE;
  descriptor->as_integer = (flags & CU_TRSF_READ_AS_INTEGER) != 0 && !is_float(descriptor);
  descriptor->normalized = (flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  descriptor->srgb = (flags & CU_TRSF_SRGB) != 0;
  descriptor->no_trilinear = (flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
  descriptor->seamless = (flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  if (descriptor->seamless && descriptor->shape != TSR_SHAPE_CUBE &&
      descriptor->shape != TSR_SHAPE_CUBE_LAYERED)
    return CUDA_ERROR_INVALID_VALUE;
  if (descriptor->srgb && descriptor->format != TSR_FORMAT_U8) return CUDA_ERROR_INVALID_VALUE;
  if (!put_address_modes(texture, descriptor) || !put_filters(texture, descriptor))
    return CUDA_ERROR_INVALID_VALUE;
  const unsigned samples = texture->maxAnisotropy;
  descriptor->anisotropy =
      (uint8_t)(samples < 1 ? 1 : samples > MAX_ANISOTROPY ? MAX_ANISOTROPY : samples);
  if (isnan(texture->mipmapLevelBias) || isnan(texture->minMipmapLevelClamp) ||
      isnan(texture->maxMipmapLevelClamp))
    return CUDA_ERROR_INVALID_VALUE;
  descriptor->bias = texture->mipmapLevelBias;
  descriptor->least_level = texture->minMipmapLevelClamp;
  descriptor->greatest_level = texture->maxMipmapLevelClamp;
  for (int i = 0; i < 4; i++) 
    descriptor->border[i] = convert_border(descriptor, texture->borderColor[i]);
  return CUDA_SUCCESS;
}
