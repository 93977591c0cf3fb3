/* A device's memory. Only a process that sees all of a divided GPU gets the GPU's figures. */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"

/* `free` is what can be allocated now: other slices may have the node's memory budget. */
static nvmlReturn_t memory_of(nvmlDevice_t handle, nvmlMemory_t *memory, uint64_t *reserved) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(handle, TSR_NOW, &found);
  if (result != NVML_SUCCESS) return result;
  if (!found.is_mig && !found.gpu.visible) return NVML_ERROR_NO_PERMISSION;
  memory->total = found.is_mig ? found.instance.memory_bytes : found.gpu.memory_bytes;
  memory->used = found.is_mig ? found.instance.memory_used_bytes : found.gpu.memory_used_bytes;
  const uint64_t unused = memory->used < memory->total ? memory->total - memory->used : 0;
  *reserved = found.instance.memory_reserved_bytes; /* 0 for a GPU that is divided */
  if (*reserved > unused) *reserved = unused;
  memory->free = unused - *reserved;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  uint64_t reserved;
  return memory ? memory_of(device, memory, &reserved) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t tsr_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t found;
  uint64_t reserved;
  const nvmlReturn_t result = memory_of(device, &found, &reserved);
  if (result != NVML_SUCCESS) return result;
  memory->total = found.total;
  memory->reserved = reserved;
  memory->free = found.free;
  memory->used = found.used;
  return NVML_SUCCESS;
}

/* Return the size of a BAR, a power of two, with which all of a GPU's memory can be mapped. */
static uint64_t bar_of(uint64_t bytes) {
  uint64_t bar = 1;
  while (bar < bytes) bar <<= 1;
  return bar;
}

/* All of a device's memory can be mapped, as on boards with a large BAR; none is mapped by
 * default. */
nvmlReturn_t tsr_nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!bar1Memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  const uint64_t bytes =
      found.is_mig ? found.instance.memory_bytes : bar_of(found.gpu.memory_bytes);
  *bar1Memory = (nvmlBAR1Memory_t){.bar1Total = bytes, .bar1Free = bytes};
  return NVML_SUCCESS;
}
