/* Texture and surface objects: translation of what describes them. */
#include <string.h>

#include "api.h"
#include "arrays/array_driver.h"
#include "arrays/channel.h"

static cudaError_t resource_of(const struct cudaResourceDesc *given,
                               struct CUDA_RESOURCE_DESC *out) {
  if (!given) return cudaErrorInvalidValue;
  *out = (struct CUDA_RESOURCE_DESC){.type = given->resType};
#if TSR_CUDART >= 13
  out->flags = given->flags;
#endif
  switch (given->resType) {
    case cudaResourceTypeArray:
      out->handle = given->res.array.array;
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out->handle = given->res.mipmap.mipmap;
      return cudaSuccess;
    case cudaResourceTypeLinear:
      out->linear.address = given->res.linear.devPtr;
      out->linear.bytes = given->res.linear.sizeInBytes;
      return tsr_format_of(&given->res.linear.desc, &out->linear.format, &out->linear.channels);
    case cudaResourceTypePitch2D:
      out->pitched.address = given->res.pitch2D.devPtr;
      out->pitched.width = given->res.pitch2D.width;
      out->pitched.height = given->res.pitch2D.height;
      out->pitched.pitch = given->res.pitch2D.pitchInBytes;
      return tsr_format_of(&given->res.pitch2D.desc, &out->pitched.format, &out->pitched.channels);
    default:
      return cudaErrorInvalidValue;
  }
}

static void resource_to(const struct CUDA_RESOURCE_DESC *found, struct cudaResourceDesc *out) {
  memset(out, 0, sizeof *out);
  out->resType = found->type;
  if (found->type == cudaResourceTypeArray) out->res.array.array = found->handle;
  if (found->type == cudaResourceTypeMipmappedArray) out->res.mipmap.mipmap = found->handle;
  if (found->type == cudaResourceTypeLinear) {
    out->res.linear.devPtr = found->linear.address;
    out->res.linear.desc = tsr_channels_of(found->linear.format, found->linear.channels);
    out->res.linear.sizeInBytes = found->linear.bytes;
  }
  if (found->type == cudaResourceTypePitch2D) {
    out->res.pitch2D.devPtr = found->pitched.address;
    out->res.pitch2D.desc = tsr_channels_of(found->pitched.format, found->pitched.channels);
    out->res.pitch2D.width = found->pitched.width;
    out->res.pitch2D.height = found->pitched.height;
    out->res.pitch2D.pitchInBytes = found->pitched.pitch;
  }
}

static struct CUDA_TEXTURE_DESC texture_of(const struct cudaTextureDesc *given) {
  struct CUDA_TEXTURE_DESC out = {.filter = given->filterMode,
                                  .anisotropy = given->maxAnisotropy,
                                  .mipmap_filter = given->mipmapFilterMode,
                                  .bias = given->mipmapLevelBias,
                                  .least_level = given->minMipmapLevelClamp,
                                  .greatest_level = given->maxMipmapLevelClamp};
  memcpy(out.address_modes, given->addressMode, sizeof out.address_modes);
  memcpy(out.border, given->borderColor, sizeof out.border);
  if (given->readMode == cudaReadModeElementType) out.flags |= CU_TRSF_READ_AS_INTEGER;
  if (given->normalizedCoords) out.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (given->sRGB) out.flags |= CU_TRSF_SRGB;
  if (given->disableTrilinearOptimization) out.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (given->seamlessCubemap) out.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  return out;
}

static void texture_to(const struct CUDA_TEXTURE_DESC *found, struct cudaTextureDesc *out) {
  const unsigned int flags = found->flags;
  *out = (struct cudaTextureDesc){
      .filterMode = found->filter,
      .readMode =
          flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat,
      .sRGB = (flags & CU_TRSF_SRGB) != 0,
      .normalizedCoords = (flags & CU_TRSF_NORMALIZED_COORDINATES) != 0,
      .maxAnisotropy = found->anisotropy,
      .mipmapFilterMode = found->mipmap_filter,
      .mipmapLevelBias = found->bias,
      .minMipmapLevelClamp = found->least_level,
      .maxMipmapLevelClamp = found->greatest_level,
      .disableTrilinearOptimization = (flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0,
      .seamlessCubemap = (flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0,
  };
  memcpy(out->addressMode, found->address_modes, sizeof out->addressMode);
  memcpy(out->borderColor, found->border, sizeof out->borderColor);
}

/* Version 12's structure ends where the driver's and version 13's have reserved members. */
enum { VIEW_BYTES = sizeof(struct cudaResourceViewDesc) };
_Static_assert(offsetof(struct CUDA_RESOURCE_VIEW_DESC, reserved) <= VIEW_BYTES &&
                   VIEW_BYTES <= sizeof(struct CUDA_RESOURCE_VIEW_DESC),
               "the views of runtime and driver begin alike");

cudaError_t tsr_cudaCreateTextureObject(cudaTextureObject_t *pTexObject,
                                        const struct cudaResourceDesc *pResDesc,
                                        const struct cudaTextureDesc *pTexDesc,
                                        const struct cudaResourceViewDesc *pResViewDesc) {
  struct CUDA_RESOURCE_DESC resource;
  struct CUDA_RESOURCE_VIEW_DESC view = {0};
  if (!pTexObject || !pTexDesc) return cudaErrorInvalidValue;
  const cudaError_t result = resource_of(pResDesc, &resource);
  if (result != cudaSuccess) return result;
  if (pResDesc->resType == cudaResourceTypeMipmappedArray && !pTexDesc->normalizedCoords)
    return cudaErrorInvalidValue; /* as documented */
  const struct CUDA_TEXTURE_DESC texture = texture_of(pTexDesc);
  if (pResViewDesc) memcpy(&view, pResViewDesc, VIEW_BYTES);
  return cuTexObjectCreate(pTexObject, &resource, &texture, pResViewDesc ? &view : NULL);
}

cudaError_t tsr_cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                                 cudaTextureObject_t texObject) {
  struct CUDA_RESOURCE_DESC found;
  if (!pResDesc) return cudaErrorInvalidValue;
  const int result = cuTexObjectGetResourceDesc(&found, texObject);
  if (result == cudaSuccess) resource_to(&found, pResDesc);
  return result;
}

cudaError_t tsr_cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *pTexDesc,
                                                cudaTextureObject_t texObject) {
  struct CUDA_TEXTURE_DESC found;
  if (!pTexDesc) return cudaErrorInvalidValue;
  const int result = cuTexObjectGetTextureDesc(&found, texObject);
  if (result == cudaSuccess) texture_to(&found, pTexDesc);
  return result;
}

cudaError_t tsr_cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *pResViewDesc,
                                                     cudaTextureObject_t texObject) {
  struct CUDA_RESOURCE_VIEW_DESC found;
  if (!pResViewDesc) return cudaErrorInvalidValue;
  const int result = cuTexObjectGetResourceViewDesc(&found, texObject);
  if (result == cudaSuccess) memcpy(pResViewDesc, &found, VIEW_BYTES);
  return result;
}

cudaError_t tsr_cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject,
                                        const struct cudaResourceDesc *pResDesc) {
  struct CUDA_RESOURCE_DESC resource;
  if (!pSurfObject) return cudaErrorInvalidValue;
  const cudaError_t result = resource_of(pResDesc, &resource);
  return result == cudaSuccess ? cuSurfObjectCreate(pSurfObject, &resource) : result;
}

cudaError_t tsr_cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                                 cudaSurfaceObject_t surfObject) {
  struct CUDA_RESOURCE_DESC found;
  if (!pResDesc) return cudaErrorInvalidValue;
  const int result = cuSurfObjectGetResourceDesc(&found, surfObject);
  if (result == cudaSuccess) resource_to(&found, pResDesc);
  return result;
}
