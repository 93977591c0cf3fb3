/* NVML's information about a GPU, each item as a text. All outputs use these readings. */
#pragma once

#include "nvml/gpus.h"
#include "nvml/text.h"

/* A function that reads an item, its argument, and the unit of its result. */
struct smi_reading {
  void (*read)(const struct smi_gpu *gpu, int argument, struct smi_text *text);
  int argument;
  const char *unit; /* NULL: none */
};

/* Read an item; an item without a function has no call in NVML. */
void smi_read(const struct smi_gpu *gpu, const struct smi_reading *reading, struct smi_text *text);

/* The same with its unit, as "812 MiB" or "N/A". */
void smi_read_with_unit(const struct smi_gpu *gpu, const struct smi_reading *reading,
                        char shown[SMI_TEXT_BYTES + 16]);

#define READ(name) void smi_read_##name(const struct smi_gpu *, int, struct smi_text *);
/* Readings of the system, independent of the GPU. */
READ(timestamp)
READ(driver_version)
READ(cuda_version)
READ(nvml_version)
READ(count)
/* Static properties. */
READ(index)
READ(name)
READ(uuid)
READ(serial)
READ(minor)
READ(vbios)
READ(part_number)
READ(brand)
READ(architecture)
READ(compute_capability)
READ(display_mode)
READ(display_active)
READ(persistence)
READ(compute_mode)
READ(mig_mode) /* 0: current, 1: pending */
READ(ecc_mode) /* the same */
READ(pci)      /* one of SMI_PCI_... */
READ(pcie_generation) /* 0: current, 1: maximum */
READ(pcie_width)
READ(pcie_throughput)
READ(pcie_replays)
/* Activity. */
READ(memory) /* one of SMI_MEMORY_... */
READ(bar1)
READ(utilization) /* one of SMI_UTILIZATION_... */
READ(temperature)
READ(temperature_threshold)
READ(fan)
READ(performance_state)
READ(power)       /* one of SMI_POWER_... */
READ(energy)      /* mJ */
READ(clock)       /* kind of clock */
READ(clock_limit)
READ(clock_application)
READ(clock_default)
READ(clocks_reason) /* a bit's mask; 0: all in hexadecimal */
READ(ecc_errors)    /* SMI_ECC(type, counter, location); location 0: all */
READ(remapped_rows) /* 0 correctable, 1 uncorrectable, 2 pending, 3 failed */
#undef READ

enum { SMI_PCI_BUS_ID, SMI_PCI_DOMAIN, SMI_PCI_BUS, SMI_PCI_DEVICE, SMI_PCI_ID, SMI_PCI_SUB_ID };
enum {
  SMI_PCI_HEX_BUS = 16,
  SMI_PCI_HEX_DEVICE,
  SMI_PCI_HEX_DOMAIN,
  SMI_PCI_HEX_ID,
  SMI_PCI_HEX_SUB
};
enum { SMI_MEMORY_TOTAL, SMI_MEMORY_RESERVED, SMI_MEMORY_USED, SMI_MEMORY_FREE };
enum {
  SMI_UTILIZATION_GPU,
  SMI_UTILIZATION_MEMORY,
  SMI_UTILIZATION_ENCODER,
  SMI_UTILIZATION_DECODER
};
enum {
  SMI_POWER_DRAW,
  SMI_POWER_LIMIT,
  SMI_POWER_REQUESTED,
  SMI_POWER_DEFAULT,
  SMI_POWER_MIN,
  SMI_POWER_MAX
};

#define SMI_ECC(type, counter, location) ((type) | (counter) << 4 | (location) << 8)
