/* Topology of GPUs and CPUs, as computed by vgpu_sim.perf.topology and reported by gpud. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "view/answer.h"
#include "api.h"

enum {
  LEVEL_SINGLE = 10, /* NVML_TOPOLOGY_SINGLE, and so on */
  LEVEL_HOST_BRIDGE = 30,
  LEVEL_NODE = 40,
  LEVEL_SYSTEM = 50,
  P2P_NVLINK = 2, /* NVML_P2P_CAPS_INDEX_NVLINK */
  P2P_UNKNOWN_KIND = 5,
  P2P_OK = 0, /* NVML_P2P_STATUS_OK */
  P2P_NOT_SUPPORTED = 5,
  P2P_UNKNOWN = 6,
  BITS = 8 * sizeof(unsigned long),
  AFFINITY_SCOPE_SOCKET = 1, /* NVML_AFFINITY_SCOPE_SOCKET; 0 is the node */
};

static unsigned part(uint32_t place, unsigned shift, unsigned mask) { return place >> shift & mask; }

static unsigned links_of(uint32_t place) {
  return place & TESSERA_PLACE_KNOWN ? part(place, TESSERA_PLACE_LINKS_SHIFT, 0x7f) : 0;
}

static int level_of(uint32_t a, uint32_t b) {
  if (!(a & b & TESSERA_PLACE_KNOWN)) return LEVEL_HOST_BRIDGE;
  if (part(a ^ b, TESSERA_PLACE_NUMA_SHIFT, 0xf)) return LEVEL_SYSTEM;
  if (part(a ^ b, TESSERA_PLACE_BRIDGE_SHIFT, 0xff)) return LEVEL_NODE;
  return part(a ^ b, 0, 0xff) ? LEVEL_HOST_BRIDGE : LEVEL_SINGLE;
}

/* Find two GPUs and their nearest common level. */
static nvmlReturn_t both(nvmlDevice_t a, nvmlDevice_t b, bool *same, int *level) {
  struct tsr_device first, second;
  nvmlReturn_t result = tsr_gpu(a, TSR_FACTS, &first);
  if (result == NVML_SUCCESS) result = tsr_gpu(b, TSR_FACTS, &second);
  if (result == NVML_SUCCESS)
    *same = memcmp(first.gpu.uuid, second.gpu.uuid, sizeof first.gpu.uuid) == 0;
  if (result == NVML_SUCCESS)
    *level = *same ? 0 : level_of(first.gpu.telemetry.place, second.gpu.telemetry.place);
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                     nvmlGpuTopologyLevel_t *pathInfo) {
  bool same = false;
  int level = 0;
  const nvmlReturn_t result = both(device1, device2, &same, &level);
  if (!pathInfo) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *pathInfo = (nvmlGpuTopologyLevel_t)level;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2,
                                       int *onSameBoard) {
  bool same = false;
  int level = 0;
  const nvmlReturn_t result = both(device1, device2, &same, &level);
  if (!onSameBoard) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *onSameBoard = same;
  return result;
}

static nvmlReturn_t linked(nvmlDevice_t device, unsigned int link, struct tsr_device *found) {
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, found);
  if (result != NVML_SUCCESS) return result;
  const unsigned links = links_of(found->gpu.telemetry.place);
  if (!links) return NVML_ERROR_NOT_SUPPORTED;
  return link < links ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t tsr_nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                          nvmlEnableState_t *isActive) {
  struct tsr_device found;
  if (!isActive) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result = linked(device, link, &found);
  if (result == NVML_SUCCESS) *isActive = 1;
  return result;
}

/* A GPU's links to other GPUs are in the order of those GPUs: the first links lead to the node's
 * first other GPU, and so on. A process that sees only one GPU gets no peers. */
nvmlReturn_t tsr_nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                     nvmlPciInfo_t *pci) {
  struct tsr_device found;
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = linked(device, link, &found);
  if (result != NVML_SUCCESS) return result;
  uint32_t bus = TESSERA_NVSWITCH_BUS;
  if (!part(found.gpu.telemetry.place, TESSERA_PLACE_SWITCHED_SHIFT, 1)) {
    const uint32_t peers = part(found.gpu.telemetry.place, TESSERA_PLACE_PEERS_SHIFT, 0x7);
    const uint32_t each = peers ? links_of(found.gpu.telemetry.place) / peers : 0;
    uint32_t peer = each ? link / each : 0;
    if (peer >= found.gpu.index) peer++;
    const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
    if (!view) return result;
    result = NVML_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < view->gpu_count; i++)
      if (view->gpus[i].index == peer) {
        bus = view->gpus[i].pci_bus;
        result = NVML_SUCCESS;
      }
    tsr_view_done();
    if (result != NVML_SUCCESS) return result;
  }
  memset(pci, 0, sizeof *pci);
  pci->bus = bus;
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", bus & 0xff);
  snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", bus & 0xff);
  return NVML_SUCCESS;
}

/* Write the handles of GPUs, at most `*count`, and their number. Without room it is the number
 * that there would be. */
static nvmlReturn_t list(const struct tsr_view *view, const bool *chosen, unsigned int *count,
                         nvmlDevice_t *devices) {
  unsigned found = 0;
  for (uint32_t i = 0; i < view->gpu_count; i++) {
    if (!chosen[i]) continue;
    if (devices && found < *count && !(devices[found] = tsr_gpu_handle(&view->gpus[i])))
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    found++;
  }
  const bool fits = !devices || found <= *count;
  *count = found;
  return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* The other GPUs that are at most a level away. */
nvmlReturn_t tsr_nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
                                                  nvmlGpuTopologyLevel_t level,
                                                  unsigned int *count, nvmlDevice_t *devices) {
  struct tsr_device own;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  bool near[TESSERA_MAX_GPUS] = {false};
  result = tsr_device_in(view, device, &own);
  if (result == NVML_SUCCESS && own.is_mig) result = NVML_ERROR_NOT_SUPPORTED;
  if (result == NVML_SUCCESS && (!count || level > LEVEL_SYSTEM))
    result = NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) {
    for (uint32_t i = 0; i < view->gpu_count; i++)
      near[i] = i != own.gpu_index && level_of(own.gpu.telemetry.place,
                                               view->gpus[i].telemetry.place) <= (int)level;
    result = list(view, near, count, devices);
  }
  tsr_view_done();
  return result;
}

/* Kernels access the memory of another GPU if both are whole, with atomic operations as well. For the
 * kind "unknown" NVIDIA's library returns a status, not an error, as the suite of cuda.bindings
 * shows. */
nvmlReturn_t tsr_nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
                                        nvmlGpuP2PCapsIndex_t p2pIndex,
                                        nvmlGpuP2PStatus_t *p2pStatus) {
  struct tsr_device first, second;
  nvmlReturn_t result = tsr_gpu(device1, TSR_FACTS, &first);
  if (result == NVML_SUCCESS) result = tsr_gpu(device2, TSR_FACTS, &second);
  if (!p2pStatus || p2pIndex > P2P_UNKNOWN_KIND) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  const bool whole = first.gpu.mig_mode != TESSERA_MIG_MODE_ENABLED &&
                     second.gpu.mig_mode != TESSERA_MIG_MODE_ENABLED;
  const bool same = memcmp(first.gpu.uuid, second.gpu.uuid, sizeof first.gpu.uuid) == 0;
  const bool linked = links_of(first.gpu.telemetry.place) && links_of(second.gpu.telemetry.place);
  const bool supported = whole && !same && (p2pIndex != P2P_NVLINK || linked);
  *p2pStatus = supported ? P2P_OK : P2P_NOT_SUPPORTED;
  if (p2pIndex == P2P_UNKNOWN_KIND) *p2pStatus = P2P_UNKNOWN;
  return NVML_SUCCESS;
}

/* A simulated GPU has affinity to every CPU that this process may use. */
nvmlReturn_t tsr_nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int cpuSetSize,
                                          unsigned long *cpuSet) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!cpuSet || cpuSetSize == 0) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return NVML_ERROR_UNKNOWN;
  memset(cpuSet, 0, cpuSetSize * sizeof *cpuSet);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE && cpu / BITS < cpuSetSize; cpu++)
    if (CPU_ISSET(cpu, &allowed)) cpuSet[cpu / BITS] |= 1ul << cpu % BITS;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int cpuSetSize,
                                                     unsigned long *cpuSet,
                                                     nvmlAffinityScope_t scope) {
  if (scope > AFFINITY_SCOPE_SOCKET) return NVML_ERROR_INVALID_ARGUMENT;
  return tsr_nvmlDeviceGetCpuAffinity(device, cpuSetSize, cpuSet);
}

/* Return the NUMA node of the device's PCIe slot. A node is one socket, so both scopes give the
 * same result. */
nvmlReturn_t tsr_nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int nodeSetSize,
                                             unsigned long *nodeSet, nvmlAffinityScope_t scope) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!nodeSet || nodeSetSize == 0 || scope > AFFINITY_SCOPE_SOCKET)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  const uint32_t place = found.gpu.telemetry.place;
  if (!(place & TESSERA_PLACE_KNOWN)) return NVML_ERROR_NOT_SUPPORTED;
  memset(nodeSet, 0, nodeSetSize * sizeof *nodeSet);
  nodeSet[0] = 1ul << part(place, TESSERA_PLACE_NUMA_SHIFT, 0xf);
  return NVML_SUCCESS;
}

/* Return the GPUs with affinity to a CPU: all, if this process may use it. */
nvmlReturn_t tsr_nvmlSystemGetTopologyGpuSet(unsigned int cpuNumber, unsigned int *count,
                                             nvmlDevice_t *devices) {
  if (!count || cpuNumber >= CPU_SETSIZE) return NVML_ERROR_INVALID_ARGUMENT;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return NVML_ERROR_UNKNOWN;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_FACTS, &result);
  if (!view) return result;
  bool chosen[TESSERA_MAX_GPUS];
  for (size_t i = 0; i < TESSERA_MAX_GPUS; i++) chosen[i] = CPU_ISSET(cpuNumber, &allowed);
  result = list(view, chosen, count, devices);
  tsr_view_done();
  return result;
}
