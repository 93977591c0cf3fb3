/* The number of devices, and their handles by index, UUID, serial number and PCI address. */
#define _GNU_SOURCE
#include <string.h>
#include <strings.h>
#include <stdio.h>

#include "view/answer.h"
#include "api.h"

nvmlReturn_t tsr_nvmlDeviceGetCount_v2(unsigned int *deviceCount) {
  if (!deviceCount) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_SAMPLED, &result);
  if (!view) return result;
  *deviceCount = view->gpu_count;
  tsr_view_done();
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetCount(unsigned int *deviceCount) {
  return tsr_nvmlDeviceGetCount_v2(deviceCount);
}

static nvmlReturn_t give(nvmlDevice_t made, nvmlDevice_t *device) {
  if (!made) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  *device = made;
  return NVML_SUCCESS;
}

/* A GPU that fell off the bus gets no new handle, but existing handles stay valid. */
static nvmlReturn_t give_gpu(const tessera_gpu_record *gpu, nvmlDevice_t *device) {
  return gpu->lost ? NVML_ERROR_GPU_IS_LOST : give(tsr_gpu_handle(gpu), device);
}

nvmlReturn_t tsr_nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_SAMPLED, &result);
  if (!view) return result;
  result = index < view->gpu_count ? give_gpu(&view->gpus[index], device)
                                   : NVML_ERROR_INVALID_ARGUMENT;
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
  return tsr_nvmlDeviceGetHandleByIndex_v2(index, device);
}

static nvmlReturn_t by_uuid(const struct tsr_view *view, bool of_gpu, const uint8_t *uuid,
                            nvmlDevice_t *device) {
  for (uint32_t i = 0; of_gpu && i < view->gpu_count; i++)
    if (memcmp(view->gpus[i].uuid, uuid, TESSERA_UUID_BYTES) == 0)
      return give_gpu(&view->gpus[i], device);
  for (uint32_t i = 0; !of_gpu && i < view->instance_count; i++)
    if (tsr_is_mig_device(&view->instances[i]) &&
        memcmp(view->instances[i].uuid, uuid, TESSERA_UUID_BYTES) == 0)
      return give(tsr_mig_handle(&view->instances[i]), device);
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t tsr_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  if (!uuid || !device) return NVML_ERROR_INVALID_ARGUMENT;
  char prefix[5];
  uint8_t bytes[TESSERA_UUID_BYTES];
  /* A UUID without a prefix, as libcuda's callers write it, is a GPU's or a MIG device's. */
  char whole[TSR_UUID_TEXT_BYTES];
  const size_t length = strnlen(uuid, TSR_UUID_TEXT_BYTES);
  const bool bare = length == TSR_UUID_TEXT_BYTES - 1 - strlen("GPU-");
  snprintf(whole, sizeof whole, "%s%.*s", bare ? "GPU-" : "", (int)length, uuid);
  if (length == TSR_UUID_TEXT_BYTES || !tsr_uuid_read(whole, prefix, bytes))
    return NVML_ERROR_INVALID_ARGUMENT;
  const bool of_gpu = strcmp(prefix, "GPU-") == 0;
  if (!of_gpu && strcmp(prefix, "MIG-") != 0) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  result = by_uuid(view, of_gpu, bytes, device);
  if (result == NVML_ERROR_NOT_FOUND && bare) result = by_uuid(view, false, bytes, device);
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device) {
  if (!uuid || !device) return NVML_ERROR_INVALID_ARGUMENT;
  if (uuid->version != NVML_STRUCT_VERSION(nvmlUUID_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (uuid->type == NVML_UUID_TYPE_ASCII) {
    char text[sizeof uuid->value.str + 1] = {0};
    memcpy(text, uuid->value.str, sizeof uuid->value.str);
    return tsr_nvmlDeviceGetHandleByUUID(text, device);
  }
  if (uuid->type != NVML_UUID_TYPE_BINARY) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  result = by_uuid(view, true, uuid->value.bytes, device);
  if (result == NVML_ERROR_NOT_FOUND) result = by_uuid(view, false, uuid->value.bytes, device);
  tsr_view_done();
  return result;
}

/* Parse "domain:bus:device.function"; domain and function are optional. sscanf() would also
 * accept signs, blanks and 0x, and overflow is undefined. */
static bool read_bus_id(const char *text, unsigned *domain, unsigned *bus, unsigned *device) {
  if (strspn(text, "0123456789abcdefABCDEF:.") != strlen(text)) return false;
  unsigned function = 0;
  int used = 0;
  if (sscanf(text, "%8x:%2x:%2x.%1x%n", domain, bus, device, &function, &used) == 4 && !text[used])
    return function == 0;
  if (sscanf(text, "%8x:%2x:%2x%n", domain, bus, device, &used) == 3 && !text[used]) return true;
  *domain = 0;
  if (sscanf(text, "%2x:%2x.%1x%n", bus, device, &function, &used) == 3 && !text[used])
    return function == 0;
  return sscanf(text, "%2x:%2x%n", bus, device, &used) == 2 && !text[used];
}

nvmlReturn_t tsr_nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device) {
  unsigned domain, bus, number;
  if (!pciBusId || !device || !read_bus_id(pciBusId, &domain, &bus, &number))
    return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  result = NVML_ERROR_NOT_FOUND;
  for (uint32_t i = 0; i < view->gpu_count; i++)
    if (domain == 0 && number == 0 && view->gpus[i].pci_bus == bus)
      result = give_gpu(&view->gpus[i], device);
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device) {
  return tsr_nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}
