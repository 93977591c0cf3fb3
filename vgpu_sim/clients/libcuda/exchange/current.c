/* The calling thread's stack of contexts, and queries of the current context. */
#include "api.h"
#include "contexts/context.h"
#include "base/device.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

enum { MAX_DEPTH = 256 };

static __thread struct {
  uint32_t depth;
  uint64_t handles[MAX_DEPTH];
} stack;

struct tsr_context *tsr_context_current_any(CUresult *why) {
  if (stack.depth == 0 || !stack.handles[stack.depth - 1]) {
    *why = CUDA_ERROR_INVALID_CONTEXT;
    return NULL;
  }
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, stack.handles[stack.depth - 1]);
  *why = context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context;
}

struct tsr_context *tsr_context_current(CUresult *why) {
  struct tsr_context *context = tsr_context_current_any(why);
  if (context) *why = tsr_context_error(context);
  return *why == CUDA_SUCCESS ? context : NULL;
}

struct tsr_green *tsr_green_current(void) {
  return stack.depth ? TSR_FIND(tsr_green, TSR_GREEN, stack.handles[stack.depth - 1]) : NULL;
}

CUresult tsr_stack_push(uint64_t handle) {
  if (stack.depth == MAX_DEPTH) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.handles[stack.depth++] = handle;
  return CUDA_SUCCESS;
}

void tsr_stack_drop(uint64_t handle) {
  if (stack.depth > 0 && stack.handles[stack.depth - 1] == handle) stack.depth--;
}

CUresult tsr_cuCtxPushCurrent_v2(CUcontext ctx) {
  if (!TSR_FIND(tsr_context, TSR_CONTEXT, ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  return tsr_stack_push((uint64_t)(uintptr_t)ctx);
}

CUresult tsr_cuCtxPushCurrent(CUcontext ctx) { return tsr_cuCtxPushCurrent_v2(ctx); }

CUresult tsr_cuCtxPopCurrent_v2(CUcontext *pctx) {
  if (stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  const uint64_t handle = stack.handles[--stack.depth];
  if (pctx) *pctx = (CUcontext)(uintptr_t)handle;
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxPopCurrent(CUcontext *pctx) { return tsr_cuCtxPopCurrent_v2(pctx); }

/* Replace the top of the stack; NULL removes it. */
CUresult tsr_cuCtxSetCurrent(CUcontext ctx) {
  if (ctx && !TSR_FIND(tsr_context, TSR_CONTEXT, ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.depth > 0) stack.depth--;
  return ctx ? tsr_stack_push((uint64_t)(uintptr_t)ctx) : CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetCurrent(CUcontext *pctx) {
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  *pctx = stack.depth ? (CUcontext)(uintptr_t)stack.handles[stack.depth - 1] : NULL;
  return CUDA_SUCCESS;
}

/* NULL means the current context. */
static struct tsr_context *named_or_current(CUcontext ctx, CUresult *why) {
  if (!ctx) return tsr_context_current_any(why);
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, ctx);
  *why = context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  return context;
}

CUresult tsr_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  CUresult why;
  const struct tsr_context *context = named_or_current(ctx, &why);
  if (!context) return why;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = (CUdevice)(context->device - tsr_devices);
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetDevice(CUdevice *device) { return tsr_cuCtxGetDevice_v2(device, NULL); }

CUresult tsr_cuCtxGetFlags(unsigned int *flags) {
  CUresult why;
  const struct tsr_context *context = tsr_context_current_any(&why);
  if (!context) return why;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  CUresult why;
  const struct tsr_context *context = named_or_current(ctx, &why);
  if (!context) return why;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
  CUresult why;
  const struct tsr_context *context = named_or_current(ctx, &why);
  if (!context) return why;
  if (!ctxId) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  CUresult why;
  if (!tsr_context_current_any(&why)) return why;
  if (leastPriority) *leastPriority = 0;
  if (greatestPriority) *greatestPriority = TSR_GREATEST_PRIORITY;
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxSynchronize_v2(CUcontext ctx) {
  CUresult why;
  struct tsr_context *context = named_or_current(ctx, &why);
  if (!context) return why;
  if (tsr_ring_captures(context)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return tsr_wait_and_trim(context, tsr_wait_all(context));
}

CUresult tsr_cuCtxSynchronize(void) { return tsr_cuCtxSynchronize_v2(NULL); }
