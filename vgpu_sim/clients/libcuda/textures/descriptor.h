/* Descriptors of textures and surfaces: what kernels read in device memory. The layout is that of
 * compiler/lower/textures/layout.py; kernels trust none of its fields. */
#ifndef TSR_DESCRIPTOR_H
#define TSR_DESCRIPTOR_H

#include "arrays/array.h"

enum tsr_descriptor_kind { TSR_DESCRIPTOR_TEXTURE = 1, TSR_DESCRIPTOR_SURFACE = 2 };

struct tsr_descriptor_level {
  uint64_t address;
  uint32_t width, height, depth;
  uint32_t row_bytes;
  uint64_t slice_bytes;
};

struct tsr_descriptor {
  uint8_t kind, shape, format, channels;
  uint8_t address_modes[3];
  uint8_t filter, mipmap_filter;
  uint8_t normalized, as_integer, srgb;
  uint8_t levels, anisotropy, seamless, no_trilinear;
  float bias, least_level, greatest_level;
  uint32_t layers;
  float border[4];
  uint8_t zeros[16];
  struct tsr_descriptor_level level[TSR_MAX_LEVELS];
};

/* Describe a resource of a context. Only mipmapped arrays have several levels. */
CUresult tsr_describe_texture_resource(const struct tsr_context *context,
                                       const CUDA_RESOURCE_DESC *resource,
                                       struct tsr_descriptor *descriptor);
CUresult tsr_describe_surface_resource(const struct tsr_context *context,
                                       const CUDA_RESOURCE_DESC *resource,
                                       struct tsr_descriptor *descriptor);

/* Narrow a described resource to a view. */
CUresult tsr_describe_view(const CUDA_RESOURCE_VIEW_DESC *view, struct tsr_descriptor *descriptor);

/* Add how a texture is sampled, once its resource and view are described. */
CUresult tsr_describe_sampling(const CUDA_TEXTURE_DESC *texture, struct tsr_descriptor *descriptor);

#endif
