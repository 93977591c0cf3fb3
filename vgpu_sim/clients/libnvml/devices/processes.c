/* Processes on a device: those that this process may see, with the pids that they have in its
 * PID namespace, as reported by gpud. */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"
#include "clock.h"

enum { MAX_PROCESSES = 4096 };

/* A process, which may have several contexts on a slice. */
struct listed {
  uint32_t pid, instance;
  uint64_t memory_bytes, busy_ns;
};

/* Whether a process is on a device; on a GPU means on any of the GPU's instances. */
static bool is_on(const struct tsr_view *view, const struct tsr_device *device,
                  const tessera_process_record *process) {
  if (device->is_mig) return process->instance == (uint32_t)device->instance_index;
  return view->instances[process->instance].gpu == device->gpu_index;
}

/* List the processes of a device. The caller holds the view, which protects `all`. */
static unsigned list(const struct tsr_view *view, const struct tsr_device *device,
                     struct listed **processes) {
  static struct listed all[MAX_PROCESSES];
  unsigned count = 0;
  for (uint32_t i = 0; i < view->process_count; i++) {
    const tessera_process_record *process = &view->processes[i];
    if (!is_on(view, device, process)) continue;
    unsigned at = 0;
    while (at < count && !(all[at].pid == process->pid && all[at].instance == process->instance))
      at++;
    if (at == MAX_PROCESSES) break;
    if (at == count)
      all[count++] = (struct listed){.pid = process->pid, .instance = process->instance};
    all[at].memory_bytes += process->memory_bytes;
    all[at].busy_ns += process->busy_ns;
  }
  *processes = all;
  return count;
}

typedef void write_process(void *to, unsigned index, const struct listed *process,
                           const tessera_instance_record *instance);

static uint32_t instance_id(const tessera_instance_record *instance, uint32_t id) {
  return instance->whole ? TESSERA_NO_RECORD : id;
}

static void write_v1(void *to, unsigned index, const struct listed *process,
                     const tessera_instance_record *instance) {
  (void)instance;
  ((nvmlProcessInfo_v1_t *)to)[index] =
      (nvmlProcessInfo_v1_t){.pid = process->pid, .usedGpuMemory = process->memory_bytes};
}

static void write_v2(void *to, unsigned index, const struct listed *process,
                     const tessera_instance_record *instance) {
  ((nvmlProcessInfo_t *)to)[index] =
      (nvmlProcessInfo_t){.pid = process->pid,
                          .usedGpuMemory = process->memory_bytes,
                          .gpuInstanceId = instance_id(instance, instance->gpu_instance_id),
                          .computeInstanceId = instance_id(instance, instance->compute_id)};
}

static void write_detail(void *to, unsigned index, const struct listed *process,
                         const tessera_instance_record *instance) {
  ((nvmlProcessDetail_v1_t *)to)[index] =
      (nvmlProcessDetail_v1_t){.pid = process->pid,
                               .usedGpuMemory = process->memory_bytes,
                               .gpuInstanceId = instance_id(instance, instance->gpu_instance_id),
                               .computeInstanceId = instance_id(instance, instance->compute_id),
                               .usedGpuCcProtectedMemory = ~0ull};
}

/* Fill in the processes. `*count` is the capacity, and then the number of processes; if the
 * capacity is too small, nothing is written. */
static nvmlReturn_t running(nvmlDevice_t handle, unsigned int *count, void *infos,
                            write_process *write) {
  if (!count || (*count && !infos)) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  struct tsr_device device;
  result = tsr_device_in(view, handle, &device);
  if (result == NVML_SUCCESS) {
    struct listed *processes;
    const unsigned room = *count;
    *count = list(view, &device, &processes);
    if (*count > room)
      result = NVML_ERROR_INSUFFICIENT_SIZE;
    else
      for (unsigned i = 0; i < *count; i++)
        write(infos, i, &processes[i], &view->instances[processes[i].instance]);
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_v1_t *infos) {
  return running(device, infoCount, infos, write_v1);
}

nvmlReturn_t tsr_nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                         unsigned int *infoCount,
                                                         nvmlProcessInfo_t *infos) {
  return running(device, infoCount, infos, write_v2);
}

nvmlReturn_t tsr_nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                         unsigned int *infoCount,
                                                         nvmlProcessInfo_t *infos) {
  return running(device, infoCount, infos, write_v2);
}

/* There are no graphics processes and no MPS processes. */
static nvmlReturn_t none(nvmlDevice_t device, unsigned int *count) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *count = 0;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device,
                                                       unsigned int *infoCount,
                                                       nvmlProcessInfo_v1_t *infos) {
  (void)infos;
  return none(device, infoCount);
}

nvmlReturn_t tsr_nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device,
                                                          unsigned int *infoCount,
                                                          nvmlProcessInfo_t *infos) {
  (void)infos;
  return none(device, infoCount);
}

nvmlReturn_t tsr_nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
                                                          unsigned int *infoCount,
                                                          nvmlProcessInfo_t *infos) {
  (void)infos;
  return none(device, infoCount);
}

nvmlReturn_t tsr_nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device,
                                                         unsigned int *infoCount,
                                                         nvmlProcessInfo_v1_t *infos) {
  (void)infos;
  return none(device, infoCount);
}

nvmlReturn_t tsr_nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device,
                                                            unsigned int *infoCount,
                                                            nvmlProcessInfo_t *infos) {
  (void)infos;
  return none(device, infoCount);
}

nvmlReturn_t tsr_nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
                                                            unsigned int *infoCount,
                                                            nvmlProcessInfo_t *infos) {
  (void)infos;
  return none(device, infoCount);
}

nvmlReturn_t tsr_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                       nvmlProcessDetailList_t *plist) {
  if (!plist) return NVML_ERROR_INVALID_ARGUMENT;
  if (plist->version != NVML_STRUCT_VERSION(nvmlProcessDetailList_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (plist->mode >= NVML_PROCESS_MODE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (plist->mode != NVML_PROCESS_MODE_COMPUTE && plist->mode != NVML_PROCESS_MODE_ALL)
    return none(device, &plist->numProcArrayEntries);
  return running(device, &plist->numProcArrayEntries, plist->procArray, write_detail);
}

/* A process's busy time at the previous query of utilisation. */
struct sample {
  uint32_t pid;
  uint64_t busy_ns, at_ns;
};

/* Return for what percentage of the time since the previous query a kernel of this process ran;
 * -1: the process is new. The caller holds the view. */
static int percent_since(struct sample *samples, unsigned *known, const struct listed *process,
                         uint64_t now_ns) {
  unsigned at = 0;
  while (at < *known && samples[at].pid != process->pid) at++;
  int percent = -1;
  if (at < *known && now_ns > samples[at].at_ns && process->busy_ns >= samples[at].busy_ns) {
    const uint64_t share =
        (process->busy_ns - samples[at].busy_ns) * 100 / (now_ns - samples[at].at_ns);
    percent = share > 100 ? 100 : (int)share;
  }
  if (at == MAX_PROCESSES) return -1;
  if (at == *known) ++*known;
  samples[at] = (struct sample){process->pid, process->busy_ns, now_ns};
  return percent;
}

/* Report the utilisation since the last call, for an undivided GPU. NOT_FOUND if there is none yet.
 * `*processSamplesCount` is the capacity, and then the number of samples. */
nvmlReturn_t tsr_nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                 nvmlProcessUtilizationSample_t *utilization,
                                                 unsigned int *processSamplesCount,
                                                 unsigned long long lastSeenTimeStamp) {
  static struct sample samples[MAX_PROCESSES];
  static unsigned known;
  (void)lastSeenTimeStamp; /* unused, because each process has just one new sample */
  if (!processSamplesCount) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_NOW, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS &&
      (found.is_mig || found.gpu.mig_mode == TESSERA_MIG_MODE_ENABLED))
    result = NVML_ERROR_NOT_SUPPORTED;
  if (result == NVML_SUCCESS) {
    struct listed *processes;
    const unsigned count = list(view, &found, &processes), room = *processSamplesCount;
    *processSamplesCount = count;
    if (!utilization || room < count) {
      result = count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_ERROR_NOT_FOUND;
    } else {
      const uint64_t now_ns = tsr_now_ns();
      unsigned written = 0;
      for (unsigned i = 0; i < count; i++) {
        const int percent = percent_since(samples, &known, &processes[i], now_ns);
        if (percent < 0) continue;
        utilization[written++] = (nvmlProcessUtilizationSample_t){
            .pid = processes[i].pid, .timeStamp = tsr_wall_us(), .smUtil = (unsigned)percent};
      }
      *processSamplesCount = written;
      result = written ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
    }
  }
  tsr_view_done();
  return result;
}
