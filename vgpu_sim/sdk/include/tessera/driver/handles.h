/* Handles, flags and stream operations of the CUDA driver. Names, values and layouts are facts of
 * CUDA 12.9's public interface; nothing else is taken from there. */
#ifndef TESSERA_DRIVER_HANDLES_H
#define TESSERA_DRIVER_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "values.h"

typedef uint32_t cuuint32_t;

typedef uint64_t cuuint64_t;

typedef unsigned long long CUdeviceptr_v2;

typedef CUdeviceptr_v2 CUdeviceptr;

typedef int CUdevice_v1;

typedef CUdevice_v1 CUdevice;

typedef struct CUctx_st *CUcontext;

typedef struct CUmod_st *CUmodule;

typedef struct CUfunc_st *CUfunction;

typedef struct CUlib_st *CUlibrary;

typedef struct CUkern_st *CUkernel;

typedef struct CUarray_st *CUarray;

typedef struct CUmipmappedArray_st *CUmipmappedArray;

typedef struct CUtexref_st *CUtexref;

typedef struct CUsurfref_st *CUsurfref;

typedef struct CUevent_st *CUevent;

typedef struct CUstream_st *CUstream;

typedef struct CUgraphicsResource_st *CUgraphicsResource;

typedef unsigned long long CUtexObject_v1;

typedef CUtexObject_v1 CUtexObject;

typedef unsigned long long CUsurfObject_v1;

typedef CUsurfObject_v1 CUsurfObject;

typedef struct CUextMemory_st *CUexternalMemory;

typedef struct CUextSemaphore_st *CUexternalSemaphore;

typedef struct CUgraph_st *CUgraph;

typedef struct CUgraphNode_st *CUgraphNode;

typedef struct CUgraphExec_st *CUgraphExec;

typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef struct CUuserObject_st *CUuserObject;

typedef cuuint64_t CUgraphConditionalHandle;

typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;

typedef struct CUasyncCallbackEntry_st *CUasyncCallbackHandle;

typedef struct CUgreenCtx_st *CUgreenCtx;

#ifndef CU_UUID_HAS_BEEN_DEFINED
#define CU_UUID_HAS_BEEN_DEFINED
struct CUuuid_st {
  char bytes[16];
};

typedef struct CUuuid_st CUuuid;
#endif

struct CUmemFabricHandle_st {
  unsigned char data[64];
};

typedef struct CUmemFabricHandle_st CUmemFabricHandle_v1;

typedef CUmemFabricHandle_v1 CUmemFabricHandle;

struct CUipcEventHandle_st {
  char reserved[64];
};

typedef struct CUipcEventHandle_st CUipcEventHandle_v1;

typedef CUipcEventHandle_v1 CUipcEventHandle;

struct CUipcMemHandle_st {
  char reserved[64];
};

typedef struct CUipcMemHandle_st CUipcMemHandle_v1;

typedef CUipcMemHandle_v1 CUipcMemHandle;

enum CUipcMem_flags_enum {
  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
};

typedef enum CUipcMem_flags_enum CUipcMem_flags;

enum CUmemAttach_flags_enum {
  CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2, CU_MEM_ATTACH_SINGLE = 4,
};

typedef enum CUmemAttach_flags_enum CUmemAttach_flags;

enum CUctx_flags_enum {
  CU_CTX_SCHED_AUTO = 0, CU_CTX_SCHED_SPIN = 1, CU_CTX_SCHED_YIELD = 2,
  CU_CTX_SCHED_BLOCKING_SYNC = 4, CU_CTX_BLOCKING_SYNC = 4, CU_CTX_SCHED_MASK = 7,
  CU_CTX_MAP_HOST = 8, CU_CTX_LMEM_RESIZE_TO_MAX = 16, CU_CTX_COREDUMP_ENABLE = 32,
  CU_CTX_USER_COREDUMP_ENABLE = 64, CU_CTX_SYNC_MEMOPS = 128, CU_CTX_FLAGS_MASK = 255,
};

typedef enum CUctx_flags_enum CUctx_flags;

enum CUevent_sched_flags_enum {
  CU_EVENT_SCHED_AUTO = 0, CU_EVENT_SCHED_SPIN = 1, CU_EVENT_SCHED_YIELD = 2,
  CU_EVENT_SCHED_BLOCKING_SYNC = 4,
};

typedef enum CUevent_sched_flags_enum CUevent_sched_flags;

enum cl_event_flags_enum {
  NVCL_EVENT_SCHED_AUTO = 0, NVCL_EVENT_SCHED_SPIN = 1, NVCL_EVENT_SCHED_YIELD = 2,
  NVCL_EVENT_SCHED_BLOCKING_SYNC = 4,
};

typedef enum cl_event_flags_enum cl_event_flags;

enum cl_context_flags_enum {
  NVCL_CTX_SCHED_AUTO = 0, NVCL_CTX_SCHED_SPIN = 1, NVCL_CTX_SCHED_YIELD = 2,
  NVCL_CTX_SCHED_BLOCKING_SYNC = 4,
};

typedef enum cl_context_flags_enum cl_context_flags;

enum CUstream_flags_enum {
  CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1,
};

typedef enum CUstream_flags_enum CUstream_flags;

enum CUevent_flags_enum {
  CU_EVENT_DEFAULT = 0, CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4,
};

typedef enum CUevent_flags_enum CUevent_flags;

enum CUevent_record_flags_enum {
  CU_EVENT_RECORD_DEFAULT = 0, CU_EVENT_RECORD_EXTERNAL = 1,
};

typedef enum CUevent_record_flags_enum CUevent_record_flags;

enum CUevent_wait_flags_enum {
  CU_EVENT_WAIT_DEFAULT = 0, CU_EVENT_WAIT_EXTERNAL = 1,
};

typedef enum CUevent_wait_flags_enum CUevent_wait_flags;

enum CUstreamWaitValue_flags_enum {
  CU_STREAM_WAIT_VALUE_GEQ = 0, CU_STREAM_WAIT_VALUE_EQ = 1, CU_STREAM_WAIT_VALUE_AND = 2,
  CU_STREAM_WAIT_VALUE_NOR = 3, CU_STREAM_WAIT_VALUE_FLUSH = 1073741824,
};

typedef enum CUstreamWaitValue_flags_enum CUstreamWaitValue_flags;

enum CUstreamWriteValue_flags_enum {
  CU_STREAM_WRITE_VALUE_DEFAULT = 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1,
};

typedef enum CUstreamWriteValue_flags_enum CUstreamWriteValue_flags;

enum CUstreamBatchMemOpType_enum {
  CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1, CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
  CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4, CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
  CU_STREAM_MEM_OP_BARRIER = 6, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
};

typedef enum CUstreamBatchMemOpType_enum CUstreamBatchMemOpType;

enum CUstreamMemoryBarrier_flags_enum {
  CU_STREAM_MEMORY_BARRIER_TYPE_SYS = 0, CU_STREAM_MEMORY_BARRIER_TYPE_GPU = 1,
};

typedef enum CUstreamMemoryBarrier_flags_enum CUstreamMemoryBarrier_flags;

union CUstreamBatchMemOpParams_union {
  CUstreamBatchMemOpType operation;
  struct CUstreamMemOpWaitValueParams_st {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    union {
      cuuint32_t value;
      cuuint64_t value64;
    };
    unsigned int flags;
    CUdeviceptr alias;
  } waitValue;
  struct CUstreamMemOpWriteValueParams_st {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    union {
      cuuint32_t value;
      cuuint64_t value64;
    };
    unsigned int flags;
    CUdeviceptr alias;
  } writeValue;
  struct CUstreamMemOpFlushRemoteWritesParams_st {
    CUstreamBatchMemOpType operation;
    unsigned int flags;
  } flushRemoteWrites;
  struct CUstreamMemOpMemoryBarrierParams_st {
    CUstreamBatchMemOpType operation;
    unsigned int flags;
  } memoryBarrier;
  cuuint64_t pad[6];
};

typedef union CUstreamBatchMemOpParams_union CUstreamBatchMemOpParams_v1;

typedef CUstreamBatchMemOpParams_v1 CUstreamBatchMemOpParams;

struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st {
  CUcontext ctx;
  unsigned int count;
  CUstreamBatchMemOpParams *paramArray;
  unsigned int flags;
};

typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st CUDA_BATCH_MEM_OP_NODE_PARAMS_v1;

typedef CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 CUDA_BATCH_MEM_OP_NODE_PARAMS;

struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2_st {
  CUcontext ctx;
  unsigned int count;
  CUstreamBatchMemOpParams *paramArray;
  unsigned int flags;
};

typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2_st CUDA_BATCH_MEM_OP_NODE_PARAMS_v2;

enum CUoccupancy_flags_enum {
  CU_OCCUPANCY_DEFAULT = 0, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 1,
};

typedef enum CUoccupancy_flags_enum CUoccupancy_flags;

enum CUstreamUpdateCaptureDependencies_flags_enum {
  CU_STREAM_ADD_CAPTURE_DEPENDENCIES = 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1,
};

typedef enum CUstreamUpdateCaptureDependencies_flags_enum CUstreamUpdateCaptureDependencies_flags;

enum CUasyncNotificationType_enum {
  CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET = 1,
};

typedef enum CUasyncNotificationType_enum CUasyncNotificationType;

struct CUasyncNotificationInfo_st {
  CUasyncNotificationType type;
  union {
    struct {
      unsigned long long bytesOverBudget;
    } overBudget;
  } info;
};

typedef struct CUasyncNotificationInfo_st CUasyncNotificationInfo;

typedef void (*CUasyncCallback)(CUasyncNotificationInfo *, void *, CUasyncCallbackHandle);

enum CUarray_format_enum {
  CU_AD_FORMAT_UNSIGNED_INT8 = 1, CU_AD_FORMAT_UNSIGNED_INT16 = 2, CU_AD_FORMAT_UNSIGNED_INT32 = 3,
  CU_AD_FORMAT_SIGNED_INT8 = 8, CU_AD_FORMAT_SIGNED_INT16 = 9, CU_AD_FORMAT_SIGNED_INT32 = 10,
  CU_AD_FORMAT_HALF = 16, CU_AD_FORMAT_FLOAT = 32, CU_AD_FORMAT_NV12 = 176,
  CU_AD_FORMAT_UNORM_INT8X1 = 192, CU_AD_FORMAT_UNORM_INT8X2 = 193,
  CU_AD_FORMAT_UNORM_INT8X4 = 194, CU_AD_FORMAT_UNORM_INT16X1 = 195,
  CU_AD_FORMAT_UNORM_INT16X2 = 196, CU_AD_FORMAT_UNORM_INT16X4 = 197,
  CU_AD_FORMAT_SNORM_INT8X1 = 198, CU_AD_FORMAT_SNORM_INT8X2 = 199,
  CU_AD_FORMAT_SNORM_INT8X4 = 200, CU_AD_FORMAT_SNORM_INT16X1 = 201,
  CU_AD_FORMAT_SNORM_INT16X2 = 202, CU_AD_FORMAT_SNORM_INT16X4 = 203, CU_AD_FORMAT_BC1_UNORM = 145,
  CU_AD_FORMAT_BC1_UNORM_SRGB = 146, CU_AD_FORMAT_BC2_UNORM = 147,
  CU_AD_FORMAT_BC2_UNORM_SRGB = 148, CU_AD_FORMAT_BC3_UNORM = 149,
  CU_AD_FORMAT_BC3_UNORM_SRGB = 150, CU_AD_FORMAT_BC4_UNORM = 151, CU_AD_FORMAT_BC4_SNORM = 152,
  CU_AD_FORMAT_BC5_UNORM = 153, CU_AD_FORMAT_BC5_SNORM = 154, CU_AD_FORMAT_BC6H_UF16 = 155,
  CU_AD_FORMAT_BC6H_SF16 = 156, CU_AD_FORMAT_BC7_UNORM = 157, CU_AD_FORMAT_BC7_UNORM_SRGB = 158,
  CU_AD_FORMAT_P010 = 159, CU_AD_FORMAT_P016 = 161, CU_AD_FORMAT_NV16 = 162,
  CU_AD_FORMAT_P210 = 163, CU_AD_FORMAT_P216 = 164, CU_AD_FORMAT_YUY2 = 165,
  CU_AD_FORMAT_Y210 = 166, CU_AD_FORMAT_Y216 = 167, CU_AD_FORMAT_AYUV = 168,
  CU_AD_FORMAT_Y410 = 169, CU_AD_FORMAT_Y416 = 177, CU_AD_FORMAT_Y444_PLANAR8 = 178,
  CU_AD_FORMAT_Y444_PLANAR10 = 179, CU_AD_FORMAT_YUV444_8bit_SemiPlanar = 180,
  CU_AD_FORMAT_YUV444_16bit_SemiPlanar = 181, CU_AD_FORMAT_UNORM_INT_101010_2 = 80,
  CU_AD_FORMAT_MAX = 2147483647,
};

typedef enum CUarray_format_enum CUarray_format;

#endif
