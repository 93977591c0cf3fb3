/* Performance states, and the clocks and the utilisation that they are about. A GPU is in state 0,
 * or in 8 while its memory clock is slow (vgpu_sim/gpud/telemetry/sensors.py). */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"

enum { FAST = 0, SLOW = 8, STATES = 16, STATE_UNKNOWN = 32 }; /* NVML_PSTATE_UNKNOWN */
enum { DOMAIN_GPU = 0, DOMAIN_MEMORY = 1 }; /* NVML_GPU_UTILIZATION_DOMAIN_... */

/* `size` is in bytes. The states that the GPU does not have are filled with UNKNOWN. */
nvmlReturn_t tsr_nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device,
                                                         nvmlPstates_t *pstates,
                                                         unsigned int size) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!pstates) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  const unsigned count = found.gpu.telemetry.idle_memory_mhz ? 2 : 1, room = size / (unsigned)sizeof *pstates;
  if (room < count) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < room && i < STATES; i++) pstates[i] = STATE_UNKNOWN;
  pstates[0] = FAST;
  if (count > 1) pstates[1] = SLOW;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, nvmlClockType_t type,
                                                  nvmlPstates_t pstate, unsigned int *minClockMHz,
                                                  unsigned int *maxClockMHz) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!minClockMHz || !maxClockMHz || type >= NVML_CLOCK_COUNT || pstate >= STATES)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  const tessera_telemetry_record its = found.gpu.telemetry;
  const bool slow = pstate == SLOW && its.idle_memory_mhz;
  if ((pstate != FAST && !slow) || its.idle_sm_mhz == 0 || type == NVML_CLOCK_VIDEO)
    return NVML_ERROR_NOT_SUPPORTED;
  if (type == NVML_CLOCK_MEM) {
    *minClockMHz = *maxClockMHz = slow ? its.idle_memory_mhz : its.max_memory_mhz;
  } else {
    /* only an idle GPU is in the slow state */
    *minClockMHz = its.idle_sm_mhz;
    *maxClockMHz = slow ? its.idle_sm_mhz : its.max_sm_mhz;
  }
  return NVML_SUCCESS;
}

/* NVML does not report the utilisation of a divided GPU. */
nvmlReturn_t tsr_nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device,
                                                 nvmlGpuDynamicPstatesInfo_t *info) {
  nvmlUtilization_t used;
  const nvmlReturn_t result = tsr_nvmlDeviceGetUtilizationRates(device, &used);
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  memset(info, 0, sizeof *info);
  info->utilization[DOMAIN_GPU].bIsPresent = 1;
  info->utilization[DOMAIN_GPU].percentage = used.gpu;
  info->utilization[DOMAIN_MEMORY].bIsPresent = 1;
  info->utilization[DOMAIN_MEMORY].percentage = used.memory;
  return NVML_SUCCESS;
}

/* A limit can only be set to what it is, because it cannot be changed. */
static nvmlReturn_t set_limit(nvmlDevice_t device, unsigned int limit) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_SAMPLED, &found);
  if (result != NVML_SUCCESS) return result;
  if (!found.node) return NVML_ERROR_NO_PERMISSION;
  return limit == found.gpu.telemetry.power_limit_mw ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t tsr_nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit) {
  return set_limit(device, limit);
}

nvmlReturn_t tsr_nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device,
                                                      nvmlPowerValue_v2_t *powerValue) {
  if (!powerValue) return NVML_ERROR_INVALID_ARGUMENT;
  if (powerValue->version != NVML_STRUCT_VERSION(nvmlPowerValue_v2_t, 2))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (powerValue->powerScope != NVML_POWER_SCOPE_GPU) return NVML_ERROR_NOT_SUPPORTED;
  return set_limit(device, powerValue->powerValueMw);
}
