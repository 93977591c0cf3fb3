/* Readings of a GPU's static properties. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "nvml/nvml.h"
#include "readings/readings.h"

#define UNUSED (void)gpu, (void)argument

void smi_read(const struct smi_gpu *gpu, const struct smi_reading *reading, struct smi_text *text) {
  text->value[0] = 0;
  text->status = reading->read ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
  if (reading->read) reading->read(gpu, reading->argument, text);
}

void smi_read_with_unit(const struct smi_gpu *gpu, const struct smi_reading *reading,
                        char shown[SMI_TEXT_BYTES + 16]) {
  struct smi_text text;
  smi_read(gpu, reading, &text);
  const bool unit = reading->unit && text.status == NVML_SUCCESS;
  snprintf(shown, SMI_TEXT_BYTES + 16, "%s%s%s", smi_text_shown(&text), unit ? " " : "",
           unit ? reading->unit : "");
}

void smi_read_timestamp(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  UNUSED;
  struct timeval now;
  gettimeofday(&now, NULL);
  struct tm parts;
  char day[64];
  localtime_r(&now.tv_sec, &parts);
  strftime(day, sizeof day, "%Y/%m/%d %H:%M:%S", &parts);
  smi_text_format(text, "%s.%03ld", day, (long)now.tv_usec / 1000);
}

#define STRING(reader, call)                                                              \
  void smi_read_##reader(const struct smi_gpu *gpu, int argument, struct smi_text *text) { \
    (void)argument;                                                                       \
    char value[SMI_TEXT_BYTES] = "";                                                      \
    text->status = nvml_##call(gpu->device, value, sizeof value);                         \
    smi_text_take(text, value, sizeof value);                                             \
  }
STRING(name, DeviceGetName)
STRING(uuid, DeviceGetUUID)
STRING(serial, DeviceGetSerial)
STRING(vbios, DeviceGetVbiosVersion)
STRING(part_number, DeviceGetBoardPartNumber)

void smi_read_driver_version(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  UNUSED;
  char value[SMI_TEXT_BYTES] = "";
  text->status = nvml_SystemGetDriverVersion(value, sizeof value);
  smi_text_take(text, value, sizeof value);
}

void smi_read_nvml_version(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  UNUSED;
  char value[SMI_TEXT_BYTES] = "";
  text->status = nvml_SystemGetNVMLVersion(value, sizeof value);
  smi_text_take(text, value, sizeof value);
}

void smi_read_cuda_version(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  UNUSED;
  int version = 0;
  text->status = nvml_SystemGetCudaDriverVersion_v2(&version);
  smi_text_format(text, "%d.%d", version / 1000, version % 1000 / 10);
}

void smi_read_count(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  UNUSED;
  unsigned count = 0;
  text->status = nvml_DeviceGetCount_v2(&count);
  smi_text_format(text, "%u", count);
}

void smi_read_index(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  smi_text_format(text, "%u", gpu->index);
}

void smi_read_minor(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  unsigned minor = 0;
  text->status = nvml_DeviceGetMinorNumber(gpu->device, &minor);
  smi_text_format(text, "%u", minor);
}

void smi_read_brand(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  static const char *const names[] = {"Unknown", "Quadro", "Tesla", "NVS", "GRID", "GeForce",
                                      "Titan"};
  int brand = 0;
  text->status = nvml_DeviceGetBrand(gpu->device, &brand);
  const bool old = brand >= 0 && brand < (int)(sizeof names / sizeof *names);
  smi_text_format(text, "%s", old ? names[brand] : brand == 14 ? "NVIDIA" : "NVIDIA RTX");
}

void smi_read_architecture(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  static const char *const names[] = {[2] = "Kepler", "Maxwell", "Pascal", "Volta", "Turing",
                                      "Ampere", "Ada Lovelace", "Hopper", "Blackwell"};
  unsigned architecture = 0;
  text->status = nvml_DeviceGetArchitecture(gpu->device, &architecture);
  const bool known = architecture >= 2 && architecture < sizeof names / sizeof *names;
  smi_text_format(text, "%s", known ? names[architecture] : "Unknown");
}

void smi_read_compute_capability(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  int major = 0, minor = 0;
  text->status = nvml_DeviceGetCudaComputeCapability(gpu->device, &major, &minor);
  smi_text_format(text, "%d.%d", major, minor);
}

#define SWITCH(reader, call)                                                              \
  void smi_read_##reader(const struct smi_gpu *gpu, int argument, struct smi_text *text) { \
    (void)argument;                                                                       \
    int on = 0;                                                                           \
    text->status = nvml_##call(gpu->device, &on);                                         \
    smi_text_format(text, "%s", on == NVML_FEATURE_ENABLED ? "Enabled" : "Disabled");     \
  }
SWITCH(display_mode, DeviceGetDisplayMode)
SWITCH(display_active, DeviceGetDisplayActive)
SWITCH(persistence, DeviceGetPersistenceMode)

void smi_read_compute_mode(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  static const char *const names[] = {"Default", "Exclusive_Thread", "Prohibited",
                                      "Exclusive_Process"};
  int mode = 0;
  text->status = nvml_DeviceGetComputeMode(gpu->device, &mode);
  smi_text_format(text, "%s", mode >= 0 && mode < 4 ? names[mode] : "Unknown");
}

void smi_read_mig_mode(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned current = 0, pending = 0;
  text->status = nvml_DeviceGetMigMode(gpu->device, &current, &pending);
  smi_text_format(text, "%s", (argument ? pending : current) == 1 ? "Enabled" : "Disabled");
}

void smi_read_ecc_mode(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  int current = 0, pending = 0;
  text->status = nvml_DeviceGetEccMode(gpu->device, &current, &pending);
  smi_text_format(text, "%s", (argument ? pending : current) == 1 ? "Enabled" : "Disabled");
}

void smi_read_pci(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  nvmlPciInfo_t pci;
  memset(&pci, 0, sizeof pci);
  text->status = nvml_DeviceGetPciInfo_v3(gpu->device, &pci);
  switch (argument) {
    case SMI_PCI_BUS_ID:
      smi_text_take(text, pci.bus_id, sizeof pci.bus_id);
      break;
    case SMI_PCI_DOMAIN:
      smi_text_format(text, "%04X", pci.domain);
      break;
    case SMI_PCI_HEX_DOMAIN:
      smi_text_format(text, "0x%04X", pci.domain);
      break;
    case SMI_PCI_BUS:
      smi_text_format(text, "%02X", pci.bus);
      break;
    case SMI_PCI_HEX_BUS:
      smi_text_format(text, "0x%02X", pci.bus);
      break;
    case SMI_PCI_DEVICE:
      smi_text_format(text, "%02X", pci.device);
      break;
    case SMI_PCI_HEX_DEVICE:
      smi_text_format(text, "0x%02X", pci.device);
      break;
    case SMI_PCI_ID:
      smi_text_format(text, "%08X", pci.pci_device_id);
      break;
    case SMI_PCI_HEX_ID:
      smi_text_format(text, "0x%08X", pci.pci_device_id);
      break;
    case SMI_PCI_SUB_ID:
      smi_text_format(text, "%08X", pci.pci_sub_system_id);
      break;
    default:
      smi_text_format(text, "0x%08X", pci.pci_sub_system_id);
  }
}

void smi_read_pcie_generation(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned value = 0;
  text->status = argument ? nvml_DeviceGetMaxPcieLinkGeneration(gpu->device, &value)
                          : nvml_DeviceGetCurrPcieLinkGeneration(gpu->device, &value);
  smi_text_format(text, "%u", value);
}

/* Bit 1 of the argument: add the trailing x that -q prints. */
void smi_read_pcie_width(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned value = 0;
  text->status = argument & 1 ? nvml_DeviceGetMaxPcieLinkWidth(gpu->device, &value)
                              : nvml_DeviceGetCurrPcieLinkWidth(gpu->device, &value);
  smi_text_format(text, "%u%s", value, argument & 2 ? "x" : "");
}

void smi_read_pcie_throughput(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  unsigned value = 0;
  text->status = nvml_DeviceGetPcieThroughput(gpu->device, argument, &value);
  smi_text_format(text, "%u", value);
}

void smi_read_pcie_replays(const struct smi_gpu *gpu, int argument, struct smi_text *text) {
  (void)argument;
  unsigned value = 0;
  text->status = nvml_DeviceGetPcieReplayCounter(gpu->device, &value);
  smi_text_format(text, "%u", value);
}
