/* nvidia-smi mig -lgip, -lgipp, -lgi, -lcip, -lci. */
#include <stdio.h>
#include <string.h>

#include "exits.h"
#include "mig/mig.h"
#include "nvml/nvml.h"

static void rule(int inner) {
  putchar('+');
  for (int i = 0; i < inner; i++) putchar('-');
  puts("+");
}

/* Write a profile's memory as nvidia-smi prints it: in GiB with two decimal places, never rounded
   up. */
static const char *gib(unsigned long long mib, char out[32]) {
  snprintf(out, 32, "%llu.%02llu", mib / 1024, mib % 1024 * 100 / 1024);
  return out;
}

static unsigned list_profiles(const struct smi_gpu *gpu) {
  nvmlGpuInstanceProfileInfo_v2_t infos[NVML_GPU_INSTANCE_PROFILE_COUNT];
  const unsigned count = smi_mig_profiles(gpu, infos);
  for (unsigned i = 0; i < count; i++) {
    const nvmlGpuInstanceProfileInfo_v2_t *one = &infos[i];
    char name[128], free_total[32], memory[32];
    unsigned available = 0;
    if (gpu->mig_enabled)
      nvml_DeviceGetGpuInstanceRemainingCapacity(gpu->device, one->id, &available);
    snprintf(name, sizeof name, "MIG %s", one->name);
    snprintf(free_total, sizeof free_total, "%u/%u", available, one->instances);
    printf("|%4u  %-17s %2u     %-11s%-11s%-7s%-7u%-6u%-4u|\n", gpu->index, name, one->id,
           free_total, gib(one->memory_mib, memory), one->p2p_supported ? "Yes" : "No",
           one->multiprocessors, one->decoders, one->encoders);
    printf("|%61s%-6u%-6u%-4u|\n", "", one->copy_engines, one->jpegs, one->ofas);
    rule(77);
  }
  return count;
}

static unsigned list_placements(const struct smi_gpu *gpu) {
  nvmlGpuInstanceProfileInfo_v2_t infos[NVML_GPU_INSTANCE_PROFILE_COUNT];
  const unsigned count = smi_mig_profiles(gpu, infos);
  for (unsigned i = 0; i < count; i++) {
    nvmlPlacement_t placements[SMI_MAX_INSTANCES];
    unsigned places = SMI_MAX_INSTANCES;
    if (nvml_DeviceGetGpuInstancePossiblePlacements_v2(gpu->device, infos[i].id, NULL, &places) ||
        places > SMI_MAX_INSTANCES ||
        nvml_DeviceGetGpuInstancePossiblePlacements_v2(gpu->device, infos[i].id, placements,
                                                       &places) ||
        !places)
      continue;
    printf("GPU %2u Profile ID %2u Placement%s: {", gpu->index, infos[i].id,
           places > 1 ? "s" : " ");
    for (unsigned k = 0; k < places && k < SMI_MAX_INSTANCES; k++)
      printf("%s%u", k ? "," : "", placements[k].start);
    printf("}:%u\n", placements[0].size);
  }
  return count;
}

static unsigned list_instances(const struct smi_gpu *gpu, const struct smi_mig_options *options) {
  struct smi_gpu_instance found[SMI_MAX_INSTANCES];
  const unsigned count = smi_gpu_instances(gpu, options, found);
  for (unsigned i = 0; i < count; i++) {
    char name[128], place[32];
    snprintf(name, sizeof name, "MIG %s", found[i].profile.name);
    snprintf(place, sizeof place, "%u:%u", found[i].info.placement.start,
             found[i].info.placement.size);
    printf("|%4u  %-17s   %2u       %2u          %-8s|\n", gpu->index, name, found[i].profile.id,
           found[i].info.id, place);
    rule(55);
  }
  return count;
}

static unsigned list_compute_profiles(const struct smi_gpu *gpu,
                                      const struct smi_mig_options *options) {
  struct smi_gpu_instance found[SMI_MAX_INSTANCES];
  const unsigned count = smi_gpu_instances(gpu, options, found);
  unsigned listed = 0;
  for (unsigned i = 0; i < count; i++) {
    nvmlComputeInstanceProfileInfo_v2_t infos[NVML_COMPUTE_INSTANCE_PROFILE_COUNT];
    const unsigned kinds = smi_compute_profiles(found[i].handle, infos);
    listed += kinds;
    for (unsigned k = 0; k < kinds; k++) {
      const nvmlComputeInstanceProfileInfo_v2_t *one = &infos[k];
      char name[128], id[16], free_total[32];
      unsigned available = 0;
      nvml_GpuInstanceGetComputeInstanceRemainingCapacity(found[i].handle, one->id, &available);
      snprintf(name, sizeof name, "MIG %s", one->name);
        snprintf(id, sizeof id, "%u%s", one->id, one->slices == found[i].profile.slices ? "*" : "");
      snprintf(free_total, sizeof free_total, "%u/%u", available, one->instances);
      printf("|%4u      %u%*s%-20s %-7s%-14s%-10u%-6u%-6u%-4u|\n", gpu->index, found[i].info.id,
             found[i].info.id > 9 ? 6 : 7, "", name, id, free_total, one->multiprocessors,
             one->decoders, one->encoders, one->ofas);
      printf("|%70s%-6u%-10u|\n", "", one->copy_engines, one->jpegs);
      rule(86);
    }
  }
  return listed;
}

static unsigned list_compute_instances(const struct smi_gpu *gpu,
                                       const struct smi_mig_options *options) {
  struct smi_gpu_instance found[SMI_MAX_INSTANCES];
  const unsigned count = smi_gpu_instances(gpu, options, found);
  unsigned listed = 0;
  for (unsigned i = 0; i < count; i++) {
    struct smi_compute_instance inner[SMI_MAX_INSTANCES];
    const unsigned instances = smi_compute_instances(found[i].handle, options, inner);
    listed += instances;
    for (unsigned k = 0; k < instances; k++) {
      char name[128], place[32];
      snprintf(name, sizeof name, "MIG %s", inner[k].profile.name);
        snprintf(place, sizeof place, "%u:%u", inner[k].info.placement.start,
               inner[k].info.placement.size);
      printf("|%4u     %2u       %-20s %2u        %2u          %-8s|\n", gpu->index,
             found[i].info.id, name, inner[k].profile.id, inner[k].info.id, place);
      rule(68);
    }
  }
  return listed;
}

/* Report that there are no rows. */
static int nothing(enum smi_mig_verb verb) {
  switch (verb) {
    case SMI_MIG_LGI:
      puts("No GPU instances found: Not Found");
      break;
    case SMI_MIG_LCI:
      puts("No compute instances found: Not Found");
      break;
    case SMI_MIG_LCIP:
      puts("No compute instance profiles found: Not Found");
      break;
    default:
      puts("No GPU instance profiles found: Not Supported");
      return SMI_EXIT_UNSUPPORTED;
  }
  return SMI_EXIT_NOT_FOUND;
}

static void head(enum smi_mig_verb verb) {
  switch (verb) {
    case SMI_MIG_LGIP:
      rule(77);
      puts("| GPU instance profiles:                                                      |\n"
           "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
           "|                              Free/Total   GiB              CE    JPEG  OFA  |\n"
           "|=============================================================================|");
      break;
    case SMI_MIG_LGI:
      rule(55);
      puts("| GPU instances:                                        |\n"
           "| GPU   Name             Profile  Instance   Placement  |\n"
           "|                          ID       ID       Start:Size |\n"
           "|=======================================================|");
      break;
    case SMI_MIG_LCIP:
      rule(86);
      puts("| Compute instance profiles:                                                           |\n"
           "| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |\n"
           "|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |\n"
           "|         ID                                                          CE    JPEG       |\n"
           "|======================================================================================|");
      break;
    case SMI_MIG_LCI:
      rule(68);
      puts("| Compute instances:                                                 |\n"
           "| GPU     GPU       Name             Profile   Instance   Placement  |\n"
           "|       Instance                       ID        ID       Start:Size |\n"
           "|         ID                                                         |\n"
           "|====================================================================|");
      break;
    default:
      break;
  }
}

static unsigned list(const struct smi_gpu *gpu, const struct smi_mig_options *options) {
  switch (options->verb) {
    case SMI_MIG_LGIP:
      return list_profiles(gpu);
    case SMI_MIG_LGIPP:
      return list_placements(gpu);
    case SMI_MIG_LGI:
      return list_instances(gpu, options);
    case SMI_MIG_LCIP:
      return list_compute_profiles(gpu, options);
    default:
      return list_compute_instances(gpu, options);
  }
}

/* Whether there is any row; the head of an empty table is not printed. */
static bool any(const struct smi_gpus *gpus, const struct smi_mig_options *options) {
  nvmlGpuInstanceProfileInfo_v2_t profiles[NVML_GPU_INSTANCE_PROFILE_COUNT];
  struct smi_gpu_instance found[SMI_MAX_INSTANCES];
  struct smi_compute_instance inner[SMI_MAX_INSTANCES];
  for (unsigned i = 0; i < gpus->count; i++) {
    if (options->verb == SMI_MIG_LGIP || options->verb == SMI_MIG_LGIPP) {
      if (smi_mig_profiles(&gpus->list[i], profiles)) return true;
      continue;
    }
    const unsigned count = smi_gpu_instances(&gpus->list[i], options, found);
    for (unsigned k = 0; k < count; k++)
      if (options->verb != SMI_MIG_LCI || smi_compute_instances(found[k].handle, options, inner))
        return true;
  }
  return false;
}

int smi_mig_list(const struct smi_gpus *gpus, const struct smi_mig_options *options) {
  if (!any(gpus, options)) return nothing(options->verb);
  head(options->verb);
  for (unsigned i = 0; i < gpus->count; i++) list(&gpus->list[i], options);
  return SMI_EXIT_SUCCESS;
}
