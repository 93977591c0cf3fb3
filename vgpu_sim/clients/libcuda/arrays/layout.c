#include "arrays/layout.h"

#include "base/device.h"
#include "base/refuse.h"

enum { FACES = 6 };
enum {
  SUPPORTED_FLAGS = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                    CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_COLOR_ATTACHMENT,
  KNOWN_FLAGS = SUPPORTED_FLAGS | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_SPARSE |
                CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE,
};

/* The device attributes that limit width, height, and depth or layers; 0: no such extent. */
struct limits {
  unsigned texture[3], surface[3];
};
static const struct limits limits[] = {
    [TSR_SHAPE_1D] = {{21}, {55}},
    [TSR_SHAPE_2D] = {{22, 23}, {56, 57}},
    [TSR_SHAPE_3D] = {{24, 25, 26}, {58, 59, 60}},
    [TSR_SHAPE_1D_LAYERED] = {{42, 0, 43}, {61, 0, 62}},
    [TSR_SHAPE_2D_LAYERED] = {{27, 28, 29}, {63, 64, 65}},
    [TSR_SHAPE_CUBE] = {{52, 52}, {66, 66}},
    [TSR_SHAPE_CUBE_LAYERED] = {{53, 53, 54}, {67, 67, 68}},
};
static const unsigned alternate_3d[3] = {47, 48, 49}, gathered[3] = {45, 46};
static const unsigned mipmapped_1d[3] = {77}, mipmapped_2d[3] = {73, 74};

static CUresult refuse_flags(void) {
  TSR_REFUSE("a sparse array, or one for depths, deferred mapping or video");
}

/* Find the shape; false if flags and extents fit none. */
static bool kind_of(const CUDA_ARRAY3D_DESCRIPTOR *one, enum tsr_shape_kind *kind) {
  const bool layered = one->Flags & CUDA_ARRAY3D_LAYERED;
  if (one->Width == 0) return false;
  if (one->Flags & CUDA_ARRAY3D_CUBEMAP) {
    *kind = layered ? TSR_SHAPE_CUBE_LAYERED : TSR_SHAPE_CUBE;
    const bool faces = layered ? one->Depth && one->Depth % FACES == 0 : one->Depth == FACES;
    return one->Height == one->Width && faces;
  }
  if (layered) {
    *kind = one->Height ? TSR_SHAPE_2D_LAYERED : TSR_SHAPE_1D_LAYERED;
    return one->Depth != 0;
  }
  *kind = one->Depth ? TSR_SHAPE_3D : one->Height ? TSR_SHAPE_2D : TSR_SHAPE_1D;
  return one->Height || !one->Depth;
}

static bool is_within(const struct tsr_device *device, const unsigned attributes[3],
                      const CUDA_ARRAY3D_DESCRIPTOR *one) {
  const size_t extents[3] = {one->Width, one->Height, one->Depth};
  for (int i = 0; i < 3; i++)
    if (attributes[i] && extents[i] > (size_t)tsr_device_attribute(device, attributes[i], 0))
      return false;
  return true;
}

bool tsr_layout_fits_surface(const struct tsr_device *device,
                             const CUDA_ARRAY3D_DESCRIPTOR *descriptor, enum tsr_shape_kind kind) {
  return is_within(device, limits[kind].surface, descriptor);
}

static bool fits(const struct tsr_device *device, enum tsr_shape_kind kind,
                 const CUDA_ARRAY3D_DESCRIPTOR *one, bool mipmapped) {
  const struct limits *most = &limits[kind];
  const bool gather = one->Flags & CUDA_ARRAY3D_TEXTURE_GATHER;
  if (one->Flags & CUDA_ARRAY3D_SURFACE_LDST && !tsr_layout_fits_surface(device, one, kind))
    return false;
  if (gather && (kind != TSR_SHAPE_2D || !is_within(device, gathered, one))) return false;
  if (mipmapped && kind == TSR_SHAPE_1D) return is_within(device, mipmapped_1d, one);
  if (mipmapped && kind == TSR_SHAPE_2D) return is_within(device, mipmapped_2d, one);
  return is_within(device, most->texture, one) ||
         (kind == TSR_SHAPE_3D && is_within(device, alternate_3d, one));
}

static struct tsr_layout lay_out(struct tsr_layout made) {
  made.row_bytes = (uint64_t)made.width * made.element.bytes;
  made.slice_bytes = made.row_bytes * made.height;
  made.bytes = made.slice_bytes * made.depth * made.layers;
  return made;
}

CUresult tsr_layout_of(const struct tsr_device *device, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                       bool mipmapped, struct tsr_layout *layout) {
  struct tsr_element element;
  enum tsr_shape_kind kind;
  const CUresult result = tsr_element_of(descriptor->Format, descriptor->NumChannels, &element);
  if (result != CUDA_SUCCESS) return result;
  if (descriptor->Flags & ~(unsigned)KNOWN_FLAGS) return CUDA_ERROR_INVALID_VALUE;
  if (descriptor->Flags & ~(unsigned)SUPPORTED_FLAGS) return refuse_flags();
  if (!kind_of(descriptor, &kind) || !fits(device, kind, descriptor, mipmapped))
    return CUDA_ERROR_INVALID_VALUE;
  const bool solid = kind == TSR_SHAPE_3D;
  const uint32_t slices = descriptor->Depth ? (uint32_t)descriptor->Depth : 1;
  *layout = lay_out((struct tsr_layout){
      .kind = kind,
      .element = element,
      .width = (uint32_t)descriptor->Width,
      .height = descriptor->Height ? (uint32_t)descriptor->Height : 1,
      .depth = solid ? slices : 1,
      .layers = solid ? 1 : slices,
  });
  return CUDA_SUCCESS;
}

unsigned tsr_layout_levels(const struct tsr_layout *first) {
  uint32_t largest = first->width > first->height ? first->width : first->height;
  if (first->depth > largest) largest = first->depth;
  unsigned levels = 1;
  while (largest >>= 1) levels++;
  return levels < TSR_MAX_LEVELS ? levels : TSR_MAX_LEVELS;
}

static uint32_t halve(uint32_t extent, unsigned times) {
  return extent >> times ? extent >> times : 1;
}

struct tsr_layout tsr_layout_of_level(const struct tsr_layout *first, unsigned level) {
  struct tsr_layout made = *first;
  made.width = halve(first->width, level);
  made.height = halve(first->height, level);
  made.depth = halve(first->depth, level);
  return lay_out(made);
}
