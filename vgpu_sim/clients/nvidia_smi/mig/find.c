#include <string.h>

#include "mig/mig.h"
#include "nvml/nvml.h"
#include "nvml/text.h"

bool smi_mig_wants(const unsigned *ids, unsigned count, unsigned id) {
  for (unsigned i = 0; i < count; i++)
    if (ids[i] == id) return true;
  return count == 0;
}

/* Terminate a profile's name, replace unsafe characters in it, and remove NVML's prefix "MIG ". */
static void bare(char *name, size_t size) {
  name[size - 1] = 0;
  smi_clean(name);
  if (strncmp(name, "MIG ", 4) == 0) memmove(name, name + 4, strlen(name + 4) + 1);
}

unsigned smi_mig_profiles(const struct smi_gpu *gpu,
                          nvmlGpuInstanceProfileInfo_v2_t infos[NVML_GPU_INSTANCE_PROFILE_COUNT]) {
  /* Compare in nvidia-smi's order: all profiles of one slice, then of two, and so on. */
  static const unsigned order[NVML_GPU_INSTANCE_PROFILE_COUNT] = {0,  7, 9, 10, 15, 13, 1, 8, 11,
                                                                  16, 14, 2, 17, 3,  12, 6, 4, 5};
  unsigned count = 0;
  for (unsigned i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++) {
    nvmlGpuInstanceProfileInfo_v2_t *info = &infos[count];
    memset(info, 0, sizeof *info);
    info->version = NVML_STRUCT_VERSION(*info, 2);
    if (nvml_DeviceGetGpuInstanceProfileInfoV(gpu->device, order[i], info)) continue;
    bare(info->name, sizeof info->name);
    count++;
  }
  return count;
}

unsigned smi_gpu_instances(const struct smi_gpu *gpu, const struct smi_mig_options *options,
                           struct smi_gpu_instance found[SMI_MAX_INSTANCES]) {
  nvmlGpuInstanceProfileInfo_v2_t profiles[NVML_GPU_INSTANCE_PROFILE_COUNT];
  const unsigned kinds = smi_mig_profiles(gpu, profiles);
  unsigned count = 0;
  for (unsigned k = 0; k < kinds; k++) {
    nvmlGpuInstance_t handles[SMI_MAX_INSTANCES];
    unsigned instances = SMI_MAX_INSTANCES;
    if (profiles[k].instances > SMI_MAX_INSTANCES ||
        nvml_DeviceGetGpuInstances(gpu->device, profiles[k].id, handles, &instances))
      continue;
    for (unsigned i = 0; i < instances && count < SMI_MAX_INSTANCES; i++) {
      struct smi_gpu_instance *one = &found[count];
      *one = (struct smi_gpu_instance){.handle = handles[i], .profile = profiles[k]};
      if (nvml_GpuInstanceGetInfo(handles[i], &one->info)) continue;
      count += smi_mig_wants(options->gi, options->gi_count, one->info.id);
    }
  }
  return count;
}

unsigned smi_compute_profiles(
    nvmlGpuInstance_t instance,
    nvmlComputeInstanceProfileInfo_v2_t infos[NVML_COMPUTE_INSTANCE_PROFILE_COUNT]) {
  unsigned count = 0;
  for (unsigned i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++) {
    nvmlComputeInstanceProfileInfo_v2_t *info = &infos[count];
    memset(info, 0, sizeof *info);
    info->version = NVML_STRUCT_VERSION(*info, 2);
    if (nvml_GpuInstanceGetComputeInstanceProfileInfoV(
            instance, i, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, info))
      continue;
    bare(info->name, sizeof info->name);
    count++;
  }
  return count;
}

unsigned smi_compute_instances(nvmlGpuInstance_t instance, const struct smi_mig_options *options,
                               struct smi_compute_instance found[SMI_MAX_INSTANCES]) {
  nvmlComputeInstanceProfileInfo_v2_t profiles[NVML_COMPUTE_INSTANCE_PROFILE_COUNT];
  const unsigned kinds = smi_compute_profiles(instance, profiles);
  unsigned count = 0;
  for (unsigned k = 0; k < kinds; k++) {
    nvmlComputeInstance_t handles[SMI_MAX_INSTANCES];
    unsigned instances = SMI_MAX_INSTANCES;
    if (profiles[k].instances > SMI_MAX_INSTANCES ||
        nvml_GpuInstanceGetComputeInstances(instance, profiles[k].id, handles, &instances))
      continue;
    for (unsigned i = 0; i < instances && count < SMI_MAX_INSTANCES; i++) {
      struct smi_compute_instance *one = &found[count];
      *one = (struct smi_compute_instance){.handle = handles[i], .profile = profiles[k]};
      if (nvml_ComputeInstanceGetInfo_v2(handles[i], &one->info)) continue;
      count += smi_mig_wants(options->ci, options->ci_count, one->info.id);
    }
  }
  return count;
}
