/* Copies. The client copies the data itself if ordering allows it. A copy that must
 * follow queued work, and for which the client must not wait, becomes a request. */
#define _GNU_SOURCE
#include <string.h>

#include "api.h"
#include "base/aperture.h"
#include "clock.h"
#include "contexts/context.h"
#include "copies/copy.h"
#include "memory/memory.h"
#include "modules/module.h"
#include "nodes/capture.h"
#include "registered/registered.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "streams/stream.h"

/* Up to this size, the client's own copy takes less time than waking a sleeping worker. */
enum { SMALL_COPY_BYTES = 64 << 10 };
enum { STAGE_BYTES = 1 << 20 };
/* Copies of at least this size are timed. */
enum { TIMED_COPY_BYTES = 64 << 10 };

/* Find the allocation or registration that contains an address, and where in it. */
static bool find(uint64_t address, struct tsr_span *span, uint64_t *offset) {
  const bool found = tsr_registered_find(address, span) ||
                     (tsr_aperture_holds(address) &&
                      ((tsr_memory_find(address, span) && span->sort.use != TSR_USE_REGISTERED) ||
                       tsr_variable_find(address, span)));
  if (!found) return false;
  *offset = address -
            (tsr_aperture_holds(address) ? span->address : (uint64_t)(uintptr_t)span->alias);
  return true;
}

CUresult tsr_locate_any(uint64_t address, uint64_t bytes, struct tsr_end *end) {
  *end = (struct tsr_end){.address = address};
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_span span;
  uint64_t offset;
  if (!find(address, &span, &offset) || bytes > span.bytes - offset) {
    if (tsr_aperture_holds(address)) return CUDA_ERROR_INVALID_VALUE;
    end->host = (uint8_t *)(uintptr_t)address;
    return CUDA_SUCCESS;
  }
  end->address = span.address + offset;
  end->context = span.context;
  end->host = span.alias ? span.alias + offset : NULL;
  end->device = span.kind != TESSERA_CHUNK_KIND_HOST;
  return CUDA_SUCCESS;
}

CUresult tsr_locate_device(uint64_t address, uint64_t bytes, struct tsr_end *end) {
  const CUresult result = tsr_locate_any(address, bytes, end);
  if (result != CUDA_SUCCESS) return result;
  return end->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_locate_host(uint64_t address, uint64_t bytes, struct tsr_end *end) {
  const CUresult result = tsr_locate_any(address, bytes, end);
  if (result != CUDA_SUCCESS) return result;
  return end->device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Copy between pageable memory and a module variable, which the client does not map, in pieces
 * through pinned memory. The stream's earlier work must be done. */
static CUresult copy_staged(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                            const struct tsr_end *from, uint64_t bytes) {
  uint64_t stage;
  CUresult result =
      tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_PINNED}, STAGE_BYTES, &stage);
  if (result != CUDA_SUCCESS) return result;
  uint8_t *const buffer = (uint8_t *)(uintptr_t)stage;
  for (uint64_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
    const uint64_t part = bytes - done < STAGE_BYTES ? bytes - done : STAGE_BYTES;
    if (from->host)
      memcpy(buffer, from->host + done, part);
    else
      result = tsr_copy_enqueue(context, stream, stage, from->address + done, part);
    if (result == CUDA_SUCCESS && !from->host) result = tsr_wait_stream(context, stream);
    if (result == CUDA_SUCCESS && to->host) memcpy(to->host + done, buffer, part);
    if (result == CUDA_SUCCESS && !to->host) {
      result = tsr_copy_enqueue(context, stream, to->address + done, stage, part);
      if (result == CUDA_SUCCESS) result = tsr_wait_stream(context, stream);
    }
    done += part;
  }
  const CUresult freed = tsr_memory_free(stage, TSR_USE_PINNED);
  return result == CUDA_SUCCESS ? freed : result;
}

/* Return the GPU whose window contains an address. For memory outside of the aperture return 0,
 * which is not used. */
static uint32_t gpu_of(const struct tsr_end *end) {
  if (!tsr_aperture_holds(end->address)) return 0;
  return (uint32_t)((end->address - tsr_aperture_base) / TESSERA_GPU_WINDOW_BYTES);
}

/* Report a copy, in the stream's order, to a worker that keeps its own clock and cannot see the
 * copy. A failure only makes that clock inaccurate. */
static void report_copy(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                         const struct tsr_end *from, uint64_t bytes) {
  if (!to->device && !from->device) return;
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  if (tsr_ring_begin(&request, TESSERA_OPCODE_COPIED, 0, NULL) != CUDA_SUCCESS) return;
  request.slot->body.copied = (tessera_copied_body){
      .bytes = bytes,
      .direction = !from->device ? TESSERA_DIRECTION_HOST_TO_DEVICE
                   : !to->device ? TESSERA_DIRECTION_DEVICE_TO_HOST
                   : to->context != from->context ? TESSERA_DIRECTION_DEVICE_TO_PEER
                                                  : TESSERA_DIRECTION_DEVICE_TO_DEVICE,
      .pageable = !to->context || !from->context,
      .source = gpu_of(from),
      .target = gpu_of(to)};
  tsr_ring_commit(&request);
}

void tsr_copy_count(tessera_client_area *area, const struct tsr_end *to,
                    const struct tsr_end *from, uint64_t bytes, uint64_t since_ns) {
  uint64_t *const counter = to->device ? from->device ? &area->device_to_device_bytes
                                                      : &area->host_to_device_bytes
                            : from->device ? &area->device_to_host_bytes
                                           : NULL;
  if (!counter) return;
  __atomic_fetch_add(counter, bytes, __ATOMIC_RELAXED);
  if (since_ns)
    __atomic_fetch_add(&area->copy_ns, tsr_now_ns() - since_ns, __ATOMIC_RELAXED);
}

static CUresult copy_by_client(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                               const struct tsr_end *from, uint64_t bytes) {
  if (!to->host || !from->host) {
    /* Only the worker of a variable's context can access the variable; for two variables this is
     * the current context. */
    struct tsr_context *owner = to->host ? from->context : to->context;
    if (owner != context) stream = TSR_LEGACY_STREAM;
    return copy_staged(owner, stream, to, from, bytes);
  }
  const uint64_t since_ns = bytes >= TIMED_COPY_BYTES ? tsr_now_ns() : 0;
  memmove(to->host, from->host, bytes);
  tsr_copy_count(context->area, to, from, bytes, since_ns);
  if (context->page->observing) report_copy(context, stream, to, from, bytes);
  return CUDA_SUCCESS;
}

/* Wait as the stream's next request would, then copy. For memory of another context of this
 * process, wait until that whole context is idle. */
static CUresult copy_now(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                         const struct tsr_end *from, uint64_t bytes) {
  CUresult result = tsr_wait_stream_open(context, stream);
  for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
    struct tsr_context *owner = i ? from->context : to->context;
    if (owner && owner != context) result = tsr_wait_all(owner);
  }
  return result == CUDA_SUCCESS ? copy_by_client(context, stream, to, from, bytes) : result;
}

static CUresult copy_in_stream(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                               const struct tsr_end *from, uint64_t bytes) {
  /* Pageable memory must not be accessed after this function has returned; nor, as in CUDA, any
   * host memory that is copied to other host memory. */
  if (to->context != context || from->context != context || (!to->device && !from->device))
    return copy_now(context, stream, to, from, bytes);
  const bool both_device = to->device && from->device;
  if (!both_device && bytes <= SMALL_COPY_BYTES && to->host && from->host &&
      tsr_stream_open(context, stream))
    return copy_by_client(context, stream, to, from, bytes);
  return tsr_copy_enqueue(context, stream, to->address, from->address, bytes);
}

CUresult tsr_copy_between(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                          const struct tsr_end *from, uint64_t bytes, bool now) {
  if (now && !(to->device && from->device)) return copy_now(context, stream, to, from, bytes);
  const CUresult result = copy_in_stream(context, stream, to, from, bytes);
  const bool waits = now && (tsr_memory_is_synchronous(to->address) ||
                            tsr_memory_is_synchronous(from->address));
  return result == CUDA_SUCCESS && waits ? tsr_wait_stream(context, stream) : result;
}

bool tsr_copy_is_blocked(const struct tsr_context *context, uint32_t stream) {
  return stream == TSR_LEGACY_STREAM && atomic_load(&context->blocking_captures) != 0;
}

static CUresult copy(tsr_locator *locate_to, tsr_locator *locate_from, uint64_t destination,
                     uint64_t source, size_t bytes, CUstream stream, bool now) {
  struct tsr_context *context;
  uint32_t index;
  CUresult result = tsr_stream_locate(stream, &context, &index);
  if (result != CUDA_SUCCESS || bytes == 0) return result;
  struct tsr_end to, from;
  result = locate_to(destination, bytes, &to);
  if (result == CUDA_SUCCESS) result = locate_from(source, bytes, &from);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_captures(context, index)) {
    struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                      .context = tsr_object_handle(TSR_CONTEXT, context),
                                      .copy = tsr_linear_copy(to.address, from.address, bytes)};
    return tsr_capture_add(context, index, &operation);
  }
  if (tsr_copy_is_blocked(context, index)) return tsr_ring_wait(context, index, NULL, 0);
  return tsr_copy_between(context, index, &to, &from, bytes, now);
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult tsr_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy(tsr_locate_any, tsr_locate_any, dst, src, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return copy(tsr_locate_any, tsr_locate_any, dst, src, ByteCount, hStream, false);
}

CUresult tsr_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
  return copy(tsr_locate_device, tsr_locate_host, dstDevice, ADDRESS(srcHost), ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                  CUstream hStream) {
  return copy(tsr_locate_device, tsr_locate_host, dstDevice, ADDRESS(srcHost), ByteCount, hStream, false);
}

CUresult tsr_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy(tsr_locate_host, tsr_locate_device, ADDRESS(dstHost), srcDevice, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                  CUstream hStream) {
  return copy(tsr_locate_host, tsr_locate_device, ADDRESS(dstHost), srcDevice, ByteCount, hStream, false);
}

/* In CUDA, copies within the device are asynchronous to the host in both forms; here, those that
 * involve pinned memory are not. */
CUresult tsr_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy(tsr_locate_device, tsr_locate_device, dstDevice, srcDevice, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                  CUstream hStream) {
  return copy(tsr_locate_device, tsr_locate_device, dstDevice, srcDevice, ByteCount, hStream, false);
}

static bool is_context(CUcontext handle) {
  return TSR_FIND(tsr_context, TSR_CONTEXT, handle) != NULL;
}

/* The addresses determine the contexts; the handles are only checked. */
static CUresult copy_peer(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from,
                          size_t bytes, CUstream stream, bool now) {
  if (!is_context(to) || !is_context(from)) return CUDA_ERROR_INVALID_CONTEXT;
  return copy(tsr_locate_device, tsr_locate_device, destination, source, bytes, stream, now);
}

CUresult tsr_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                          CUcontext srcContext, size_t ByteCount) {
  return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                               CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, false);
}
