/* The functions of libcuda.so.1 that this library calls by hand-written code. The code in thunks.c
 * declares those that it calls itself. */
#ifndef TSR_DRIVER_H
#define TSR_DRIVER_H

#include "runtime_types.h"

typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;

enum {
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
};

/* devices and contexts */
extern int cuInit(unsigned int flags);
extern int cuDriverGetVersion(int *version);
extern int cuDeviceGetCount(int *count);
extern int cuDeviceGetName(char *name, int bytes, CUdevice device);
extern int cuDeviceGetUuid_v2(struct CUuuid *uuid, CUdevice device);
extern int cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
extern int cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
extern int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
extern int cuDevicePrimaryCtxReset_v2(CUdevice device);
extern int cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
extern int cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
extern int cuCtxGetApiVersion(CUcontext context, unsigned int *version);
extern int cuCtxGetCurrent(CUcontext *context);
extern int cuCtxSetCurrent(CUcontext context);
extern int cuCtxGetDevice(CUdevice *device);
extern int cuCtxGetFlags(unsigned int *flags);
extern int cuCtxSynchronize(void);
extern int cuGreenCtxCreate(CUgreenCtx *context, cudaDevResourceDesc_t resources, CUdevice device,
                            unsigned int flags);
extern int cuGreenCtxDestroy(CUgreenCtx context);
extern int cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green);
extern int cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
extern int cuCtxDisablePeerAccess(CUcontext peer);
extern int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                               int *status);

/* code */
struct CUlaunchConfig {
  unsigned int grid[3], block[3];
  unsigned int shared_bytes;
  cudaStream_t stream;
  void *attributes;
  unsigned int attribute_count;
};
extern int cuLibraryLoadData(cudaLibrary_t *library, const void *code, void *options, void **values,
                             unsigned int count, void *library_options, void **library_values,
                             unsigned int library_count);
extern int cuLibraryUnload(cudaLibrary_t library);
extern int cuLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name);
extern int cuLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name);
extern int cuLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library,
                               const char *name);
extern int cuKernelGetFunction(cudaFunction_t *function, cudaKernel_t kernel);
extern int cuFuncGetAttribute(int *value, int attribute, cudaFunction_t function);
extern int cuFuncSetAttribute(cudaFunction_t function, int attribute, int value);
extern int cuFuncSetCacheConfig(cudaFunction_t function, int config);
extern int cuFuncSetSharedMemConfig(cudaFunction_t function, int config);
extern int cuFuncGetName(const char **name, cudaFunction_t function);
extern int cuFuncGetParamInfo(cudaFunction_t function, size_t index, size_t *offset, size_t *bytes);
extern int cuFuncGetParamCount(cudaFunction_t function, size_t *count);
extern int cuLaunchKernel(cudaFunction_t function, unsigned int grid_x, unsigned int grid_y,
                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                          unsigned int block_z, unsigned int shared_bytes, cudaStream_t stream,
                          void **parameters, void **extra);
extern int cuLaunchKernelEx(const struct CUlaunchConfig *config, cudaFunction_t function,
                            void **parameters, void **extra);
extern int cuLaunchCooperativeKernel(cudaFunction_t function, unsigned int grid_x,
                                     unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                     unsigned int block_y, unsigned int block_z,
                                     unsigned int shared_bytes, cudaStream_t stream,
                                     void **parameters);
extern int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, cudaFunction_t function,
                                                                int threads, size_t shared_bytes,
                                                                unsigned int flags);
extern int cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, cudaFunction_t function, int blocks,
                                                   int threads);
extern int cuOccupancyMaxPotentialClusterSize(int *size, cudaFunction_t function,
                                              const struct CUlaunchConfig *config);
extern int cuOccupancyMaxActiveClusters(int *clusters, cudaFunction_t function,
                                        const struct CUlaunchConfig *config);

/* memory and copies */
extern int cuMemAlloc_v2(void **address, size_t bytes);
extern int cuMemAllocPitch_v2(void **address, size_t *pitch, size_t width, size_t height,
                              unsigned int element_bytes);
extern int cuMemFree_v2(void *address);
extern int cuMemFreeHost(void *address);
extern int cuMemHostAlloc(void **address, size_t bytes, unsigned int flags);
extern int cuPointerGetAttribute(void *data, int attribute, const void *address);
extern int cuMemcpy(void *target, const void *source, size_t bytes);
extern int cuMemcpyHtoD_v2(void *target, const void *source, size_t bytes);
extern int cuMemcpyDtoH_v2(void *target, const void *source, size_t bytes);
extern int cuMemcpyDtoD_v2(void *target, const void *source, size_t bytes);
extern int cuMemcpyAsync(void *target, const void *source, size_t bytes, cudaStream_t stream);
extern int cuMemcpyHtoDAsync_v2(void *target, const void *source, size_t bytes, cudaStream_t stream);
extern int cuMemcpyDtoHAsync_v2(void *target, const void *source, size_t bytes, cudaStream_t stream);
extern int cuMemcpyDtoDAsync_v2(void *target, const void *source, size_t bytes, cudaStream_t stream);
extern int cuMemcpyPeer(void *target, CUcontext to, const void *source, CUcontext from, size_t bytes);
extern int cuMemcpyPeerAsync(void *target, CUcontext to, const void *source, CUcontext from,
                             size_t bytes, cudaStream_t stream);
extern int cuMemsetD2D8_v2(void *address, size_t pitch, unsigned char value, size_t width,
                           size_t height);
extern int cuMemsetD2D8Async(void *address, size_t pitch, unsigned char value, size_t width,
                             size_t height, cudaStream_t stream);
extern int cuStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority);
extern int cuStreamSynchronize(cudaStream_t stream);

/* Memory types of the driver's copy descriptors. */
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };

/* One end of a copy of the driver, in both of its descriptors. */
struct CUDA_MEMCPY2D {
  size_t source_x, source_y;
  int source_type;
  const void *source_host;
  const void *source_device;
  const void *source_array;
  size_t source_pitch;
  size_t target_x, target_y;
  int target_type;
  void *target_host;
  void *target_device;
  void *target_array;
  size_t target_pitch;
  size_t width, height;
};
struct CUDA_MEMCPY3D {
  size_t source_x, source_y, source_z, source_level;
  int source_type;
  const void *source_host;
  const void *source_device;
  const void *source_array;
  void *source_context; /* reserved, except in copies between contexts */
  size_t source_pitch, source_height;
  size_t target_x, target_y, target_z, target_level;
  int target_type;
  void *target_host;
  void *target_device;
  void *target_array;
  void *target_context;
  size_t target_pitch, target_height;
  size_t width, height, depth;
};
extern int cuMemcpy2DUnaligned_v2(const struct CUDA_MEMCPY2D *copy);
extern int cuMemcpy2DAsync_v2(const struct CUDA_MEMCPY2D *copy, cudaStream_t stream);
extern int cuMemcpy3D_v2(const struct CUDA_MEMCPY3D *copy);
extern int cuMemcpy3DAsync_v2(const struct CUDA_MEMCPY3D *copy, cudaStream_t stream);
extern int cuMemcpy3DPeer(const struct CUDA_MEMCPY3D *copy);
extern int cuMemcpy3DPeerAsync(const struct CUDA_MEMCPY3D *copy, cudaStream_t stream);

#endif
