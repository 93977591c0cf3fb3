/* cudaDeviceProp, whose layout differs between the major versions. */
#ifndef TSR_DEVICE_PROP_H
#define TSR_DEVICE_PROP_H

#include "runtime_types.h"

#if TSR_CUDART >= 13
#define TSR_ONLY_12(field)
#define TSR_ONLY_13(field) field;
enum { TSR_RESERVED_PROPERTIES = 56 };
#else
#define TSR_ONLY_12(field) field;
#define TSR_ONLY_13(field)
enum { TSR_RESERVED_PROPERTIES = 63 };
#endif

struct cudaDeviceProp {
  char name[256];
  struct CUuuid uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  TSR_ONLY_12(int clockRate)
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  TSR_ONLY_12(int deviceOverlap)
  int multiProcessorCount;
  TSR_ONLY_12(int kernelExecTimeoutEnabled)
  int integrated;
  int canMapHostMemory;
  TSR_ONLY_12(int computeMode)
  int maxTexture1D;
  int maxTexture1DMipmap;
  TSR_ONLY_12(int maxTexture1DLinear)
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  TSR_ONLY_12(int memoryClockRate)
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  TSR_ONLY_12(int singleToDoublePrecisionPerfRatio)
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  TSR_ONLY_12(int cooperativeMultiDeviceLaunch)
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  TSR_ONLY_13(int deviceNumaConfig)
  TSR_ONLY_13(int deviceNumaId)
  TSR_ONLY_13(int mpsEnabled)
  TSR_ONLY_13(int hostNumaId)
  TSR_ONLY_13(unsigned int gpuPciDeviceID)
  TSR_ONLY_13(unsigned int gpuPciSubsystemID)
  TSR_ONLY_13(int hostNumaMultinodeIpcSupported)
  int reserved[TSR_RESERVED_PROPERTIES];
};

#endif
