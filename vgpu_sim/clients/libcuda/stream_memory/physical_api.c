/* cuMemCreate, cuMemAddressReserve and cuMemImportFromShareableHandle: they state a device, and need
 * no current context. */
#include "api.h"
#include "base/aperture.h"
#include "base/device.h"
#include "contexts/device_context.h"
#include "exchange/share.h"
#include "memory/physical.h"

#define UNIT TESSERA_CHUNK_ALIGN_BYTES

CUresult tsr_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                         const CUmemAllocationProp *prop, unsigned long long flags) {
  if (!handle || !prop || flags || size == 0 || size % UNIT) return CUDA_ERROR_INVALID_VALUE;
  const CUmemAllocationProp props = *prop;
  CUresult result = tsr_physical_check(&props);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_context *context;
  result = tsr_device_context(tsr_device(props.location.id), &context);
  return result == CUDA_SUCCESS ? tsr_physical_create(context, &props, size, handle) : result;
}

/* Return the device of the calling thread's context; without a context the first device, in a context
 * of which memory gets addresses. */
static CUresult device_of_thread(struct tsr_device **device) {
  struct tsr_context *context;
  const CUresult result = tsr_thread_context(&context);
  if (result != CUDA_SUCCESS) return result;
  *device = context ? context->device : tsr_device(0);
  if (context || tsr_aperture_base) return CUDA_SUCCESS;
  return tsr_device_context(*device, &context); /* places the aperture */
}

CUresult tsr_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags) {
  if (!ptr || flags || size == 0 || size % UNIT || (alignment & (alignment - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  if (size > TESSERA_DEVICE_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
  struct tsr_device *device = NULL;
  uint64_t address;
  CUresult result = device_of_thread(&device);
  if (result == CUDA_SUCCESS)
    result = tsr_views_reserve(device, size, alignment < UNIT ? UNIT : alignment, addr, &address);
  if (result == CUDA_SUCCESS) *ptr = address;
  return result;
}

CUresult tsr_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType) {
  tessera_shared_memory name;
  if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      (uintptr_t)osHandle > INT32_MAX ||
      !tsr_physical_name((int)(intptr_t)osHandle, &name))
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_context *context;
  CUresult result = tsr_thread_context(&context);
  if (result == CUDA_SUCCESS && !context) result = tsr_device_context(tsr_device(0), &context);
  return result == CUDA_SUCCESS ? tsr_physical_import(context, &name, handle) : result;
}
