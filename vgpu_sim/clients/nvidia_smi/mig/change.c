/* nvidia-smi mig -cgi, -cci, -dgi, -dci. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exits.h"
#include "mig/mig.h"
#include "nvml/nvml.h"
#include "nvml/text.h"

static int fail(const char *what, nvmlReturn_t status) {
  printf("Failed to %s: %s\n", what, smi_nvml_text(status));
  return smi_exit_of(status);
}

/* Whether ``word`` is a profile's id, its name, or its name after "MIG ". */
static bool is_profile(const char *word, unsigned id, const char *name) {
  char *end;
  const unsigned long number = strtoul(word, &end, 10);
  if (*word >= '0' && *word <= '9' && *end == 0) return number == id;
  if (strncmp(word, "MIG ", 4) == 0) word += 4;
  return strcmp(word, name) == 0;
}

/* Split PROFILE or PROFILE:START; false if the start is not a number. `*start` -1: any. */
static bool split(const char *word, char profile[64], long *start) {
  snprintf(profile, 64, "%s", word);
  char *colon = strchr(profile, ':'), *end;
  *start = -1;
  if (!colon) return true;
  *colon++ = 0;
  *start = strtol(colon, &end, 10);
  return *colon >= '0' && *colon <= '9' && !*end && *start <= 255;
}

/* Create a compute instance. ``word`` is PROFILE or PROFILE:START; NULL: the whole GPU instance. */
static nvmlReturn_t create_compute(const struct smi_gpu *gpu, const struct smi_gpu_instance *in,
                                   const char *word) {
  nvmlComputeInstanceProfileInfo_v2_t infos[NVML_COMPUTE_INSTANCE_PROFILE_COUNT];
  const unsigned count = smi_compute_profiles(in->handle, infos);
  nvmlReturn_t status = NVML_ERROR_INVALID_ARGUMENT;
  char profile[64] = "";
  long start = -1;
  const bool good = !word || split(word, profile, &start);
  for (unsigned i = 0; good && i < count; i++) {
    const bool wanted = word ? is_profile(profile, infos[i].id, infos[i].name)
                             : infos[i].slices == in->profile.slices;
    if (!wanted) continue;
    nvmlComputeInstance_t made;
    nvmlComputeInstanceInfo_t info;
    const nvmlPlacement_t place = {(unsigned)start, infos[i].slices};
    status = start < 0 ? nvml_GpuInstanceCreateComputeInstance(in->handle, infos[i].id, &made)
                       : nvml_GpuInstanceCreateComputeInstanceWithPlacement(
                             in->handle, infos[i].id, &place, &made);
    if (!status) status = nvml_ComputeInstanceGetInfo_v2(made, &info);
    if (status) break;
    printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using"
           " profile MIG %s (ID %2u)\n",
           info.id, gpu->index, in->info.id, infos[i].name, infos[i].id);
    return NVML_SUCCESS;
  }
  printf("Unable to create a compute instance on GPU %2u GPU instance ID %2u using profile %.64s:"
         " %s\n",
         gpu->index, in->info.id, word ? word : "default", smi_nvml_text(status));
  return status;
}

/* Create a GPU instance. ``word`` is PROFILE or PROFILE:START. */
static nvmlReturn_t create_gpu(const struct smi_gpu *gpu, const char *word, bool compute_too) {
  nvmlGpuInstanceProfileInfo_v2_t infos[NVML_GPU_INSTANCE_PROFILE_COUNT];
  const unsigned count = smi_mig_profiles(gpu, infos);
  char profile[64];
  long start;
  nvmlReturn_t status = NVML_ERROR_INVALID_ARGUMENT;
  const bool good = split(word, profile, &start);
  for (unsigned i = 0; good && i < count; i++) {
    if (!is_profile(profile, infos[i].id, infos[i].name)) continue;
    struct smi_gpu_instance made = {.profile = infos[i]};
    nvmlPlacement_t places[SMI_MAX_INSTANCES];
    unsigned known = SMI_MAX_INSTANCES;
    if (start < 0) {
      status = nvml_DeviceCreateGpuInstance(gpu->device, infos[i].id, &made.handle);
    } else {
      status = nvml_DeviceGetGpuInstancePossiblePlacements_v2(gpu->device, infos[i].id, places,
                                                              &known);
      if (status) break;
      const nvmlPlacement_t place = {(unsigned)start, known ? places[0].size : 0};
      status = nvml_DeviceCreateGpuInstanceWithPlacement(gpu->device, infos[i].id, &place,
                                                         &made.handle);
    }
    if (!status) status = nvml_GpuInstanceGetInfo(made.handle, &made.info);
    if (status) break;
    printf("Successfully created GPU instance ID %2u on GPU %2u using profile MIG %s (ID %2u)\n",
           made.info.id, gpu->index, infos[i].name, infos[i].id);
    return compute_too ? create_compute(gpu, &made, NULL) : NVML_SUCCESS;
  }
  if (!status) status = NVML_ERROR_INVALID_ARGUMENT;
  printf("Unable to create a GPU instance on GPU %2u using profile %.64s: %s\n", gpu->index, word,
         smi_nvml_text(status));
  return status;
}

int smi_mig_create_gpu_instances(const struct smi_gpus *gpus,
                                 const struct smi_mig_options *options) {
  for (unsigned i = 0; i < gpus->count; i++) {
    char words[1024];
    if (snprintf(words, sizeof words, "%s", options->profiles) >= (int)sizeof words)
      return SMI_EXIT_INVALID;
    smi_clean(words);
    for (char *rest = words, *word; (word = strsep(&rest, ",")) != NULL;) {
      const nvmlReturn_t status = create_gpu(&gpus->list[i], word, options->compute_too);
      if (status) return fail("create GPU instances", status);
    }
  }
  return SMI_EXIT_SUCCESS;
}

int smi_mig_create_compute_instances(const struct smi_gpus *gpus,
                                     const struct smi_mig_options *options) {
  unsigned seen = 0;
  for (unsigned i = 0; i < gpus->count; i++) {
    struct smi_gpu_instance found[SMI_MAX_INSTANCES];
    const unsigned count = smi_gpu_instances(&gpus->list[i], options, found);
    seen += count;
    for (unsigned k = 0; k < count; k++) {
      char words[1024] = "";
      if (options->profiles &&
          snprintf(words, sizeof words, "%s", options->profiles) >= (int)sizeof words)
        return SMI_EXIT_INVALID;
      smi_clean(words);
      char *rest = words, *word = NULL;
      do {
        if (options->profiles) word = strsep(&rest, ",");
        const nvmlReturn_t status = create_compute(&gpus->list[i], &found[k], word);
        if (status) return fail("create compute instances", status);
      } while (options->profiles && rest);
    }
  }
  if (seen) return SMI_EXIT_SUCCESS;
  puts("No GPU instances found: Not Found");
  return SMI_EXIT_NOT_FOUND;
}

static nvmlReturn_t destroy_compute(const struct smi_gpu *gpu, const struct smi_gpu_instance *in,
                                    const struct smi_mig_options *options, unsigned *seen) {
  struct smi_compute_instance found[SMI_MAX_INSTANCES];
  const unsigned count = smi_compute_instances(in->handle, options, found);
  *seen += count;
  for (unsigned i = 0; i < count; i++) {
    const nvmlReturn_t status = nvml_ComputeInstanceDestroy(found[i].handle);
    if (status) {
      printf("Unable to destroy compute instance ID %2u from GPU %2u GPU instance ID %2u: %s\n",
             found[i].info.id, gpu->index, in->info.id, smi_nvml_text(status));
      return status;
    }
    printf("Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID %2u\n",
           found[i].info.id, gpu->index, in->info.id);
  }
  return NVML_SUCCESS;
}

static nvmlReturn_t destroy_gpu(const struct smi_gpu *gpu, const struct smi_gpu_instance *one) {
  const nvmlReturn_t status = nvml_GpuInstanceDestroy(one->handle);
  if (status)
    printf("Unable to destroy GPU instance ID %2u from GPU %2u: %s\n", one->info.id, gpu->index,
           smi_nvml_text(status));
  else
    printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", one->info.id, gpu->index);
  return status;
}

int smi_mig_destroy(const struct smi_gpus *gpus, const struct smi_mig_options *options) {
  const bool compute = options->verb == SMI_MIG_DCI;
  const char *what = compute ? "destroy compute instances" : "destroy GPU instances";
  unsigned seen = 0;
  for (unsigned i = 0; i < gpus->count; i++) {
    struct smi_gpu_instance found[SMI_MAX_INSTANCES];
    const unsigned count = smi_gpu_instances(&gpus->list[i], options, found);
    for (unsigned k = 0; k < count; k++) {
      const nvmlReturn_t status = compute
                                      ? destroy_compute(&gpus->list[i], &found[k], options, &seen)
                                      : destroy_gpu(&gpus->list[i], &found[k]);
      if (!compute) seen++;
      if (status) return fail(what, status);
    }
  }
  if (seen) return SMI_EXIT_SUCCESS;
  printf("No %s instances found: Not Found\n", compute ? "compute" : "GPU");
  return SMI_EXIT_NOT_FOUND;
}
