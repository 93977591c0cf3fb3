/* -L: one line per GPU and MIG device. */
#include <stdio.h>
#include <string.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "outputs.h"
#include "readings/readings.h"

/* Return the part of a MIG device's name after "MIG ", or the whole name without that prefix. */
static const char *profile_of(const char *name) {
  const char *found = strstr(name, " MIG ");
  return found ? found + 5 : name;
}

static void mig_line(const struct smi_gpu *gpu, const struct smi_mig_device *one, void *context) {
  (void)gpu, (void)context;
  const struct smi_gpu device = {.device = one->device};
  struct smi_text name = {.status = 0}, uuid = {.status = 0};
  smi_read_name(&device, 0, &name);
  smi_read_uuid(&device, 0, &uuid);
  printf("  MIG %-11s Device %2u: (UUID: %s)\n", profile_of(smi_text_shown(&name)), one->index,
         smi_text_shown(&uuid));
}

int smi_list(const struct smi_gpus *gpus) {
  for (unsigned i = 0; i < gpus->count; i++) {
    const struct smi_gpu *gpu = &gpus->list[i];
    struct smi_text name = {.status = 0}, uuid = {.status = 0};
    smi_read_name(gpu, 0, &name);
    smi_read_uuid(gpu, 0, &uuid);
    printf("GPU %u: %s (UUID: %s)\n", gpu->index, smi_text_shown(&name), smi_text_shown(&uuid));
    smi_mig_devices(gpu, mig_line, NULL);
  }
  return SMI_EXIT_SUCCESS;
}
