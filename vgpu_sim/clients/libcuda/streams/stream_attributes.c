/* Attributes of streams. */
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "streams/stream.h"
#include "streams/stream_ring.h"

enum { FIRST_POLICY = 1, LAST_POLICY = 4 }; /* CUsynchronizationPolicy */

/* Attributes without a field here have one possible value, because the device has one memory
 * domain and no access window. */
static CUresult get(const struct tsr_context *context, uint32_t stream, CUlaunchAttributeID id,
                    CUlaunchAttributeValue *value) {
  memset(value, 0, sizeof *value);
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: {
      const uint8_t policy = atomic_load(&context->synchronization[stream]);
      value->number = policy ? policy : FIRST_POLICY;
      return CUDA_SUCCESS;
    }
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->number = atomic_load(&context->priority[stream]);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult set(struct tsr_context *context, uint32_t stream, CUlaunchAttributeID id,
                    const CUlaunchAttributeValue *value) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      if (value->number < FIRST_POLICY || value->number > LAST_POLICY)
        return CUDA_ERROR_INVALID_VALUE;
      atomic_store(&context->synchronization[stream], (uint8_t)value->number);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: /* MAX_ACCESS_POLICY_WINDOW_SIZE is 0 */
      return value->window.bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      tsr_stream_set_priority(context, stream, value->number);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return value->number ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult tsr_cuStreamGetAttribute(CUstream hStream, CUlaunchAttributeID attr,
                                  CUlaunchAttributeValue *value_out) {
  struct tsr_context *context;
  uint32_t stream;
  const CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  return value_out ? get(context, stream, attr, value_out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuStreamSetAttribute(CUstream hStream, CUlaunchAttributeID attr,
                                  const CUlaunchAttributeValue *value) {
  struct tsr_context *context;
  uint32_t stream;
  const CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  return value ? set(context, stream, attr, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuStreamCopyAttributes(CUstream dst, CUstream src) {
  struct tsr_context *contexts[2];
  uint32_t streams[2];
  CUresult result = tsr_stream_locate(dst, &contexts[0], &streams[0]);
  if (result == CUDA_SUCCESS) result = tsr_stream_locate(src, &contexts[1], &streams[1]);
  if (result != CUDA_SUCCESS) return result;
  if (contexts[0] != contexts[1]) return CUDA_ERROR_INVALID_VALUE;
  atomic_store(&contexts[0]->synchronization[streams[0]],
               atomic_load(&contexts[1]->synchronization[streams[1]]));
  tsr_stream_set_priority(contexts[0], streams[0],
                          atomic_load(&contexts[1]->priority[streams[1]]));
  return CUDA_SUCCESS;
}
