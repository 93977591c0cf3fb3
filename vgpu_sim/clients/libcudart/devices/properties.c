/* cudaGetDeviceProperties and cudaChooseDevice. */
#include <limits.h>
#include <string.h>

#include "api.h"
#include "devices/device_prop.h"
#include "state.h"

/* Fields that are attributes of the driver, by the attribute's public number. */
static const struct {
  size_t offset;
  size_t bytes;
  int attribute;
} fields[] = {
#define FIELD(name, attribute)                                                              \
  {offsetof(struct cudaDeviceProp, name), sizeof(((struct cudaDeviceProp *)NULL)->name), attribute}
    FIELD(sharedMemPerBlock, 8),
    FIELD(regsPerBlock, 12),
    FIELD(warpSize, 10),
    FIELD(memPitch, 11),
    FIELD(maxThreadsPerBlock, 1),
    FIELD(maxThreadsDim[0], 2),
    FIELD(maxThreadsDim[1], 3),
    FIELD(maxThreadsDim[2], 4),
    FIELD(maxGridSize[0], 5),
    FIELD(maxGridSize[1], 6),
    FIELD(maxGridSize[2], 7),
    FIELD(totalConstMem, 9),
    FIELD(major, 75),
    FIELD(minor, 76),
    FIELD(textureAlignment, 14),
    FIELD(texturePitchAlignment, 51),
    FIELD(multiProcessorCount, 16),
    FIELD(integrated, 18),
    FIELD(canMapHostMemory, 19),
    FIELD(maxTexture1D, 21),
    FIELD(maxTexture1DMipmap, 77),
    FIELD(maxTexture2D[0], 22),
    FIELD(maxTexture2D[1], 23),
    FIELD(maxTexture2DMipmap[0], 73),
    FIELD(maxTexture2DMipmap[1], 74),
    FIELD(maxTexture2DLinear[0], 70),
    FIELD(maxTexture2DLinear[1], 71),
    FIELD(maxTexture2DLinear[2], 72),
    FIELD(maxTexture2DGather[0], 45),
    FIELD(maxTexture2DGather[1], 46),
    FIELD(maxTexture3D[0], 24),
    FIELD(maxTexture3D[1], 25),
    FIELD(maxTexture3D[2], 26),
    FIELD(maxTexture3DAlt[0], 47),
    FIELD(maxTexture3DAlt[1], 48),
    FIELD(maxTexture3DAlt[2], 49),
    FIELD(maxTextureCubemap, 52),
    FIELD(maxTexture1DLayered[0], 42),
    FIELD(maxTexture1DLayered[1], 43),
    FIELD(maxTexture2DLayered[0], 27),
    FIELD(maxTexture2DLayered[1], 28),
    FIELD(maxTexture2DLayered[2], 29),
    FIELD(maxTextureCubemapLayered[0], 53),
    FIELD(maxTextureCubemapLayered[1], 54),
    FIELD(maxSurface1D, 55),
    FIELD(maxSurface2D[0], 56),
    FIELD(maxSurface2D[1], 57),
    FIELD(maxSurface3D[0], 58),
    FIELD(maxSurface3D[1], 59),
    FIELD(maxSurface3D[2], 60),
    FIELD(maxSurface1DLayered[0], 61),
    FIELD(maxSurface1DLayered[1], 62),
    FIELD(maxSurface2DLayered[0], 63),
    FIELD(maxSurface2DLayered[1], 64),
    FIELD(maxSurface2DLayered[2], 65),
    FIELD(maxSurfaceCubemap, 66),
    FIELD(maxSurfaceCubemapLayered[0], 67),
    FIELD(maxSurfaceCubemapLayered[1], 68),
    FIELD(surfaceAlignment, 30),
    FIELD(concurrentKernels, 31),
    FIELD(ECCEnabled, 32),
    FIELD(pciBusID, 33),
    FIELD(pciDeviceID, 34),
    FIELD(pciDomainID, 50),
    FIELD(tccDriver, 35),
    FIELD(asyncEngineCount, 40),
    FIELD(unifiedAddressing, 41),
    FIELD(memoryBusWidth, 37),
    FIELD(l2CacheSize, 38),
    FIELD(persistingL2CacheMaxSize, 108),
    FIELD(maxThreadsPerMultiProcessor, 39),
    FIELD(streamPrioritiesSupported, 78),
    FIELD(globalL1CacheSupported, 79),
    FIELD(localL1CacheSupported, 80),
    FIELD(sharedMemPerMultiprocessor, 81),
    FIELD(regsPerMultiprocessor, 82),
    FIELD(managedMemory, 83),
    FIELD(isMultiGpuBoard, 84),
    FIELD(multiGpuBoardGroupID, 85),
    FIELD(hostNativeAtomicSupported, 86),
    FIELD(pageableMemoryAccess, 88),
    FIELD(concurrentManagedAccess, 89),
    FIELD(computePreemptionSupported, 90),
    FIELD(canUseHostPointerForRegisteredMem, 91),
    FIELD(cooperativeLaunch, 95),
    FIELD(sharedMemPerBlockOptin, 97),
    FIELD(pageableMemoryAccessUsesHostPageTables, 100),
    FIELD(directManagedMemAccessFromHost, 101),
    FIELD(maxBlocksPerMultiProcessor, 106),
    FIELD(accessPolicyMaxWindowSize, 109),
    FIELD(reservedSharedMemPerBlock, 111),
    FIELD(hostRegisterSupported, 99),
    FIELD(sparseCudaArraySupported, 112),
    FIELD(hostRegisterReadOnlySupported, 113),
    FIELD(timelineSemaphoreInteropSupported, 114),
    FIELD(memoryPoolsSupported, 115),
    FIELD(gpuDirectRDMASupported, 116),
    FIELD(gpuDirectRDMAFlushWritesOptions, 117),
    FIELD(gpuDirectRDMAWritesOrdering, 118),
    FIELD(memoryPoolSupportedHandleTypes, 119),
    FIELD(deferredMappingCudaArraySupported, 121),
    FIELD(ipcEventSupported, 125),
    FIELD(clusterLaunch, 120),
    FIELD(unifiedFunctionPointers, 129),
#if TSR_CUDART >= 13
    FIELD(deviceNumaConfig, 130),
    FIELD(deviceNumaId, 131),
    FIELD(mpsEnabled, 133),
    FIELD(hostNumaId, 134),
    FIELD(gpuPciDeviceID, 139),
    FIELD(gpuPciSubsystemID, 140),
    FIELD(hostNumaMultinodeIpcSupported, 143),
#else
    FIELD(clockRate, 13),
    FIELD(deviceOverlap, 15),
    FIELD(kernelExecTimeoutEnabled, 17),
    FIELD(computeMode, 20),
    FIELD(maxTexture1DLinear, 69),
    FIELD(memoryClockRate, 36),
    FIELD(singleToDoublePrecisionPerfRatio, 87),
    FIELD(cooperativeMultiDeviceLaunch, 96),
#endif
#undef FIELD
};

static cudaError_t read_properties(struct cudaDeviceProp *prop, int device) {
  if (!prop) return cudaErrorInvalidValue;
  if (device < 0 || device >= tsr_device_count()) return cudaErrorInvalidDevice;
  struct cudaDeviceProp read;
  memset(&read, 0, sizeof read);
  int result = cuDeviceGetName(read.name, sizeof read.name, device);
  if (result == cudaSuccess) result = cuDeviceGetUuid_v2(&read.uuid, device);
  if (result == cudaSuccess) result = cuDeviceTotalMem_v2(&read.totalGlobalMem, device);
  for (size_t i = 0; i < sizeof fields / sizeof *fields && result == cudaSuccess; i++) {
    int value = 0;
    /* An older driver does not know all attributes; their fields are 0. */
    if (cuDeviceGetAttribute(&value, fields[i].attribute, device) != cudaSuccess) continue;
    const size_t wide = (size_t)value;
    memcpy((char *)&read + fields[i].offset,
           fields[i].bytes == sizeof value ? (const void *)&value : (const void *)&wide,
           fields[i].bytes);
  }
  if (result == cudaSuccess) *prop = read;
  return result;
}

#if TSR_CUDART < 13
/* The structure of this symbol is CUDA 11's, which ends where later versions have more members. */
cudaError_t tsr_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
  enum { CUDA_11_BYTES = offsetof(struct cudaDeviceProp, hostRegisterSupported) };
  _Static_assert(CUDA_11_BYTES == 728, "size of CUDA 11.8's structure");
  if (!prop) return cudaErrorInvalidValue;
  struct cudaDeviceProp read;
  const cudaError_t result = read_properties(&read, device);
  if (result == cudaSuccess) memcpy(prop, &read, CUDA_11_BYTES);
  return result;
}

/* In version 12 headers, the name without suffix means this symbol. */
cudaError_t tsr_cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device) {
  return read_properties(prop, device);
}
#else
cudaError_t tsr_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
  return read_properties(prop, device);
}
#endif

/* How many of the properties that programs usually want a device has. */
static int matches(const struct cudaDeviceProp *wanted, const struct cudaDeviceProp *device) {
  return (wanted->major <= device->major) + (wanted->minor <= device->minor) +
         (wanted->totalGlobalMem <= device->totalGlobalMem) +
         (wanted->multiProcessorCount <= device->multiProcessorCount) +
         (wanted->sharedMemPerBlock <= device->sharedMemPerBlock) +
         (wanted->maxThreadsPerBlock <= device->maxThreadsPerBlock);
}

cudaError_t tsr_cudaChooseDevice(int *device, const struct cudaDeviceProp *prop) {
  if (!device || !prop) return cudaErrorInvalidValue;
  int best = INT_MIN;
  for (int i = 0; i < tsr_device_count(); i++) {
    struct cudaDeviceProp read;
    const cudaError_t result = read_properties(&read, i);
    if (result != cudaSuccess) return result;
    const int score = matches(prop, &read);
    if (score > best) {
      best = score;
      *device = i;
    }
  }
  return cudaSuccess;
}
