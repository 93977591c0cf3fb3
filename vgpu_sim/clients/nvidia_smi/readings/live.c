/* Readings of a GPU's activity. */
#include <string.h>

#include "nvml/nvml.h"
#include "readings/readings.h"

enum { MIB_SHIFT = 20 };

void smi_read_memory(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  nvmlMemory_v2_t memory;
  memset(&memory, 0, sizeof memory);
  memory.version = NVML_STRUCT_VERSION(memory, 2);
  text->status = nvml_DeviceGetMemoryInfo_v2(gpu->device, &memory);
  const unsigned long long values[] = {memory.total, memory.reserved, memory.used, memory.free};
  smi_text_format(text, "%llu", values[argument] >> MIB_SHIFT);
}

void smi_read_bar1(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  nvmlBAR1Memory_t bar1 = {0, 0, 0};
  text->status = nvml_DeviceGetBAR1MemoryInfo(gpu->device, &bar1);
  const unsigned long long values[] = {bar1.total, 0, bar1.used, bar1.free};
  smi_text_format(text, "%llu", values[argument] >> MIB_SHIFT);
}

void smi_read_utilization(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  nvmlUtilization_t rates = {0, 0};
  unsigned value = 0, period = 0;
  if (argument == SMI_UTILIZATION_ENCODER) {
    text->status = nvml_DeviceGetEncoderUtilization(gpu->device, &value, &period);
  } else if (argument == SMI_UTILIZATION_DECODER) {
    text->status = nvml_DeviceGetDecoderUtilization(gpu->device, &value, &period);
  } else {
    text->status = nvml_DeviceGetUtilizationRates(gpu->device, &rates);
    value = argument == SMI_UTILIZATION_GPU ? rates.gpu : rates.memory;
  }
  smi_text_format(text, "%u", value);
}

void smi_read_temperature(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned value = 0;
  text->status = nvml_DeviceGetTemperature(gpu->device, argument, &value);
  smi_text_format(text, "%u", value);
}

void smi_read_temperature_threshold(const struct smi_gpu *gpu, int argument,
                                    struct smi_text *text) {
  unsigned value = 0;
  text->status = nvml_DeviceGetTemperatureThreshold(gpu->device, argument, &value);
  smi_text_format(text, "%u", value);
}

void smi_read_fan(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  unsigned value = 0;
  text->status = nvml_DeviceGetFanSpeed(gpu->device, &value);
  smi_text_format(text, "%u", value);
}

void smi_read_performance_state(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  int state = NVML_PSTATE_UNKNOWN;
  text->status = nvml_DeviceGetPerformanceState(gpu->device, &state);
  if (!text->status && state == NVML_PSTATE_UNKNOWN) text->status = NVML_ERROR_NOT_SUPPORTED;
  smi_text_format(text, "P%d", state);
}

static nvmlReturn_t power(nvmlDevice_t device, int which, unsigned *mw) {
  unsigned low = 0, high = 0;
  nvmlReturn_t status;
  switch (which) {
    case SMI_POWER_DRAW:
      return nvml_DeviceGetPowerUsage(device, mw);
    case SMI_POWER_LIMIT:
      return nvml_DeviceGetEnforcedPowerLimit(device, mw);
    case SMI_POWER_REQUESTED:
      return nvml_DeviceGetPowerManagementLimit(device, mw);
    case SMI_POWER_DEFAULT:
      return nvml_DeviceGetPowerManagementDefaultLimit(device, mw);
    default:
      status = nvml_DeviceGetPowerManagementLimitConstraints(device, &low, &high);
      *mw = which == SMI_POWER_MIN ? low : high;
      return status;
  }
}

void smi_read_power(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned mw = 0;
  text->status = power(gpu->device, argument, &mw);
  smi_text_format(text, "%u.%02u", mw / 1000, mw % 1000 / 10);
}

void smi_read_energy(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  unsigned long long mj = 0;
  text->status = nvml_DeviceGetTotalEnergyConsumption(gpu->device, &mj);
  smi_text_format(text, "%llu", mj);
}

#define CLOCK(reader, call)                                                               \
  void smi_read_##reader(const struct smi_gpu *gpu, int argument, struct smi_text *text) { \
    unsigned mhz = 0;                                                                     \
    text->status = nvml_##call(gpu->device, argument, &mhz);                              \
    smi_text_format(text, "%u", mhz);                                                     \
  }
CLOCK(clock, DeviceGetClockInfo)
CLOCK(clock_limit, DeviceGetMaxClockInfo)
CLOCK(clock_application, DeviceGetApplicationsClock)
CLOCK(clock_default, DeviceGetDefaultApplicationsClock)

void smi_read_clocks_reason(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned long long reasons = 0;
  text->status = nvml_DeviceGetCurrentClocksEventReasons(gpu->device, &reasons);
  if (text->status == NVML_ERROR_FUNCTION_NOT_FOUND) /* its name before NVML 12 */
    text->status = nvml_DeviceGetCurrentClocksThrottleReasons(gpu->device, &reasons);
  if (argument)
    smi_text_format(text, "%s", reasons & (unsigned)argument ? "Active" : "Not Active");
  else
    smi_text_format(text, "0x%016llX", reasons);
}

void smi_read_ecc_errors(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  const int type = argument & 15, counter = argument >> 4 & 15, location = argument >> 8;
  unsigned long long count = 0;
  text->status =
      location ? nvml_DeviceGetMemoryErrorCounter(gpu->device, type, counter, location, &count)
               : nvml_DeviceGetTotalEccErrors(gpu->device, type, counter, &count);
  smi_text_format(text, "%llu", count);
}

void smi_read_remapped_rows(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned values[4] = {0, 0, 0, 0};
  text->status =
      nvml_DeviceGetRemappedRows(gpu->device, &values[0], &values[1], &values[2], &values[3]);
  if (argument < 2)
    smi_text_format(text, "%u", values[argument]);
  else
    smi_text_format(text, "%s", values[argument] ? "Yes" : "No");
}
