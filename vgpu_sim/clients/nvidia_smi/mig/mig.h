/* The command nvidia-smi mig. */
#pragma once

#include <stdbool.h>

#include "nvml/gpus.h"

enum { SMI_MAX_IDS = 64, SMI_MAX_INSTANCES = 64 };

enum smi_mig_verb {
  SMI_MIG_NONE,
  SMI_MIG_LGIP,
  SMI_MIG_LGIPP,
  SMI_MIG_LGI,
  SMI_MIG_LCIP,
  SMI_MIG_LCI,
  SMI_MIG_CGI,
  SMI_MIG_CCI,
  SMI_MIG_DGI,
  SMI_MIG_DCI,
};

struct smi_mig_options {
  enum smi_mig_verb verb;
  const char *id, *profiles;
  bool compute_too; /* -C */
  unsigned gi_count, ci_count; /* 0: all */
  unsigned gi[SMI_MAX_IDS], ci[SMI_MAX_IDS];
};

/* Whether an instance's id was selected. */
bool smi_mig_wants(const unsigned *ids, unsigned count, unsigned id);

/* Fill ``infos`` with a GPU's profiles, sorted by size; returns their number. */
unsigned smi_mig_profiles(const struct smi_gpu *gpu,
                          nvmlGpuInstanceProfileInfo_v2_t infos[NVML_GPU_INSTANCE_PROFILE_COUNT]);

struct smi_gpu_instance {
  nvmlGpuInstance_t handle;
  nvmlGpuInstanceInfo_t info;
  nvmlGpuInstanceProfileInfo_v2_t profile;
};

/* Fill ``found`` with the GPU's instances that ``options`` select, sorted by profile. */
unsigned smi_gpu_instances(const struct smi_gpu *gpu, const struct smi_mig_options *options,
                           struct smi_gpu_instance found[SMI_MAX_INSTANCES]);

struct smi_compute_instance {
  nvmlComputeInstance_t handle;
  nvmlComputeInstanceInfo_t info;
  nvmlComputeInstanceProfileInfo_v2_t profile;
};

unsigned smi_compute_profiles(
    nvmlGpuInstance_t instance,
    nvmlComputeInstanceProfileInfo_v2_t infos[NVML_COMPUTE_INSTANCE_PROFILE_COUNT]);
unsigned smi_compute_instances(nvmlGpuInstance_t instance, const struct smi_mig_options *options,
                               struct smi_compute_instance found[SMI_MAX_INSTANCES]);

/* Each function prints its results or an error, and returns an exit status. */
int smi_mig_list(const struct smi_gpus *gpus, const struct smi_mig_options *options);
int smi_mig_create_gpu_instances(const struct smi_gpus *gpus,
                                 const struct smi_mig_options *options);
int smi_mig_create_compute_instances(const struct smi_gpus *gpus,
                                     const struct smi_mig_options *options);
int smi_mig_destroy(const struct smi_gpus *gpus, const struct smi_mig_options *options);
