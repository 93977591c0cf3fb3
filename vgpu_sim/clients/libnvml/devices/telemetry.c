/* Sensors and counters of a GPU, as sampled by gpud. A MIG device has no sensors of its own. */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"

enum {
  SENSOR_GPU = 0, /* NVML_TEMPERATURE_GPU */
  THRESHOLDS = 8,
  PCIE_TX = 0,
  PCIE_RX = 1,
  CLOCK_IDS = 4,
};
static const unsigned SAMPLING_US = 1000000; /* gpud's sample period */
static const unsigned long long REASONS = 0x1 | 0x8 | 0x40; /* idle, slowdown, thermal */

/* Read a GPU's sensors; `wanted` is the caller's result pointer, which must not be NULL. */
static nvmlReturn_t sensors(nvmlDevice_t handle, const void *wanted,
                            tessera_telemetry_record *telemetry) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(handle, TSR_SAMPLED, &found);
  if (!wanted) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *telemetry = found.gpu.telemetry;
  return result;
}

/* Read the utilisation; NVML does not report it for a divided GPU. */
static nvmlReturn_t utilization(nvmlDevice_t handle, const void *wanted,
                                tessera_telemetry_record *telemetry) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(handle, TSR_SAMPLED, &found);
  if (!wanted) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  if (found.gpu.mig_mode == TESSERA_MIG_MODE_ENABLED) return NVML_ERROR_NOT_SUPPORTED;
  *telemetry = found.gpu.telemetry;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                               nvmlUtilization_t *utilizationRates) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = utilization(device, utilizationRates, &its);
  if (result == NVML_SUCCESS)
    *utilizationRates = (nvmlUtilization_t){.gpu = its.gpu_percent, .memory = its.memory_percent};
  return result;
}

/* No work can run on the video and image engines. */
static nvmlReturn_t unused_engine(nvmlDevice_t device, unsigned int *percent,
                                  unsigned int *samplingPeriodUs) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = utilization(device, percent, &its);
  if (!samplingPeriodUs) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  *percent = 0;
  *samplingPeriodUs = SAMPLING_US;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                                 unsigned int *samplingPeriodUs) {
  return unused_engine(device, utilization, samplingPeriodUs);
}

nvmlReturn_t tsr_nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                                 unsigned int *samplingPeriodUs) {
  return unused_engine(device, utilization, samplingPeriodUs);
}

nvmlReturn_t tsr_nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs) {
  return unused_engine(device, utilization, samplingPeriodUs);
}

nvmlReturn_t tsr_nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs) {
  return unused_engine(device, utilization, samplingPeriodUs);
}

nvmlReturn_t tsr_nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, power, &its);
  if (result == NVML_SUCCESS) *power = its.power_mw;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, limit, &its);
  if (result == NVML_SUCCESS) *limit = its.power_limit_mw;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit) {
  return tsr_nvmlDeviceGetPowerManagementLimit(device, limit);
}

nvmlReturn_t tsr_nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device,
                                                          unsigned int *defaultLimit) {
  return tsr_nvmlDeviceGetPowerManagementLimit(device, defaultLimit);
}

/* The limit cannot be changed. */
nvmlReturn_t tsr_nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                              unsigned int *minLimit,
                                                              unsigned int *maxLimit) {
  if (!maxLimit) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result = tsr_nvmlDeviceGetPowerManagementLimit(device, minLimit);
  if (result == NVML_SUCCESS) *maxLimit = *minLimit;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, mode, &its);
  if (result == NVML_SUCCESS) *mode = NVML_FEATURE_ENABLED;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                     unsigned long long *energy) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, energy, &its);
  if (result == NVML_SUCCESS) *energy = its.energy_mj;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType,
                                          unsigned int *temp) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, temp, &its);
  if (sensorType != SENSOR_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *temp = its.temperature_c;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
  if (!temperature) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != NVML_STRUCT_VERSION(nvmlTemperature_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  unsigned int celsius;
  const nvmlReturn_t result =
      tsr_nvmlDeviceGetTemperature(device, temperature->sensorType, &celsius);
  if (result == NVML_SUCCESS) temperature->temperature = (int)celsius;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                                   nvmlTemperatureThresholds_t thresholdType,
                                                   unsigned int *temp) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, temp, &its);
  if (thresholdType >= THRESHOLDS) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  if (thresholdType == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    *temp = its.shutdown_c;
  else if (thresholdType == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    *temp = its.slowdown_c;
  else
    return NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock,
                             bool highest) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, clock, &its);
  if (type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  if (type == NVML_CLOCK_VIDEO) return NVML_ERROR_NOT_SUPPORTED;
  if (type == NVML_CLOCK_MEM)
    *clock = highest ? its.max_memory_mhz : its.memory_mhz;
  else
    *clock = highest ? its.max_sm_mhz : its.sm_mhz;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                        unsigned int *clock) {
  return clock_of(device, type, clock, false);
}

nvmlReturn_t tsr_nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                           unsigned int *clock) {
  return clock_of(device, type, clock, true);
}

nvmlReturn_t tsr_nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType,
                                    nvmlClockId_t clockId, unsigned int *clockMHz) {
  if (clockId >= CLOCK_IDS) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result = clock_of(device, clockType, clockMHz, false);
  return result == NVML_SUCCESS && clockId != NVML_CLOCK_ID_CURRENT ? NVML_ERROR_NOT_SUPPORTED
                                                                    : result;
}

nvmlReturn_t tsr_nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *pState) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, pState, &its);
  if (result == NVML_SUCCESS) *pState = its.performance_state;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t *pState) {
  return tsr_nvmlDeviceGetPerformanceState(device, pState);
}

nvmlReturn_t tsr_nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                        unsigned long long *clocksEventReasons) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, clocksEventReasons, &its);
  if (result == NVML_SUCCESS) *clocksEventReasons = its.clock_event_reasons;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                           unsigned long long *reasons) {
  return tsr_nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t tsr_nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                          unsigned long long *reasons) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, reasons, &its);
  if (result == NVML_SUCCESS) *reasons = REASONS;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                             unsigned long long *reasons) {
  return tsr_nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

/* In KB/s. A divided GPU's throughput is the sum over its tenants, so it is not reported to any
 * of them. */
nvmlReturn_t tsr_nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter,
                                             unsigned int *value) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = utilization(device, value, &its);
  if (counter > PCIE_RX) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  *value = (unsigned int)((counter == PCIE_TX ? its.pcie_tx_bytes_per_s
                                              : its.pcie_rx_bytes_per_s) >> 10);
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *numFans) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, numFans, &its);
  if (result == NVML_SUCCESS) *numFans = its.fan_count;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan,
                                          unsigned int *speed) {
  tessera_telemetry_record its;
  const nvmlReturn_t result = sensors(device, speed, &its);
  if (result != NVML_SUCCESS) return result;
  if (its.fan_count == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (fan >= its.fan_count || fan >= TESSERA_MAX_FANS) return NVML_ERROR_INVALID_ARGUMENT;
  *speed = its.fan_percents[fan];
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed) {
  return tsr_nvmlDeviceGetFanSpeed_v2(device, 0, speed);
}
