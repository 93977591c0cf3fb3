/* Types of the functions for streams, part of driver_types.h. Layouts and values are those of the
 * public CUDA headers. */
#ifndef TSR_STREAM_TYPES_H
#define TSR_STREAM_TYPES_H

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

typedef void (*CUhostFn)(void *userData);
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
/* Messages of the driver. */
typedef enum CUlogLevel { CU_LOG_LEVEL_ERROR = 0, CU_LOG_LEVEL_WARNING = 1 } CUlogLevel;
typedef unsigned int CUlogIterator; /* the number of a message */
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;
typedef void (*CUlogsCallback)(void *data, CUlogLevel logLevel, char *message, size_t length);

typedef int CUatomicOperation; /* 0 to 12 */
typedef int CUflushGPUDirectRDMAWritesTarget;
typedef int CUflushGPUDirectRDMAWritesScope;

enum { CU_HOST_TASK_BLOCKING = 0, CU_HOST_TASK_SPINWAIT = 1 };

enum {
  CU_STREAM_WAIT_VALUE_NOR = 3, /* all conditions are 0 to 3 */
  CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30,
};
enum { CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1 };

typedef enum CUstreamBatchMemOpType {
  CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
  CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
  CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
  CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
  CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
  CU_STREAM_MEM_OP_BARRIER = 6,
  CU_STREAM_MEM_OP_ATOMIC_REDUCTION = 8,
} CUstreamBatchMemOpType;

enum { TSR_MOST_MEM_OPS = 256 }; /* of one batch */

typedef union CUstreamBatchMemOpParams {
  CUstreamBatchMemOpType operation;
  struct {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    union {
      cuuint32_t value;
      cuuint64_t value64;
    };
    unsigned int flags;
    CUdeviceptr alias;
  } value; /* a wait or a write */
  struct {
    CUstreamBatchMemOpType operation;
    unsigned int flags;
  } barrier;
  cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

typedef enum CUexecAffinityType { CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0 } CUexecAffinityType;
typedef enum CUsharedconfig { CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE = 0 } CUsharedconfig;

typedef int CUlaunchAttributeID;
typedef union CUlaunchAttributeValue {
  char pad[64];
  int number; /* of attributes that are a number */
  struct {
    void *base;
    size_t bytes;
  } window;
} CUlaunchAttributeValue;

#endif
