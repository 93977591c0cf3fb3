/* The GPUs that a command applies to, and their MIG devices. */
#pragma once

#include <stdbool.h>

#include "nvml/nvml_types.h"

enum { SMI_MAX_GPUS = 64, SMI_MAX_PROCESSES = 256 };

struct smi_gpu {
  unsigned index;
  nvmlDevice_t device;
  char bus_id[32];
  bool mig_enabled;
};

struct smi_gpus {
  unsigned attached; /* all GPUs that NVML reports */
  unsigned count;    /* the selected ones */
  struct smi_gpu list[SMI_MAX_GPUS];
};

struct smi_mig_device {
  unsigned index, gpu_instance_id, compute_instance_id;
  nvmlDevice_t device;
};

struct smi_process {
  unsigned pid, gpu_instance_id, compute_instance_id; /* the ids are NVML_UNKNOWN_ID without MIG */
  char type;                                          /* C or G; + for both */
  unsigned long long used_bytes;                      /* all ones: unknown */
};

/* Fill ``gpus`` with those that ``chosen`` names, separated by commas, by index, UUID, PCI bus
   id or serial number; NULL: all. Returns an exit status, and has printed any error. */
int smi_gpus_choose(struct smi_gpus *gpus, const char *chosen);

/* Call ``visit`` for each MIG device of a GPU; returns their number. */
typedef void smi_visit(const struct smi_gpu *, const struct smi_mig_device *, void *context);
unsigned smi_mig_devices(const struct smi_gpu *gpu, smi_visit *visit, void *context);

/* Fill ``list`` with the processes on a GPU, including those of its MIG devices. */
unsigned smi_processes(const struct smi_gpu *gpu, struct smi_process list[SMI_MAX_PROCESSES]);

/* Write the name of a process, or "[Not Found]". */
void smi_process_name(unsigned pid, char *name, unsigned size);
