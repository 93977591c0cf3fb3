#include "streams/values.h"

#include "base/refuse.h"
#include "exchange/ring.h"
#include "memory/memory.h"

enum { KNOWN_CONDITIONS = CU_STREAM_WAIT_VALUE_NOR };

static bool is_wait(const CUstreamBatchMemOpParams *operation) {
  return operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
         operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static uint32_t width_bytes(const CUstreamBatchMemOpParams *operation) {
  const bool narrow = operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                      operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;
  return narrow ? 4 : 8;
}

static CUresult check_place(struct tsr_context *context, uint64_t address, uint32_t bytes) {
  struct tsr_span span;
  if (address % bytes != 0 || !tsr_memory_find(address, &span) || span.context != context ||
      address + bytes > span.address + span.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult check(struct tsr_context *context, const CUstreamBatchMemOpParams *operation) {
  switch (operation->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      if (operation->value.flags & CU_STREAM_WAIT_VALUE_FLUSH)
        TSR_REFUSE("a wait for a value with CU_STREAM_WAIT_VALUE_FLUSH");
      if (operation->value.flags & ~(unsigned)KNOWN_CONDITIONS) return CUDA_ERROR_INVALID_VALUE;
      return check_place(context, operation->value.address, width_bytes(operation));
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      if (operation->value.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
      return check_place(context, operation->value.address, width_bytes(operation));
    case CU_STREAM_MEM_OP_BARRIER: /* every request of a stream is a barrier */
      return operation->barrier.flags <= 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      TSR_REFUSE("cuStreamBatchMemOp with CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES");
    case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
      TSR_REFUSE("cuStreamBatchMemOp with CU_STREAM_MEM_OP_ATOMIC_REDUCTION");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult tsr_values_check(struct tsr_context *context, const CUstreamBatchMemOpParams *operations,
                          unsigned int count) {
  if (!(context->page->features & TESSERA_FEATURE_VALUES))
    TSR_REFUSE("values in memory with a worker of an older version");
  if (count > TSR_MOST_MEM_OPS || (count && !operations)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    const CUresult result = check(context, &operations[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

static CUresult enqueue(struct tsr_context *context, uint32_t stream,
                        const CUstreamBatchMemOpParams *operation) {
  if (operation->operation == CU_STREAM_MEM_OP_BARRIER) return CUDA_SUCCESS;
  const bool waits = is_wait(operation);
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result =
      tsr_ring_begin(&request, waits ? TESSERA_OPCODE_AWAIT : TESSERA_OPCODE_WRITE, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.value =
      (tessera_value_body){.address = operation->value.address,
                           .value = operation->value.value64,
                           .width_bytes = width_bytes(operation),
                           .condition = waits ? operation->value.flags : 0};
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

CUresult tsr_values_enqueue(struct tsr_context *context, uint32_t stream,
                            const CUstreamBatchMemOpParams *operations, unsigned int count) {
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
    result = enqueue(context, stream, &operations[i]);
  return result;
}
