/* Static properties of a device: names, numbers, addresses, modes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "view/answer.h"
#include "api.h"

enum { BUS_TYPE_PCIE = 2, VIRTUALIZATION_NONE = 0, BASE_CLASS_DISPLAY = 3, SUB_CLASS_3D = 2 };

/* Write the same name as libcuda: the product and, for a MIG device, its profile. */
nvmlReturn_t tsr_nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (result != NVML_SUCCESS) return result;
  if (!found.is_mig) return tsr_copy_text(name, length, found.gpu.name);
  char text[sizeof found.gpu.name + sizeof found.instance.name + 8];
  snprintf(text, sizeof text, "%s MIG %s", found.gpu.name, found.instance.name);
  return tsr_copy_text(name, length, text);
}

nvmlReturn_t tsr_nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (result != NVML_SUCCESS) return result;
  char text[TSR_UUID_TEXT_BYTES];
  if (found.is_mig)
    tsr_uuid_text("MIG-", found.instance.uuid, text);
  else
    tsr_uuid_text("GPU-", found.gpu.uuid, text);
  return tsr_copy_text(uuid, length, text);
}

nvmlReturn_t tsr_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
  if (!index) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result;
  const struct tsr_view *view = tsr_view(TSR_SAMPLED, &result);
  if (!view) return result;
  struct tsr_device found;
  result = tsr_device_in(view, device, &found);
  if (result == NVML_SUCCESS && !found.is_mig) *index = found.gpu_index;
  if (result == NVML_SUCCESS && found.is_mig) {
    *index = 0;
    for (int i = 0; i < found.instance_index; i++)
      *index += view->instances[i].gpu == found.gpu_index &&
                tsr_is_mig_device(&view->instances[i]);
  }
  tsr_view_done();
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!minorNumber) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *minorNumber = found.gpu.index;
  return result;
}

static void bus_id(char *text, size_t bytes, int domain_digits, const struct tsr_device *device) {
  snprintf(text, bytes, "%0*X:%02X:00.0", domain_digits, 0, device->gpu.pci_bus & 0xff);
}

/* A MIG device has its GPU's bus address. */
nvmlReturn_t tsr_nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  memset(pci, 0, sizeof *pci);
  pci->bus = found.gpu.pci_bus;
  pci->pciDeviceId = found.gpu.pci_device_id;
  bus_id(pci->busIdLegacy, sizeof pci->busIdLegacy, 4, &found);
  bus_id(pci->busId, sizeof pci->busId, 8, &found);
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci) {
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlPciInfo_t info;
  const nvmlReturn_t result = tsr_nvmlDeviceGetPciInfo_v3(device, &info);
  if (result != NVML_SUCCESS) return result;
  memset(pci, 0, sizeof *pci);
  memcpy(pci->busId, info.busIdLegacy, sizeof pci->busId);
  pci->bus = info.bus;
  pci->pciDeviceId = info.pciDeviceId;
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *pci) {
  return tsr_nvmlDeviceGetPciInfo_v2(device, pci);
}

nvmlReturn_t tsr_nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci) {
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  if (pci->version != NVML_STRUCT_VERSION(nvmlPciInfoExt_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlPciInfo_t info;
  const nvmlReturn_t result = tsr_nvmlDeviceGetPciInfo_v3(device, &info);
  if (result != NVML_SUCCESS) return result;
  *pci = (nvmlPciInfoExt_t){.version = pci->version,
                            .bus = info.bus,
                            .pciDeviceId = info.pciDeviceId,
                            .baseClass = BASE_CLASS_DISPLAY,
                            .subClass = SUB_CLASS_3D};
  memcpy(pci->busId, info.busId, sizeof pci->busId);
  return NVML_SUCCESS;
}

nvmlReturn_t tsr_nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_device(device, TSR_FACTS, &found);
  if (!major || !minor) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  *major = (int)found.gpu.capability_major;
  *minor = (int)found.gpu.capability_minor;
  return NVML_SUCCESS;
}

/* Return one number of a record, or also of a MIG device's record if `of_mig` is set. */
static nvmlReturn_t number(nvmlDevice_t device, bool of_mig, size_t offset, unsigned int *value) {
  struct tsr_device found;
  const nvmlReturn_t result =
      of_mig ? tsr_device(device, TSR_FACTS, &found) : tsr_gpu(device, TSR_FACTS, &found);
  if (!value) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) memcpy(value, (const char *)&found.gpu + offset, sizeof *value);
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type) {
  return number(device, true, offsetof(tessera_gpu_record, brand), type);
}

nvmlReturn_t tsr_nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch) {
  return number(device, true, offsetof(tessera_gpu_record, architecture), arch);
}

nvmlReturn_t tsr_nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *busWidth) {
  return number(device, false, offsetof(tessera_gpu_record, bus_bits), busWidth);
}

static nvmlReturn_t constant(nvmlDevice_t device, bool of_mig, unsigned int *value,
                             unsigned int is) {
  struct tsr_device found;
  const nvmlReturn_t result =
      of_mig ? tsr_device(device, TSR_FACTS, &found) : tsr_gpu(device, TSR_FACTS, &found);
  if (!value) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) *value = is;
  return result;
}

nvmlReturn_t tsr_nvmlDeviceGetBusType(nvmlDevice_t device, nvmlBusType_t *type) {
  return constant(device, false, type, BUS_TYPE_PCIE);
}

nvmlReturn_t tsr_nvmlDeviceGetVirtualizationMode(nvmlDevice_t device,
                                                 nvmlGpuVirtualizationMode_t *pVirtualMode) {
  return constant(device, false, pVirtualMode, VIRTUALIZATION_NONE);
}

/* NVML_DEVICE_ADDRESSING_MODE_NONE: the driver has no managed memory. */
nvmlReturn_t tsr_nvmlDeviceGetAddressingMode(nvmlDevice_t device,
                                             nvmlDeviceAddressingMode_t *mode) {
  if (!mode) return NVML_ERROR_INVALID_ARGUMENT;
  if (mode->version != NVML_STRUCT_VERSION(nvmlDeviceAddressingMode_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return constant(device, false, &mode->value, 0);
}

nvmlReturn_t tsr_nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *multiGpuBool) {
  return constant(device, false, multiGpuBool, 0);
}

nvmlReturn_t tsr_nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display) {
  return constant(device, false, display, NVML_FEATURE_DISABLED);
}

nvmlReturn_t tsr_nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *isActive) {
  return constant(device, false, isActive, NVML_FEATURE_DISABLED);
}

/* Persistence is always on: gpud keeps a GPU's state whether programs use it or not. */
nvmlReturn_t tsr_nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
  return constant(device, false, mode, NVML_FEATURE_ENABLED);
}

/* NVML_COMPUTEMODE_DEFAULT: any number of processes. */
nvmlReturn_t tsr_nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode) {
  return constant(device, true, mode, 0);
}

/* Setting the current value succeeds. */
nvmlReturn_t tsr_nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (result != NVML_SUCCESS) return result;
  if (mode > NVML_FEATURE_ENABLED) return NVML_ERROR_INVALID_ARGUMENT;
  if (!found.node) return NVML_ERROR_NO_PERMISSION;
  return mode == NVML_FEATURE_ENABLED ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t tsr_nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (result != NVML_SUCCESS) return result;
  if (!found.node) return NVML_ERROR_NO_PERMISSION;
  return mode == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* None of the capabilities, such as extended GPU memory, is simulated. */
nvmlReturn_t tsr_nvmlDeviceGetCapabilities(nvmlDevice_t device, nvmlDeviceCapabilities_t *caps) {
  struct tsr_device found;
  if (!caps) return NVML_ERROR_INVALID_ARGUMENT;
  if (caps->version != NVML_STRUCT_VERSION(nvmlDeviceCapabilities_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (result == NVML_SUCCESS) caps->capMask = 0;
  return result;
}

/* The device's own number, which a simulated GPU has as the first half of its UUID. */
nvmlReturn_t tsr_nvmlDeviceGetPdi(nvmlDevice_t device, nvmlPdi_t *pdi) {
  struct tsr_device found;
  if (!pdi) return NVML_ERROR_INVALID_ARGUMENT;
  if (pdi->version != NVML_STRUCT_VERSION(nvmlPdi_t, 1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (result == NVML_SUCCESS) memcpy(&pdi->value, found.gpu.uuid, sizeof pdi->value);
  return result;
}

/* Licences are for virtual GPUs of hypervisors, which no board is. */
nvmlReturn_t tsr_nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t device,
                                                        nvmlGridLicensableFeatures_t *features) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_FACTS, &found);
  if (!features) return NVML_ERROR_INVALID_ARGUMENT;
  if (result == NVML_SUCCESS) memset(features, 0, sizeof *features);
  return result;
}
