/* cuArray...: creation, destruction and descriptions of arrays. */
#include "api.h"
#include "arrays/array.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "exchange/unsafe.h"
#include "memory/memory.h"

static CUresult create(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
  TSR_CURRENT(context);
  CUresult result = tsr_capture_check_unsafe();
  if (result != CUDA_SUCCESS) return result;
  struct tsr_array_facts facts = {.context = context,
                                  .context_handle = tsr_object_handle(TSR_CONTEXT, context),
                                  .descriptor = *descriptor};
  result = tsr_layout_of(context->device, &facts.descriptor, false, &facts.layout);
  if (result == CUDA_SUCCESS)
    result = tsr_array_allocate(context, facts.layout.bytes, &facts.address);
  if (result != CUDA_SUCCESS) return result;
  uint64_t made;
  result = tsr_array_add(&facts, &made);
  if (result == CUDA_SUCCESS)
    *handle = (CUarray)(uintptr_t)made;
  else
    tsr_memory_release(facts.address, TSR_USE_ARRAY);
  return result;
}

CUresult tsr_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
  if (!pHandle || !pAllocateArray) return CUDA_ERROR_INVALID_VALUE;
  return create(pHandle, pAllocateArray);
}

CUresult tsr_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
  if (!pHandle || !pAllocateArray) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY_DESCRIPTOR given = *pAllocateArray;
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = given.Width,
                                              .Height = given.Height,
                                              .Format = given.Format,
                                              .NumChannels = given.NumChannels};
  return create(pHandle, &descriptor);
}

CUresult tsr_cuArrayDestroy(CUarray hArray) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  struct tsr_array_facts facts;
  if (!tsr_array_remove((uint64_t)(uintptr_t)hArray, false, &facts))
    return CUDA_ERROR_INVALID_HANDLE;
  return tsr_memory_free(facts.address, TSR_USE_ARRAY);
}

CUresult tsr_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  TSR_CURRENT(context);
  struct tsr_array_facts facts;
  if (!pArrayDescriptor) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_array_read(hArray, &facts)) return CUDA_ERROR_INVALID_HANDLE;
  *pArrayDescriptor = facts.descriptor;
  return CUDA_SUCCESS;
}

CUresult tsr_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  TSR_CURRENT(context);
  struct tsr_array_facts facts;
  if (!pArrayDescriptor) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_array_read(hArray, &facts)) return CUDA_ERROR_INVALID_HANDLE;
  *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = facts.descriptor.Width,
                                              .Height = facts.descriptor.Height,
                                              .Format = facts.descriptor.Format,
                                              .NumChannels = facts.descriptor.NumChannels};
  return CUDA_SUCCESS;
}

/* The three queries below return INVALID_VALUE for arrays that are not planar, not sparse and not
 * mapped later, as documented; there are no others. */
static CUresult refuse_query(CUarray array) {
  TSR_CURRENT(context);
  struct tsr_array_facts facts;
  return tsr_array_read(array, &facts) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult tsr_cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx) {
  (void)planeIdx;
  return pPlaneArray ? refuse_query(hArray) : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                        CUarray array) {
  return sparseProperties ? refuse_query(array) : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                          CUarray array, CUdevice device) {
  (void)device;
  return memoryRequirements ? refuse_query(array) : CUDA_ERROR_INVALID_VALUE;
}
