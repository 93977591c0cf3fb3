/* The driver's descriptions of arrays, textures and surfaces, and its functions for them. */
#ifndef TSR_ARRAY_DRIVER_H
#define TSR_ARRAY_DRIVER_H

#include "driver.h"

struct CUDA_ARRAY3D_DESCRIPTOR {
  size_t width, height, depth;
  int format;
  unsigned int channels, flags;
};

struct CUDA_RESOURCE_DESC {
  int type;
  union {
    void *handle; /* of an array or mipmapped array */
    struct {
      void *address;
      int format;
      unsigned int channels;
      size_t bytes;
    } linear;
    struct {
      void *address;
      int format;
      unsigned int channels;
      size_t width, height, pitch;
    } pitched;
    int reserved[32];
  };
  unsigned int flags;
};

enum { CU_TRSF_READ_AS_INTEGER = 0x01, CU_TRSF_NORMALIZED_COORDINATES = 0x02, CU_TRSF_SRGB = 0x10,
       CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION = 0x20, CU_TRSF_SEAMLESS_CUBEMAP = 0x40 };

struct CUDA_TEXTURE_DESC {
  int address_modes[3];
  int filter;
  unsigned int flags, anisotropy;
  int mipmap_filter;
  float bias, least_level, greatest_level;
  float border[4];
  int reserved[12];
};

struct CUDA_RESOURCE_VIEW_DESC {
  int format;
  size_t width, height, depth;
  unsigned int first_level, last_level, first_layer, last_layer;
  unsigned int reserved[16];
};

extern int cuArray3DCreate_v2(cudaArray_t *array, const struct CUDA_ARRAY3D_DESCRIPTOR *descriptor);
extern int cuArray3DGetDescriptor_v2(struct CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                     cudaArray_const_t array);
extern int cuArrayDestroy(cudaArray_t array);
extern int cuMipmappedArrayDestroy(cudaMipmappedArray_t array);
extern int cuMipmappedArrayCreate(cudaMipmappedArray_t *array,
                                  const struct CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                  unsigned int levels);
extern int cuTexObjectCreate(cudaTextureObject_t *object, const struct CUDA_RESOURCE_DESC *resource,
                             const struct CUDA_TEXTURE_DESC *texture,
                             const struct CUDA_RESOURCE_VIEW_DESC *view);
extern int cuTexObjectGetResourceDesc(struct CUDA_RESOURCE_DESC *resource, cudaTextureObject_t object);
extern int cuTexObjectGetTextureDesc(struct CUDA_TEXTURE_DESC *texture, cudaTextureObject_t object);
extern int cuTexObjectGetResourceViewDesc(struct CUDA_RESOURCE_VIEW_DESC *view,
                                          cudaTextureObject_t object);
extern int cuSurfObjectCreate(cudaSurfaceObject_t *object, const struct CUDA_RESOURCE_DESC *resource);
extern int cuSurfObjectGetResourceDesc(struct CUDA_RESOURCE_DESC *resource,
                                       cudaSurfaceObject_t object);
extern int cuDeviceGetTexture1DLinearMaxWidth(size_t *width, int format, unsigned int channels,
                                              CUdevice device);

#endif
