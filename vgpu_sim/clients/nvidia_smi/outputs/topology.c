/* The command nvidia-smi topo -m. */
#include <stdio.h>
#include <string.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "outputs.h"

/* Return the name of the nearest common level of two GPUs (nvmlGpuTopologyLevel_t). */
static const char *connection(nvmlDevice_t one, nvmlDevice_t other) {
  int level = 0;
  if (nvml_DeviceGetTopologyCommonAncestor(one, other, &level)) return "N/A";
  switch (level) {
    case 0:
    case 10:
      return "PIX";
    case 20:
      return "PXB";
    case 30:
      return "PHB";
    case 40:
      return "NODE";
    default:
      return "SYS";
  }
}

/* Return the number of NVLinks from a GPU to another GPU, or to switches, which connect all
   GPUs. */
static unsigned links_between(const struct smi_gpus *gpus, nvmlDevice_t one, nvmlDevice_t other) {
  enum { MOST_LINKS = 36 };
  nvmlPciInfo_t wanted;
  unsigned count = 0;
  if (nvml_DeviceGetPciInfo_v3(other, &wanted)) return 0;
  for (unsigned link = 0; link < MOST_LINKS; link++) {
    unsigned active = 0;
    nvmlPciInfo_t remote;
    if (nvml_DeviceGetNvLinkState(one, link, &active)) return count;
    if (!active || nvml_DeviceGetNvLinkRemotePciInfo_v2(one, link, &remote)) continue;
    bool gpu = false;
    for (unsigned i = 0; i < gpus->count; i++) {
      nvmlPciInfo_t at;
      if (!nvml_DeviceGetPciInfo_v3(gpus->list[i].device, &at)) gpu |= at.bus == remote.bus;
    }
    count += !gpu || remote.bus == wanted.bus;
  }
  return count;
}

/* Write "0-3,8", or "N/A" if the set is empty or unknown. */
static const char *ranges(const unsigned long *set, unsigned words, char *out, size_t size) {
  const unsigned bits = 8 * sizeof *set;
  size_t length = 0;
  out[0] = 0;
  for (unsigned i = 0; i < words * bits; i++) {
    if (!(set[i / bits] >> i % bits & 1)) continue;
    const unsigned first = i;
    while (i + 1 < words * bits && set[(i + 1) / bits] >> (i + 1) % bits & 1) i++;
    const char *comma = length ? "," : "";
    const int wrote = first == i
                          ? snprintf(out + length, size - length, "%s%u", comma, first)
                          : snprintf(out + length, size - length, "%s%u-%u", comma, first, i);
    if (wrote < 0 || (size_t)wrote >= size - length) return "N/A";
    length += (size_t)wrote;
  }
  return length ? out : "N/A";
}

int smi_topology(int argc, char **argv) {
  static struct smi_gpus gpus;
  const char *id = NULL;
  bool matrix = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "--matrix") == 0) {
      matrix = true;
    } else if ((strcmp(argv[i], "-i") == 0 || strcmp(argv[i], "--id") == 0) && i + 1 < argc) {
      id = argv[++i];
    } else {
      printf("topo %.100s is not supported by the simulated GPUs of Tessera; -m is.\n", argv[i]);
      return SMI_EXIT_UNSUPPORTED;
    }
  }
  if (!matrix) {
    puts("Invalid combination of input arguments. Please run 'nvidia-smi topo -h' for help.");
    return SMI_EXIT_INVALID;
  }
  const int status = smi_gpus_choose(&gpus, id);
  if (status) return status;
  for (unsigned i = 0; i < gpus.count; i++) printf("\tGPU%u", gpus.list[i].index);
  puts("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID");
  for (unsigned i = 0; i < gpus.count; i++) {
    const struct smi_gpu *gpu = &gpus.list[i];
    unsigned long cpus[16] = {0}, nodes[4] = {0};
    char text[256];
    printf("GPU%u", gpu->index);
    for (unsigned k = 0; k < gpus.count; k++) {
      const unsigned links = k == i ? 0 : links_between(&gpus, gpu->device, gpus.list[k].device);
      if (links)
        printf("\tNV%u", links);
      else
        printf("\t%s", k == i ? " X " : connection(gpu->device, gpus.list[k].device));
    }
    if (nvml_DeviceGetCpuAffinity(gpu->device, 16, cpus)) memset(cpus, 0, sizeof cpus);
    printf("\t%s", ranges(cpus, 16, text, sizeof text));
    if (nvml_DeviceGetMemoryAffinity(gpu->device, 4, nodes, 0)) memset(nodes, 0, sizeof nodes);
    printf("\t%s", ranges(nodes, 4, text, sizeof text));
    unsigned node = 0;
    if (nvml_DeviceGetNumaNodeId(gpu->device, &node) || node == NVML_UNKNOWN_ID)
      puts("\t\tN/A");
    else
      printf("\t\t%u\n", node);
  }
  puts("\nLegend:\n\n"
       "  X    = Self\n"
       "  SYS  = through the link between NUMA nodes\n"
       "  NODE = through the PCIe host bridges of one NUMA node\n"
       "  PHB  = through one PCIe host bridge, that is the CPU\n"
       "  PXB  = through several PCIe switches\n"
       "  PIX  = through at most one PCIe switch\n"
       "  NV#  = through # NVLinks\n"
       "  N/A  = not modelled; no two simulated GPUs reach each other's memory");
  return SMI_EXIT_SUCCESS;
}
