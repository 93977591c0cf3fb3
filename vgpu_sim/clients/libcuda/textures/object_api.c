/* cuTexObject... and cuSurfObject...: CUDA Driver API, "Texture Object Management". */
#include "api.h"
#include "base/device.h"
#include "contexts/context.h"
#include "textures/object.h"

static struct tsr_texture_facts facts_of(enum tsr_descriptor_kind kind,
                                         struct tsr_context *context,
                                         const CUDA_RESOURCE_DESC *resource) {
  return (struct tsr_texture_facts){.kind = kind,
                                    .context = context,
                                    .context_handle = tsr_object_handle(TSR_CONTEXT, context),
                                    .resource = *resource};
}

static bool is_array(const CUDA_RESOURCE_DESC *resource) {
  return resource->resType == CU_RESOURCE_TYPE_ARRAY ||
         resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
}

CUresult tsr_cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                               const CUDA_TEXTURE_DESC *pTexDesc,
                               const CUDA_RESOURCE_VIEW_DESC *pResViewDesc) {
  TSR_CURRENT(context);
  if (!pTexObject || !pResDesc || !pTexDesc) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_texture_facts facts = facts_of(TSR_DESCRIPTOR_TEXTURE, context, pResDesc);
  struct tsr_descriptor descriptor;
  facts.texture = *pTexDesc;
  facts.has_view = pResViewDesc != NULL;
  if (facts.has_view) facts.view = *pResViewDesc;
  if (facts.has_view && !is_array(&facts.resource)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = tsr_describe_texture_resource(context, &facts.resource, &descriptor);
  if (result == CUDA_SUCCESS && facts.has_view) result = tsr_describe_view(&facts.view, &descriptor);
  if (result == CUDA_SUCCESS) result = tsr_describe_sampling(&facts.texture, &descriptor);
  if (result == CUDA_SUCCESS) result = tsr_texture_add(&facts, &descriptor);
  if (result == CUDA_SUCCESS) *pTexObject = facts.address;
  return result;
}

CUresult tsr_cuTexObjectDestroy(CUtexObject texObject) {
  TSR_CURRENT(context);
  return tsr_texture_destroy(texObject, TSR_DESCRIPTOR_TEXTURE);
}

CUresult tsr_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject) {
  TSR_CURRENT(context);
  struct tsr_texture_facts facts;
  if (!pResDesc || !tsr_texture_find(texObject, TSR_DESCRIPTOR_TEXTURE, &facts))
    return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = facts.resource;
  return CUDA_SUCCESS;
}

CUresult tsr_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject) {
  TSR_CURRENT(context);
  struct tsr_texture_facts facts;
  if (!pTexDesc || !tsr_texture_find(texObject, TSR_DESCRIPTOR_TEXTURE, &facts))
    return CUDA_ERROR_INVALID_VALUE;
  *pTexDesc = facts.texture;
  return CUDA_SUCCESS;
}

CUresult tsr_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                            CUtexObject texObject) {
  TSR_CURRENT(context);
  struct tsr_texture_facts facts;
  if (!pResViewDesc || !tsr_texture_find(texObject, TSR_DESCRIPTOR_TEXTURE, &facts) ||
      !facts.has_view)
    return CUDA_ERROR_INVALID_VALUE;
  *pResViewDesc = facts.view;
  return CUDA_SUCCESS;
}

CUresult tsr_cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) {
  TSR_CURRENT(context);
  if (!pSurfObject || !pResDesc) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_texture_facts facts = facts_of(TSR_DESCRIPTOR_SURFACE, context, pResDesc);
  struct tsr_descriptor descriptor;
  CUresult result = tsr_describe_surface_resource(context, &facts.resource, &descriptor);
  if (result == CUDA_SUCCESS) result = tsr_texture_add(&facts, &descriptor);
  if (result == CUDA_SUCCESS) *pSurfObject = facts.address;
  return result;
}

CUresult tsr_cuSurfObjectDestroy(CUsurfObject surfObject) {
  TSR_CURRENT(context);
  return tsr_texture_destroy(surfObject, TSR_DESCRIPTOR_SURFACE);
}

CUresult tsr_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject) {
  TSR_CURRENT(context);
  struct tsr_texture_facts facts;
  if (!pResDesc || !tsr_texture_find(surfObject, TSR_DESCRIPTOR_SURFACE, &facts))
    return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = facts.resource;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
                                                unsigned int numChannels, CUdevice dev) {
  const uint64_t most_elements = UINT64_C(1) << 30, most_bytes = UINT64_C(1) << 32;
  struct tsr_element element;
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!maxWidthInElements) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = tsr_element_of(format, numChannels, &element);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t fit = most_bytes / element.bytes;
  *maxWidthInElements = fit < most_elements ? fit : most_elements;
  return result;
}
