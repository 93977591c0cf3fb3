#define _GNU_SOURCE
#include "nvml/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "nvml/text.h"

static nvmlReturn_t look(struct smi_gpu *gpu, unsigned index) {
  memset(gpu, 0, sizeof *gpu);
  gpu->index = index;
  const nvmlReturn_t status = nvml_DeviceGetHandleByIndex_v2(index, &gpu->device);
  if (status) return status;
  nvmlPciInfo_t pci;
  memset(&pci, 0, sizeof pci);
  if (!nvml_DeviceGetPciInfo_v3(gpu->device, &pci)) {
    memcpy(gpu->bus_id, pci.bus_id, sizeof gpu->bus_id);
    gpu->bus_id[sizeof gpu->bus_id - 1] = 0;
  }
  gpu->bus_id[strspn(gpu->bus_id, "0123456789abcdefABCDEF:.")] = 0; /* as in the XML output */
  unsigned current = 0, pending = 0;
  gpu->mig_enabled = !nvml_DeviceGetMigMode(gpu->device, &current, &pending) && current == 1;
  return NVML_SUCCESS;
}

/* Compare PCI bus ids, whose domains have four digits or eight. */
static bool same_bus(const char *wanted, const char *bus_id) {
  const char *colon = strchr(bus_id, ':');
  if (!*bus_id) return false;
  if (strcasecmp(wanted, bus_id) == 0) return true;
  if (colon && colon - bus_id == 8 && strcasecmp(wanted, bus_id + 4) == 0) return true;
  return colon && strcasecmp(wanted, colon + 1) == 0;
}

static bool is_named(const struct smi_gpu *gpu, const char *wanted) {
  char *end;
  const unsigned long index = strtoul(wanted, &end, 10);
  if (*wanted && *end == 0 && strlen(wanted) < 4) return index == gpu->index;
  if (same_bus(wanted, gpu->bus_id)) return true;
  char text[96] = "";
  if (!nvml_DeviceGetUUID(gpu->device, text, sizeof text) && strcasecmp(wanted, text) == 0)
    return true;
  return !nvml_DeviceGetSerial(gpu->device, text, sizeof text) && strcmp(wanted, text) == 0;
}

static bool add(struct smi_gpus *gpus, const struct smi_gpu *all, const char *wanted) {
  for (unsigned i = 0; i < gpus->attached; i++) {
    if (!all[i].device || !is_named(&all[i], wanted)) continue;
    for (unsigned k = 0; k < gpus->count; k++)
      if (gpus->list[k].index == all[i].index) return true;
    gpus->list[gpus->count++] = all[i];
    return true;
  }
  return false;
}

int smi_gpus_choose(struct smi_gpus *gpus, const char *chosen) {
  static struct smi_gpu all[SMI_MAX_GPUS];
  memset(gpus, 0, sizeof *gpus);
  const nvmlReturn_t status = nvml_DeviceGetCount_v2(&gpus->attached);
  if (status) {
    printf("Failed to query the number of GPUs: %s\n", smi_nvml_text(status));
    return smi_exit_of(status);
  }
  if (gpus->attached > SMI_MAX_GPUS) gpus->attached = SMI_MAX_GPUS;
  nvmlReturn_t lost = NVML_SUCCESS;
  for (unsigned i = 0; i < gpus->attached; i++) {
    const nvmlReturn_t without = look(&all[i], i);
    if (without) {
      printf("Unable to determine the device handle for GPU %u: %s\n", i, smi_nvml_text(without));
      lost = without;
    } else if (!chosen) {
      gpus->list[gpus->count++] = all[i];
    }
  }
  if (chosen) {
    char names[1024];
    if (snprintf(names, sizeof names, "%s", chosen) >= (int)sizeof names) {
      puts("The list of GPUs is too long.");
      return SMI_EXIT_INVALID;
    }
    for (char *rest = names, *name; (name = strsep(&rest, ",")) != NULL;)
      if (!add(gpus, all, name)) {
        puts("No devices were found");
        return SMI_EXIT_NOT_FOUND;
      }
  }
  if (gpus->count) return SMI_EXIT_SUCCESS;
  if (lost) return smi_exit_of(lost);
  puts("No devices were found");
  return SMI_EXIT_NOT_FOUND;
}

unsigned smi_mig_devices(const struct smi_gpu *gpu, smi_visit *visit, void *context) {
  unsigned limit = 0, found = 0;
  if (!gpu->mig_enabled || nvml_DeviceGetMaxMigDeviceCount(gpu->device, &limit)) return 0;
  for (unsigned i = 0; i < limit && i < SMI_MAX_GPUS; i++) {
    struct smi_mig_device one = {.index = i};
    if (nvml_DeviceGetMigDeviceHandleByIndex(gpu->device, i, &one.device)) continue;
    if (nvml_DeviceGetGpuInstanceId(one.device, &one.gpu_instance_id) ||
        nvml_DeviceGetComputeInstanceId(one.device, &one.compute_instance_id))
      continue;
    found++;
    if (visit) visit(gpu, &one, context);
  }
  return found;
}

struct found {
  struct smi_process *list;
  unsigned count;
};

/* Add a process to the list. ``mig``: its MIG device, if NVML does not report it. */
static void note(struct found *found, nvmlProcessInfo_t *info, char type,
                 const struct smi_mig_device *mig) {
  if (mig && info->gpu_instance_id == NVML_UNKNOWN_ID) {
    info->gpu_instance_id = mig->gpu_instance_id;
    info->compute_instance_id = mig->compute_instance_id;
  }
  for (unsigned i = 0; i < found->count; i++) {
    struct smi_process *known = &found->list[i];
    if (known->pid != info->pid || known->gpu_instance_id != info->gpu_instance_id ||
        known->compute_instance_id != info->compute_instance_id)
      continue;
    if (known->type != type) known->type = '+';
    return;
  }
  if (found->count == SMI_MAX_PROCESSES) return;
  found->list[found->count++] = (struct smi_process){
      info->pid, info->gpu_instance_id, info->compute_instance_id, type, info->used_gpu_memory};
}

static void note_all(struct found *found, nvmlDevice_t device, const struct smi_mig_device *mig) {
  static nvmlProcessInfo_t infos[SMI_MAX_PROCESSES];
  unsigned count = SMI_MAX_PROCESSES;
  if (!nvml_DeviceGetComputeRunningProcesses_v3(device, &count, infos))
    for (unsigned i = 0; i < count && i < SMI_MAX_PROCESSES; i++) note(found, &infos[i], 'C', mig);
  count = SMI_MAX_PROCESSES;
  if (!nvml_DeviceGetGraphicsRunningProcesses_v3(device, &count, infos))
    for (unsigned i = 0; i < count && i < SMI_MAX_PROCESSES; i++) note(found, &infos[i], 'G', mig);
}

static void note_mig(const struct smi_gpu *gpu, const struct smi_mig_device *one, void *context) {
  (void)gpu;
  note_all(context, one->device, one);
}

unsigned smi_processes(const struct smi_gpu *gpu, struct smi_process list[SMI_MAX_PROCESSES]) {
  struct found found = {list, 0};
  note_all(&found, gpu->device, NULL);
  smi_mig_devices(gpu, note_mig, &found);
  return found.count;
}

void smi_process_name(unsigned pid, char *name, unsigned size) {
  memset(name, 0, size);
  if (nvml_SystemGetProcessName(pid, name, size) || !*name) snprintf(name, size, "[Not Found]");
  name[size - 1] = 0;
  smi_clean(name);
}
