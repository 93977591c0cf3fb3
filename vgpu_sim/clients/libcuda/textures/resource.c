/* The resources of textures and surfaces, and views of them. */
#include "base/refuse.h"
#include "base/device.h"
#include "copies/copy.h"
#include "textures/descriptor.h"

enum {
  TEXTURE_ALIGNMENT = 14,
  TEXTURE_PITCH_ALIGNMENT = 51,
  LINEAR_1D_WIDTH = 69,
  LINEAR_2D_WIDTH = 70,
  LINEAR_2D_HEIGHT = 71,
  LINEAR_2D_PITCH = 72,
}; /* device attributes */
enum { FACES = 6 };

_Static_assert(offsetof(struct tsr_descriptor, bias) == 16, "fields have no gaps");
_Static_assert(offsetof(struct tsr_descriptor, border) == 32, "fields have no gaps");
_Static_assert(offsetof(struct tsr_descriptor, level) == 64, "levels begin at 64 bytes");
_Static_assert(sizeof(struct tsr_descriptor_level) == 32, "a level has 32 bytes");

static uint64_t limit_of(const struct tsr_context *context, unsigned attribute) {
  const int value = tsr_device_attribute(context->device, attribute, 0);
  return value > 0 ? (uint64_t)value : 0;
}

static void put_element(struct tsr_descriptor *descriptor, const struct tsr_element *element) {
  descriptor->format = (uint8_t)element->format;
  descriptor->channels = element->channels;
}

static void put_level(struct tsr_descriptor *descriptor, const struct tsr_array_facts *array) {
  const struct tsr_layout *layout = &array->layout;
  descriptor->level[descriptor->levels++] = (struct tsr_descriptor_level){
      .address = array->address,
      .width = layout->width,
      .height = layout->height,
      .depth = layout->depth,
      .row_bytes = (uint32_t)layout->row_bytes,
      .slice_bytes = layout->slice_bytes,
  };
}

static CUresult describe_array(const struct tsr_context *context, CUarray handle,
                               struct tsr_descriptor *descriptor) {
  struct tsr_array_facts array;
  if (!tsr_array_read(handle, &array) || array.context != context) return CUDA_ERROR_INVALID_VALUE;
  put_element(descriptor, &array.layout.element);
  descriptor->shape = (uint8_t)array.layout.kind;
  descriptor->layers = array.layout.layers;
  put_level(descriptor, &array);
  return CUDA_SUCCESS;
}

static CUresult describe_mipmap(const struct tsr_context *context, CUmipmappedArray handle,
                                struct tsr_descriptor *descriptor) {
  struct tsr_mipmap_facts mipmap;
  if (!tsr_mipmap_read(handle, &mipmap)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < mipmap.levels; i++) {
    const CUarray level = (CUarray)(uintptr_t)mipmap.arrays[i];
    const CUresult result = describe_array(context, level, descriptor);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

/* Find memory that kernels of the context can read. */
static CUresult locate(const struct tsr_context *context, uint64_t address, uint64_t bytes,
                       uint64_t *found) {
  struct tsr_end end;
  if (address % limit_of(context, TEXTURE_ALIGNMENT)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = tsr_locate_device(address, bytes, &end);
  if (result != CUDA_SUCCESS || end.context != context) return CUDA_ERROR_INVALID_VALUE;
  *found = end.address;
  return CUDA_SUCCESS;
}

static CUresult describe_linear(const struct tsr_context *context, const CUDA_RESOURCE_DESC *one,
                                struct tsr_descriptor *descriptor) {
  struct tsr_element element;
  uint64_t address;
  CUresult result =
      tsr_element_of(one->res.linear.format, one->res.linear.numChannels, &element);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t count = one->res.linear.sizeInBytes / element.bytes;
  if (!count || count > limit_of(context, LINEAR_1D_WIDTH)) return CUDA_ERROR_INVALID_VALUE;
  result = locate(context, one->res.linear.devPtr, one->res.linear.sizeInBytes, &address);
  if (result != CUDA_SUCCESS) return result;
  put_element(descriptor, &element);
  descriptor->shape = TSR_SHAPE_LINEAR;
  descriptor->layers = 1;
  descriptor->levels = 1;
  descriptor->level[0] = (struct tsr_descriptor_level){
      .address = address, .width = (uint32_t)count, .height = 1, .depth = 1};
  return CUDA_SUCCESS;
}

static CUresult describe_pitched(const struct tsr_context *context, const CUDA_RESOURCE_DESC *one,
                                 struct tsr_descriptor *descriptor) {
  struct tsr_element element;
  uint64_t address;
  const size_t width = one->res.pitch2D.width, height = one->res.pitch2D.height;
  const size_t pitch = one->res.pitch2D.pitchInBytes;
  CUresult result =
      tsr_element_of(one->res.pitch2D.format, one->res.pitch2D.numChannels, &element);
  if (result != CUDA_SUCCESS) return result;
  if (!width || !height || width > limit_of(context, LINEAR_2D_WIDTH) ||
      height > limit_of(context, LINEAR_2D_HEIGHT) || pitch > limit_of(context, LINEAR_2D_PITCH) ||
      pitch % limit_of(context, TEXTURE_PITCH_ALIGNMENT) || pitch < width * element.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t bytes = (height - 1) * pitch + width * element.bytes;
  result = locate(context, one->res.pitch2D.devPtr, bytes, &address);
  if (result != CUDA_SUCCESS) return result;
  put_element(descriptor, &element);
  descriptor->shape = TSR_SHAPE_2D;
  descriptor->layers = 1;
  descriptor->levels = 1;
  descriptor->level[0] = (struct tsr_descriptor_level){.address = address,
                                                       .width = (uint32_t)width,
                                                       .height = (uint32_t)height,
                                                       .depth = 1,
                                                       .row_bytes = (uint32_t)pitch,
                                                       .slice_bytes = height * pitch};
  return CUDA_SUCCESS;
}

CUresult tsr_describe_texture_resource(const struct tsr_context *context,
                                       const CUDA_RESOURCE_DESC *resource,
                                       struct tsr_descriptor *descriptor) {
  *descriptor = (struct tsr_descriptor){.kind = TSR_DESCRIPTOR_TEXTURE};
  if (resource->flags) return CUDA_ERROR_INVALID_VALUE;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return describe_array(context, resource->res.array.hArray, descriptor);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return describe_mipmap(context, resource->res.mipmap.hMipmappedArray, descriptor);
    case CU_RESOURCE_TYPE_LINEAR:
      return describe_linear(context, resource, descriptor);
    case CU_RESOURCE_TYPE_PITCH2D:
      return describe_pitched(context, resource, descriptor);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/* Arrays made without SURFACE_LDST, which may be larger than a surface, have surfaces too: NVIDIA's
 * samples make them on such levels of mipmapped arrays. */
CUresult tsr_describe_surface_resource(const struct tsr_context *context,
                                       const CUDA_RESOURCE_DESC *resource,
                                       struct tsr_descriptor *descriptor) {
  struct tsr_array_facts array;
  *descriptor = (struct tsr_descriptor){.kind = TSR_DESCRIPTOR_SURFACE};
  if (resource->flags || resource->resType != CU_RESOURCE_TYPE_ARRAY ||
      !tsr_array_read(resource->res.array.hArray, &array) ||
      !tsr_layout_fits_surface(context->device, &array.descriptor, array.layout.kind))
    return CUDA_ERROR_INVALID_VALUE;
  return describe_array(context, resource->res.array.hArray, descriptor);
}

static bool is_layered(enum tsr_shape_kind shape) {
  return shape == TSR_SHAPE_1D_LAYERED || shape == TSR_SHAPE_2D_LAYERED ||
         shape == TSR_SHAPE_CUBE_LAYERED;
}

/* Whether a view has the extents of the first level: 0 for those that an array does not have. */
static bool has_extents(const CUDA_RESOURCE_VIEW_DESC *view, const struct tsr_descriptor *of) {
  const struct tsr_descriptor_level *first = &of->level[0];
  const bool flat = of->shape == TSR_SHAPE_1D || of->shape == TSR_SHAPE_1D_LAYERED;
  const uint64_t slices = of->shape == TSR_SHAPE_3D ? first->depth : of->layers;
  const bool solid = of->shape != TSR_SHAPE_1D && of->shape != TSR_SHAPE_2D;
  return view->width == first->width && view->height == (flat ? 0 : first->height) &&
         view->depth == (solid ? slices : 0);
}

CUresult tsr_describe_view(const CUDA_RESOURCE_VIEW_DESC *view, struct tsr_descriptor *descriptor) {
  const enum tsr_shape_kind shape = (enum tsr_shape_kind)descriptor->shape;
  const unsigned format = (unsigned)view->format;
  if (format > CU_RES_VIEW_FORMAT_UNSIGNED_BC7) return CUDA_ERROR_INVALID_VALUE;
  if (format > CU_RES_VIEW_FORMAT_FLOAT_4X32)
    TSR_REFUSE("a resource view of block-compressed elements");
  const unsigned levels = descriptor->levels, layers = descriptor->layers;
  if (view->firstMipmapLevel > view->lastMipmapLevel || view->lastMipmapLevel >= levels ||
      view->firstLayer > view->lastLayer || !has_extents(view, descriptor))
    return CUDA_ERROR_INVALID_VALUE;
  if (is_layered(shape) ? view->lastLayer >= layers : view->lastLayer != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (format != CU_RES_VIEW_FORMAT_NONE) {
    const struct tsr_element element = tsr_element_of_view(view->format);
    const uint64_t bytes = descriptor->level[0].row_bytes / descriptor->level[0].width;
    if (element.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    put_element(descriptor, &element);
  }
  if (is_layered(shape)) {
    descriptor->layers = view->lastLayer - view->firstLayer + 1;
    if (shape == TSR_SHAPE_CUBE_LAYERED &&
        (view->firstLayer % FACES || descriptor->layers % FACES))
      return CUDA_ERROR_INVALID_VALUE;
  }
  descriptor->levels = (uint8_t)(view->lastMipmapLevel - view->firstMipmapLevel + 1);
  for (unsigned i = 0; i < TSR_MAX_LEVELS; i++) {
    struct tsr_descriptor_level *level = &descriptor->level[i];
    const unsigned from = i + view->firstMipmapLevel;
    *level = i < descriptor->levels ? descriptor->level[from] : (struct tsr_descriptor_level){0};
    if (is_layered(shape)) level->address += view->firstLayer * level->slice_bytes;
  }
  return CUDA_SUCCESS;
}
