#include "base/device.h"

#include <string.h>

#include "api.h"
#include "process.h"

enum { DRIVER_VERSION = 13000 }; /* before cuInit, when no device has reported its own */

struct tsr_device *tsr_device(CUdevice ordinal) {
  return ordinal >= 0 && ordinal < tsr_device_count ? &tsr_devices[ordinal] : NULL;
}

int tsr_device_attribute(const struct tsr_device *device, unsigned attribute, int otherwise) {
  if (attribute >= TESSERA_CLOCK_ATTRIBUTE) return otherwise;
  const int32_t value = device->slice.info.attributes[attribute];
  return value == TESSERA_ATTRIBUTE_UNKNOWN ? otherwise : value;
}

CUresult tsr_cuDriverGetVersion(int *driverVersion) {
  if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = tsr_state() == CUDA_SUCCESS ? (int)tsr_devices[0].slice.info.driver_version
                                               : (int)DRIVER_VERSION;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetCount(int *count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = tsr_device_count;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGet(CUdevice *device, int ordinal) {
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetName(char *name, int len, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!name || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t length = strlen(device->slice.info.name);
  const size_t copied = length < (size_t)len ? length : (size_t)len - 1;
  memcpy(name, device->slice.info.name, copied);
  name[copied] = 0;
  return CUDA_SUCCESS;
}

/* The first version returns the GPU's UUID, the second the MIG device's. */
CUresult tsr_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  memcpy(uuid->bytes, device->slice.info.gpu_uuid, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  memcpy(uuid->bytes, device->slice.info.uuid, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = device->slice.info.memory_bytes;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  const int value = tsr_device_attribute(device, (unsigned)attrib, TESSERA_ATTRIBUTE_UNKNOWN);
  if (!pi || value == TESSERA_ATTRIBUTE_UNKNOWN) return CUDA_ERROR_INVALID_VALUE;
  *pi = value;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = (int)device->slice.info.capability_major;
  *minor = (int)device->slice.info.capability_minor;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
  const struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!prop) return CUDA_ERROR_INVALID_VALUE;
  int values[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT + 1];
  for (int i = 1; i <= CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT; i++)
    values[i] = tsr_device_attribute(device, (unsigned)i, 0);
  *prop = (CUdevprop){
      .maxThreadsPerBlock = values[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
      .sharedMemPerBlock = values[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
      .totalConstantMemory = values[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
      .SIMDWidth = values[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
      .memPitch = values[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
      .regsPerBlock = values[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
      .clockRate = values[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
      .textureAlign = values[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
  };
  for (int i = 0; i < 3; i++) {
    prop->maxThreadsDim[i] = values[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i];
    prop->maxGridSize[i] = values[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i];
  }
  return CUDA_SUCCESS;
}
