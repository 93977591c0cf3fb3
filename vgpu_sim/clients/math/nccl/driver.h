/* The functions of libcuda that this library calls. */
#ifndef TSR_NCCL_DRIVER_H
#define TSR_NCCL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "nccl_types.h"

typedef struct CUctx_st *tsr_context_t;
typedef struct CUevent_st *tsr_event_t;

enum {
  TSR_STREAM_NON_BLOCKING = 1,
  TSR_EVENT_DISABLE_TIMING = 2,
  TSR_NOT_READY = 600,
  TSR_WAIT_AT_LEAST = 0,
  TSR_UUID_BYTES = 16,
};

extern int cuInit(unsigned int flags);
extern int cuCtxGetCurrent(tsr_context_t *context);
extern int cuCtxGetDevice(int *device);
extern int cuCtxGetId(tsr_context_t context, unsigned long long *id);
extern int cuCtxPopCurrent_v2(tsr_context_t *context);
extern int cuCtxPushCurrent_v2(tsr_context_t context);
extern int cuCtxSetCurrent(tsr_context_t context);
extern int cuDeviceGetCount(int *count);
extern int cuDeviceGetUuid_v2(uint8_t *uuid, int device);
extern int cuDevicePrimaryCtxRelease_v2(int device);
extern int cuDevicePrimaryCtxRetain(tsr_context_t *context, int device);
extern int cuEventCreate(tsr_event_t *event, unsigned int flags);
extern int cuEventDestroy_v2(tsr_event_t event);
extern int cuEventQuery(tsr_event_t event);
extern int cuEventRecord(tsr_event_t event, cudaStream_t stream);
extern int cuMemAlloc_v2(uint64_t *memory, size_t bytes);
extern int cuMemFree_v2(uint64_t memory);
extern int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, cudaStream_t stream);
extern int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, cudaStream_t stream);
extern int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, cudaStream_t stream);
extern int cuStreamCreate(cudaStream_t *stream, unsigned int flags);
extern int cuStreamDestroy_v2(cudaStream_t stream);
extern int cuStreamIsCapturing(cudaStream_t stream, int *status);
extern int cuStreamSynchronize(cudaStream_t stream);
extern int cuStreamWaitValue64_v2(cudaStream_t stream, uint64_t address, uint64_t value, unsigned int flags);
extern int cuStreamWriteValue64_v2(cudaStream_t stream, uint64_t address, uint64_t value, unsigned int flags);

#endif
