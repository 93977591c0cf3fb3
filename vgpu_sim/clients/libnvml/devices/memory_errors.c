/* ECC errors and remapped rows, as counted by gpud (docs/gpud-admin.md describes how to inject
 * them). */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"

enum { KINDS = 2, COUNTERS = 2, LOCATION_DEVICE_MEMORY = 2, LOCATIONS = 8 };

static nvmlReturn_t errors(nvmlDevice_t handle, bool wanted, tessera_telemetry_record *its) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(handle, TSR_NOW, &found);
  if (!wanted) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *its = found.gpu.telemetry;
  return result;
}

/* ECC is on and cannot be turned off. */
nvmlReturn_t tsr_nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
                                      nvmlEnableState_t *pending) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = errors(device, current && pending, &its);
  if (result == NVML_SUCCESS) *current = *pending = NVML_FEATURE_ENABLED;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t *defaultMode) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = errors(device, defaultMode, &its);
  if (result == NVML_SUCCESS) *defaultMode = NVML_FEATURE_ENABLED;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                             nvmlEccCounterType_t counterType,
                                             unsigned long long *eccCounts) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = errors(device, eccCounts, &its);
  if (errorType >= KINDS || counterType >= COUNTERS) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  *eccCounts = counterType == 0 ? its.ecc_volatile[errorType] : its.ecc_aggregate[errorType];
  return NVML_SUCCESS;
}

/* All errors are errors of the device memory. */
nvmlReturn_t tsr_nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device,
                                                 nvmlMemoryErrorType_t errorType,
                                                 nvmlEccCounterType_t counterType,
                                                 nvmlMemoryLocation_t locationType,
                                                 unsigned long long *count) {
  if (locationType >= LOCATIONS) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result =
      tsr_nvmlDeviceGetTotalEccErrors(device, errorType, counterType, count);
  if (result == NVML_SUCCESS && locationType != LOCATION_DEVICE_MEMORY)
    return NVML_ERROR_NOT_SUPPORTED;
  return result;
}

/* Only uncorrectable errors cause a row to be remapped. */
nvmlReturn_t tsr_nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows,
                                           unsigned int *uncRows, unsigned int *isPending,
                                           unsigned int *failureOccurred) {
  tessera_telemetry_record its;
  const nvmlReturn_t result =
      errors(device, corrRows && uncRows && isPending && failureOccurred, &its);
  if (result != NVML_SUCCESS) return result;
  *corrRows = 0;
  *uncRows = its.remapped_rows;
  *isPending = its.pending_rows != 0;
  *failureOccurred = its.remapping_failed;
  return NVML_SUCCESS;
}
