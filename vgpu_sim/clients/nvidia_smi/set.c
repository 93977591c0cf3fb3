/* The options -pm and -mig. */
#include <stdio.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "outputs.h"

static nvmlReturn_t set_persistence(const struct smi_gpu *gpu, int mode) {
  const char *word = mode ? "Enabled" : "Disabled";
  int before = -1;
  if (!nvml_DeviceGetPersistenceMode(gpu->device, &before) && before == mode) {
    printf("Persistence mode is already %s for GPU %s.\n", word, gpu->bus_id);
    return NVML_SUCCESS;
  }
  const nvmlReturn_t status = nvml_DeviceSetPersistenceMode(gpu->device, mode);
  if (status)
    printf("Unable to set persistence mode for GPU %s: %s\n", gpu->bus_id, smi_nvml_text(status));
  else
    printf("%s persistence mode for GPU %s.\n", word, gpu->bus_id);
  return status;
}

static nvmlReturn_t set_mig(const struct smi_gpu *gpu, int mode) {
  nvmlReturn_t activation = NVML_SUCCESS;
  const nvmlReturn_t status = nvml_DeviceSetMigMode(gpu->device, (unsigned)mode, &activation);
  if (status)
    printf("Unable to %s MIG Mode for GPU %s: %s\n", mode ? "enable" : "disable", gpu->bus_id,
           smi_nvml_text(status));
  else if (activation)
    printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n", mode ? "enable" : "disable",
           gpu->bus_id, smi_nvml_text(activation));
  else
    printf("%s MIG Mode for GPU %s\n", mode ? "Enabled" : "Disabled", gpu->bus_id);
  return status;
}

int smi_set(const struct smi_gpus *gpus, const struct smi_options *options) {
  nvmlReturn_t worst = NVML_SUCCESS;
  for (unsigned i = 0; i < gpus->count; i++) {
    const nvmlReturn_t status = options->action == SMI_SET_MIG
                                    ? set_mig(&gpus->list[i], options->value)
                                    : set_persistence(&gpus->list[i], options->value);
    if (status) worst = status;
  }
  puts(worst ? "Terminating early due to previous errors." : "All done.");
  return smi_exit_of(worst);
}
