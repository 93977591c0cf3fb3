/* A test double of NVML's public functions, for the tables that nvidia-smi prints: fixed answers
   for two GPUs, the first whole and busy, the second in MIG mode with two MIG devices.
   FAKE_NVML: no_driver, no_devices, lost, off_the_bus, one_off_the_bus, bare (no optional
   function), hostile (names). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml/nvml_types.h"

#define API __attribute__((visibility("default"))) nvmlReturn_t
#define COUNT(array) ((unsigned)(sizeof(array) / sizeof *(array)))

struct nvmlDevice {
  unsigned index;
  const char *name, *uuid;
  unsigned gi, ci; /* of a MIG device */
  unsigned long long memory_mib, used_mib;
};
struct nvmlGpuInstance {
  unsigned id, profile, start;
};
struct nvmlComputeInstance {
  unsigned id;
};

static struct nvmlDevice gpus[] = {
    {0, "NVIDIA H100 80GB HBM3", "GPU-5eb1e1de-0000-4000-8000-000000000000", ~0u, ~0u, 81559, 812},
    {1, "NVIDIA H100 80GB HBM3", "GPU-5eb1e1de-0000-4000-8000-000000000001", ~0u, ~0u, 81559, 24}};
static struct nvmlDevice migs[] = {
    {0, "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "MIG-5eb1e1de-0000-4000-8000-00000000000a", 2, 0, 40448, 37},
    {1, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "MIG-5eb1e1de-0000-4000-8000-00000000000b", 9, 0, 9984, 12}};
static struct nvmlGpuInstance instances[] = {{2, 9, 4}, {9, 19, 0}, {13, 14, 2}};
static struct nvmlComputeInstance compute[] = {{0}, {1}};

static int is(const char *mode) {
  const char *chosen = getenv("FAKE_NVML");
  return chosen && strcmp(chosen, mode) == 0;
}

static int is_mig(nvmlDevice_t device) { return device == &migs[0] || device == &migs[1]; }

static nvmlReturn_t say(char *text, unsigned length, const char *value) {
  if (strlen(value) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(text, value);
  return NVML_SUCCESS;
}

API nvmlInit_v2(void) { return is("no_driver") ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS; }
API nvmlShutdown(void) { return NVML_SUCCESS; }
API nvmlSystemGetDriverVersion(char *text, unsigned length) { return say(text, length, "580.65.06"); }
API nvmlSystemGetNVMLVersion(char *text, unsigned length) { return say(text, length, "13.580.65"); }
API nvmlSystemGetCudaDriverVersion_v2(int *out) { return *out = 13000, NVML_SUCCESS; }
API nvmlDeviceGetCount_v2(unsigned *out) { return *out = is("no_devices") ? 0 : 2, NVML_SUCCESS; }
API nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
  if (index > 1) return NVML_ERROR_INVALID_ARGUMENT;
  if (is("off_the_bus") || (is("one_off_the_bus") && index == 0)) return NVML_ERROR_GPU_IS_LOST;
  return *out = &gpus[index], NVML_SUCCESS;
}
API nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned length) {
  return say(text, length, is("hostile") ? "</gpu>\n\"&" : device->name);
}
API nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned length) {
  return say(text, length, device->uuid);
}
API nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out) {
  memset(out, 0, sizeof *out);
  out->bus = device->index + 1;
  out->pci_device_id = 0x233010de;
  snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
  return NVML_SUCCESS;
}
API nvmlSystemGetProcessName(unsigned pid, char *text, unsigned length) {
  if (pid != 4242) return NVML_ERROR_NOT_FOUND;
  return say(text, length, is("hostile") ? "a, 1\n<b>" : "/usr/bin/python3.11");
}
__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t status) {
  switch (status) {
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "Insufficient Resources";
    case 19:
      return "In use by another client";
    default:
      return "Unknown Error";
  }
}

API nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
  if (is_mig(device)) return NVML_ERROR_NOT_SUPPORTED;
  return *current = *pending = device->index == 1, NVML_SUCCESS;
}
API nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out) {
  if (out->version != 0x02000028) return NVML_ERROR_INVALID_ARGUMENT;
  if (is("lost")) return NVML_ERROR_GPU_IS_LOST;
  out->total = device->memory_mib << 20;
  out->reserved = is_mig(device) ? 0 : 480ULL << 20;
  out->used = device->used_mib << 20;
  out->free = out->total - out->reserved - out->used;
  return NVML_SUCCESS;
}
API nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                            nvmlProcessInfo_t *processes) {
  if (device->index == 1 && !is_mig(device)) return *count = 0, NVML_SUCCESS;
  if (*count < 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  *count = 1;
  processes[0] = (nvmlProcessInfo_t){is_mig(device) ? 7 + device->index : 4242,
                                     device->used_mib << 20, ~0u, ~0u};
  return NVML_SUCCESS;
}
API nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *out) {
  return *out = device->index == 1 ? 7 : 0, NVML_SUCCESS;
}
API nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *out) {
  if (device->index != 1 || index > 1) return NVML_ERROR_NOT_FOUND;
  return *out = &migs[index], NVML_SUCCESS;
}
API nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *out) {
  return *out = device->gi, NVML_SUCCESS;
}
API nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *out) {
  return *out = device->ci, NVML_SUCCESS;
}
API nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out) {
  const unsigned big = device == &migs[0];
  *out = (nvmlDeviceAttributes_t){big ? 60 : 16, big ? 3 : 1, big ? 3 : 1,          0,
                                  big ? 3 : 1,   0,           big ? 3 : 1, big ? 3 : 1,
                                  device->memory_mib};
  return NVML_SUCCESS;
}

#define NUMBER(name, value)                              \
  API nvml##name(nvmlDevice_t device, unsigned *out) {   \
    (void)device;                                        \
    if (is("bare")) return NVML_ERROR_NOT_SUPPORTED;     \
    return *out = (value), NVML_SUCCESS;                 \
  }
NUMBER(DeviceGetMinorNumber, device->index)
NUMBER(DeviceGetArchitecture, 9)
NUMBER(DeviceGetBrand, 14)
NUMBER(DeviceGetPersistenceMode, 1)
NUMBER(DeviceGetDisplayActive, 0)
NUMBER(DeviceGetDisplayMode, 0)
NUMBER(DeviceGetComputeMode, 0)
NUMBER(DeviceGetPerformanceState, 0)
NUMBER(DeviceGetPowerUsage, 73280)
NUMBER(DeviceGetEnforcedPowerLimit, 700000)
NUMBER(DeviceGetPowerManagementLimit, 700000)
NUMBER(DeviceGetPowerManagementDefaultLimit, 700000)
API nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *out) {
  (void)device, (void)out;
  return NVML_ERROR_NOT_SUPPORTED;
}
#define WITH(name, value)                                              \
  API nvml##name(nvmlDevice_t device, int argument, unsigned *out) {   \
    (void)device, (void)argument;                                      \
    if (is("bare")) return NVML_ERROR_NOT_SUPPORTED;                   \
    return *out = (value), NVML_SUCCESS;                               \
  }
WITH(DeviceGetTemperature, 33)
WITH(DeviceGetClockInfo, argument == 2 ? 2619 : 1980)
WITH(DeviceGetMaxClockInfo, argument == 2 ? 2619 : 1980)
API nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
  if (is("bare") || device->index == 1) return NVML_ERROR_NOT_SUPPORTED;
  return *out = (nvmlUtilization_t){37, 12}, NVML_SUCCESS;
}
API nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *out) {
  const unsigned long long total = (is_mig(device) ? 16383ULL : 131072ULL) << 20;
  *out = (nvmlBAR1Memory_t){total, total - (1 << 20), 1 << 20};
  return NVML_SUCCESS;
}
API nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter, unsigned long long *out) {
  (void)device, (void)type, (void)counter;
  return *out = 0, NVML_SUCCESS;
}
API nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *out) {
  return *out = device->index == 1, NVML_SUCCESS;
}
API nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
  (void)device;
  return *major = 9, *minor = 0, NVML_SUCCESS;
}
API nvmlDeviceSetPersistenceMode(nvmlDevice_t device, int mode) {
  (void)device, (void)mode;
  return NVML_ERROR_NO_PERMISSION;
}
API nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activation) {
  (void)device, (void)mode;
  return *activation = NVML_SUCCESS, NVML_SUCCESS;
}
API nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, int *out) {
  (void)device, (void)other;
  return *out = 50, NVML_SUCCESS;
}
API nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *set) {
  (void)device;
  memset(set, 0, words * sizeof *set);
  return set[0] = 0x10f, NVML_SUCCESS;
}

/* MIG management: one row per profile of an H100. */
static const struct {
  unsigned index, id, slices, instances, sms, copy, decoders, jpegs, ofas, mib, size, starts;
  const char *name;
} profiles[] = {
    {0, 19, 1, 7, 16, 1, 1, 1, 0, 9984, 1, 7, "1g.10gb"},
    {7, 20, 1, 1, 16, 1, 1, 1, 1, 9984, 1, 7, "1g.10gb+me"},
    {9, 15, 1, 4, 26, 1, 1, 1, 0, 20096, 2, 4, "1g.20gb"},
    {1, 14, 2, 3, 32, 2, 2, 2, 0, 20096, 2, 3, "2g.20gb"},
    {2, 9, 3, 2, 60, 3, 3, 3, 0, 40448, 4, 2, "3g.40gb"},
    {3, 5, 4, 1, 64, 4, 4, 4, 0, 40448, 4, 1, "4g.40gb"},
    {4, 0, 7, 1, 132, 8, 7, 7, 1, 81152, 8, 1, "7g.80gb"}};

static int row_of(unsigned id) {
  for (unsigned i = 0; i < COUNT(profiles); i++)
    if (profiles[i].id == id) return (int)i;
  return -1;
}

API nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned profile,
                                         nvmlGpuInstanceProfileInfo_v2_t *out) {
  (void)device;
  if (out->version != 0x02000098) return NVML_ERROR_INVALID_ARGUMENT;
  for (unsigned i = 0; i < COUNT(profiles); i++) {
    if (profiles[i].index != profile) continue;
    out->id = profiles[i].id;
    out->p2p_supported = 0;
    out->slices = profiles[i].slices;
    out->instances = profiles[i].instances;
    out->multiprocessors = profiles[i].sms;
    out->copy_engines = profiles[i].copy;
    out->decoders = profiles[i].decoders;
    out->encoders = 0;
    out->jpegs = profiles[i].jpegs;
    out->ofas = profiles[i].ofas;
    out->memory_mib = profiles[i].mib;
    snprintf(out->name, sizeof out->name, "MIG %s", profiles[i].name);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_SUPPORTED;
}
API nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned id, unsigned *out) {
  (void)device;
  return *out = profiles[row_of(id)].slices == 1 ? 3 : 0, NVML_SUCCESS;
}
API nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                  nvmlPlacement_t *places, unsigned *count) {
  (void)device;
  const int row = row_of(id);
  for (unsigned i = 0; places && i < profiles[row].starts; i++)
    places[i] = (nvmlPlacement_t){i * profiles[row].size, profiles[row].size};
  return *count = profiles[row].starts, NVML_SUCCESS;
}
API nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *out,
                              unsigned *count) {
  (void)device;
  *count = 0;
  for (unsigned i = 0; i < 2; i++)
    if (instances[i].profile == id) out[(*count)++] = &instances[i];
  return NVML_SUCCESS;
}
API nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *out) {
  *out = (nvmlGpuInstanceInfo_t){&gpus[1], instance->id, instance->profile,
                                 {instance->start, profiles[row_of(instance->profile)].size}};
  return NVML_SUCCESS;
}
API nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *out) {
  (void)device;
  if (id != 14) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  return *out = &instances[2], NVML_SUCCESS;
}
API nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned id,
                                             const nvmlPlacement_t *place, nvmlGpuInstance_t *out) {
  if (place->start != 2 || place->size != 2) return NVML_ERROR_INVALID_ARGUMENT;
  return nvmlDeviceCreateGpuInstance(device, id, out);
}
API nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
  return instance->id == 2 ? 19 : NVML_SUCCESS; /* 19: in use */
}
API nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned profile,
                                                  unsigned engines,
                                                  nvmlComputeInstanceProfileInfo_v2_t *out) {
  const int row = row_of(instance->profile);
  if (out->version != 0x02000088 || engines) return NVML_ERROR_INVALID_ARGUMENT;
  if (profile > 3 || profile + 1 > profiles[row].slices) return NVML_ERROR_NOT_SUPPORTED;
  out->id = profile;
  out->slices = profile + 1;
  out->instances = profiles[row].slices / (profile + 1);
  out->multiprocessors = out->slices == profiles[row].slices ? profiles[row].sms : out->slices * 16;
  out->copy_engines = profiles[row].copy;
  out->decoders = profiles[row].decoders;
  out->encoders = 0;
  out->jpegs = profiles[row].jpegs;
  out->ofas = profiles[row].ofas;
  if (out->slices == profiles[row].slices)
    snprintf(out->name, sizeof out->name, "MIG %s", profiles[row].name);
  else
    snprintf(out->name, sizeof out->name, "MIG %uc.%s", out->slices, profiles[row].name);
  return NVML_SUCCESS;
}
API nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned id,
                                                       unsigned *out) {
  (void)instance, (void)id;
  return *out = 0, NVML_SUCCESS;
}
API nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned id,
                                       nvmlComputeInstance_t *out, unsigned *count) {
  *count = id + 1 == profiles[row_of(instance->profile)].slices;
  if (*count) out[0] = &compute[0];
  return NVML_SUCCESS;
}
API nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned id,
                                         nvmlComputeInstance_t *out) {
  (void)id;
  if (instance->id != 13) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  return *out = &compute[0], NVML_SUCCESS;
}
API nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *out) {
  memset(out, 0, sizeof *out);
  out->id = instance->id;
  out->placement = (nvmlPlacement_t){0, 3};
  return NVML_SUCCESS;
}
API nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance) {
  (void)instance;
  return NVML_SUCCESS;
}
