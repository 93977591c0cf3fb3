/* cuStreamWaitValue, cuStreamWriteValue and cuStreamBatchMemOp. */
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "nodes/capture.h"
#include "streams/stream.h"
#include "streams/values.h"

static CUresult run(CUstream handle, const CUstreamBatchMemOpParams *operations,
                    unsigned int count) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(handle, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (count > TSR_MOST_MEM_OPS || !operations) return CUDA_ERROR_INVALID_VALUE;
  CUstreamBatchMemOpParams copies[TSR_MOST_MEM_OPS];
  memcpy(copies, operations, count * sizeof *copies);
  result = tsr_values_check(context, copies, count);
  if (result != CUDA_SUCCESS) return result;
  if (!tsr_captures(context, stream)) return tsr_values_enqueue(context, stream, copies, count);
  struct tsr_operation own, operation = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                         .context = tsr_object_handle(TSR_CONTEXT, context),
                                         .values = {.list = copies, .count = count}};
  result = tsr_operation_copy(&own, &operation);
  return result == CUDA_SUCCESS ? tsr_capture_add(context, stream, &own) : result;
}

static CUresult run_one(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address,
                        cuuint64_t value, unsigned int flags) {
  const CUstreamBatchMemOpParams one = {.value = {.operation = operation,
                                                  .address = address,
                                                  .value64 = value,
                                                  .flags = flags}};
  return run(stream, &one, 1);
}

CUresult tsr_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                    unsigned int flags) {
  return run_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult tsr_cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                 unsigned int flags) {
  return tsr_cuStreamWaitValue32_v2(stream, addr, value, flags);
}

CUresult tsr_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                    unsigned int flags) {
  return run_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult tsr_cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                 unsigned int flags) {
  return tsr_cuStreamWaitValue64_v2(stream, addr, value, flags);
}

CUresult tsr_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                     unsigned int flags) {
  return run_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult tsr_cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                  unsigned int flags) {
  return tsr_cuStreamWriteValue32_v2(stream, addr, value, flags);
}

CUresult tsr_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                     unsigned int flags) {
  return run_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult tsr_cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                  unsigned int flags) {
  return tsr_cuStreamWriteValue64_v2(stream, addr, value, flags);
}

CUresult tsr_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                   CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
  return flags ? CUDA_ERROR_INVALID_VALUE : run(stream, paramArray, count);
}

CUresult tsr_cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
  return tsr_cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}
