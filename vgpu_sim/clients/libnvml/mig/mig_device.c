/* MIG devices: MIG mode, and a MIG device's GPU, numbers and attributes. */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"
#include "view/report.h"

enum { MIB_SHIFT = 20 };

nvmlReturn_t tsr_nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!isMigDevice) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *isMigDevice = found.is_mig;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
                                      unsigned int *pendingMode) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_SAMPLED, &found);
  if (!currentMode || !pendingMode) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  *currentMode = *pendingMode = found.gpu.mig_mode;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode,
                                      nvmlReturn_t *activationStatus) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_NOW, &found);
  if (!activationStatus || mode > TESSERA_MIG_MODE_ENABLED) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  tessera_management_request request;
  tessera_management_report report;
  tsr_request_begin(&request, TESSERA_MANAGEMENT_OPERATION_SET_MIG_MODE);
  memcpy(request.uuid, found.gpu.uuid, sizeof request.uuid);
  request.mode = mode;
  return *activationStatus = tsr_view_change(&request, &report);
}

nvmlReturn_t tsr_nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_SAMPLED, &found);
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *count = found.gpu.max_mig_devices;
  return result;
}

/* A GPU's MIG devices are numbered by placement. */
nvmlReturn_t tsr_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                     nvmlDevice_t *migDevice) {
  if (!migDevice) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS && found.is_mig) result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS && found.gpu.max_mig_devices == 0) result = NVML_ERROR_NOT_SUPPORTED;
  if (result == NVML_SUCCESS && index >= found.gpu.max_mig_devices)
    result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) {
    result = NVML_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < view->instance_count; i++) {
      const tessera_instance_record *instance = &view->instances[i];
      if (instance->gpu != found.gpu_index || !tsr_is_mig_device(instance)) continue;
      if (index-- > 0) continue;
      *migDevice = tsr_mig_handle(instance);
      result = *migDevice ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_RESOURCES;
      break;
    }
  }
  tsr_view_done();
  return result;
}

/* Find a MIG device; INVALID_ARGUMENT for a GPU. */
static nvmlReturn_t mig(nvmlDevice_t handle, struct tsr_device *found) {
  const nvmlReturn_t result = tsr_device(handle, TSR_FACTS, found);
  return result == NVML_SUCCESS && !found->is_mig ? NVML_ERROR_INVALID_ARGUMENT : result;
}

nvmlReturn_t tsr_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
                                                              nvmlDevice_t *device) {
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, migDevice, &found);
  if (result == NVML_SUCCESS && !found.is_mig) result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) {
    *device = tsr_gpu_handle(&found.gpu);
    if (!*device) result = NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
  struct tsr_device found;
  const nvmlReturn_t result = mig(device, &found);
  if (!id) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *id = found.instance.gpu_instance_id;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
  struct tsr_device found;
  const nvmlReturn_t result = mig(device, &found);
  if (!id) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *id = found.instance.compute_id;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetAttributes_v2(nvmlDevice_t device,
                                            nvmlDeviceAttributes_t *attributes) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!attributes) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  if (!found.is_mig) return NVML_ERROR_NOT_SUPPORTED;
  *attributes = (nvmlDeviceAttributes_t){
      .multiprocessorCount = found.instance.multiprocessors,
      .sharedCopyEngineCount = found.instance.engines[0],
      .sharedDecoderCount = found.instance.engines[1],
      .sharedEncoderCount = found.instance.engines[2],
      .sharedJpegCount = found.instance.engines[3],
      .sharedOfaCount = found.instance.engines[4],
      .gpuInstanceSliceCount = found.instance.compute_slices,
      .computeInstanceSliceCount = tsr_compute_slices(&found.instance),
      .memorySizeMB = found.instance.memory_bytes >> MIB_SHIFT,
  };
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
  return tsr_nvmlDeviceGetAttributes_v2(device, attributes);
}
