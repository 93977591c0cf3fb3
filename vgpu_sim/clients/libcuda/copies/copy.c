/* Copies and fills. The client copies the data itself if ordering allows it. A copy that must
 * follow queued work, and for which the client must not wait, becomes a request. */
#define _GNU_SOURCE
#include "copies/copy.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/aperture.h"
#include "base/refuse.h"
#include "callbacks/host_queue.h"
#include "clock.h"
#include "contexts/context.h"
#include "memory/memory.h"
#include "modules/module.h"
#include "nodes/capture.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "streams/stream.h"

/* Up to this size, the client's own copy takes less time than waking a sleeping worker. */
enum { SMALL_COPY_BYTES = 64 << 10 };
enum { STAGE_BYTES = 1 << 20 };
/* Copies of at least this size are timed. */
enum { TIMED_COPY_BYTES = 64 << 10 };

/* Source or destination of a copy. */
struct end {
  uint64_t address;
  uint8_t *host;               /* the client's mapping; NULL for module variables */
  struct tsr_context *context; /* NULL for pageable host memory */
  bool device;                 /* device memory or a module variable */
};

static bool covers(const struct tsr_span *span, uint64_t address, uint64_t bytes) {
  const uint64_t offset = address - span->address;
  return offset <= span->bytes && bytes <= span->bytes - offset;
}

/* Resolve any address. A range in the aperture must be allocated completely. */
static CUresult locate(uint64_t address, uint64_t bytes, struct end *end) {
  *end = (struct end){.address = address};
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_aperture_holds(address)) {
    end->host = (uint8_t *)(uintptr_t)address;
    return CUDA_SUCCESS;
  }
  struct tsr_span span;
  if ((!tsr_memory_find(address, &span) && !tsr_variable_find(address, &span)) ||
      !covers(&span, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  end->context = span.context;
  end->host = span.alias ? span.alias + (address - span.address) : NULL;
  end->device = span.kind != TESSERA_CHUNK_KIND_HOST;
  return CUDA_SUCCESS;
}

/* Resolve memory that the device can access: device memory, module variables, pinned memory. */
static CUresult locate_device(uint64_t address, uint64_t bytes, struct end *end) {
  const CUresult result = locate(address, bytes, end);
  if (result != CUDA_SUCCESS) return result;
  return end->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Resolve memory that the host can access. */
static CUresult locate_host(uint64_t address, uint64_t bytes, struct end *end) {
  const CUresult result = locate(address, bytes, end);
  if (result != CUDA_SUCCESS) return result;
  return end->device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult enqueue_copy(struct tsr_context *context, uint32_t stream, uint64_t destination,
                             uint64_t source, uint64_t bytes) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_COPY, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.copy =
      (tessera_copy_body){.destination = destination, .source = source, .bytes = bytes};
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

/* Copy between pageable memory and a module variable, which the client does not map, in pieces
 * through pinned memory. The stream's earlier work must be done. */
static CUresult copy_staged(struct tsr_context *context, uint32_t stream, const struct end *to,
                            const struct end *from, uint64_t bytes) {
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
      result = enqueue_copy(context, stream, stage, from->address + done, part);
    if (result == CUDA_SUCCESS && !from->host) result = tsr_wait_stream(context, stream);
    if (result == CUDA_SUCCESS && to->host) memcpy(to->host + done, buffer, part);
    if (result == CUDA_SUCCESS && !to->host) {
      result = enqueue_copy(context, stream, to->address + done, stage, part);
      if (result == CUDA_SUCCESS) result = tsr_wait_stream(context, stream);
    }
    done += part;
  }
  const CUresult freed = tsr_memory_free(stage, TSR_USE_PINNED);
  return result == CUDA_SUCCESS ? freed : result;
}

/* Return the GPU whose window contains an address. For memory outside of the aperture return 0,
 * which is not used. */
static uint32_t gpu_of(const struct end *end) {
  if (!tsr_aperture_holds(end->address)) return 0;
  return (uint32_t)((end->address - tsr_aperture_base) / TESSERA_GPU_WINDOW_BYTES);
}

/* Report a copy, in the stream's order, to a worker that keeps its own clock and cannot see the
 * copy. A failure only makes that clock inaccurate. */
static void report_copy(struct tsr_context *context, uint32_t stream, const struct end *to,
                         const struct end *from, uint64_t bytes) {
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

/* Count a copy for metrics: the worker reads these counters. */
static void count_copy(tessera_client_area *area, const struct end *to, const struct end *from,
                       uint64_t bytes, uint64_t since_ns) {
  uint64_t *const counter = to->device ? from->device ? &area->device_to_device_bytes
                                                      : &area->host_to_device_bytes
                            : from->device ? &area->device_to_host_bytes
                                           : NULL;
  if (!counter) return;
  __atomic_fetch_add(counter, bytes, __ATOMIC_RELAXED);
  if (since_ns)
    __atomic_fetch_add(&area->copy_ns, tsr_now_ns() - since_ns, __ATOMIC_RELAXED);
}

static CUresult copy_by_client(struct tsr_context *context, uint32_t stream, const struct end *to,
                               const struct end *from, uint64_t bytes) {
  if (!to->host || !from->host) {
    /* Only the worker of a variable's context can access the variable; for two variables this is
     * the current context. */
    struct tsr_context *owner = to->host ? from->context : to->context;
    if (owner != context) stream = TSR_LEGACY_STREAM;
    return copy_staged(owner, stream, to, from, bytes);
  }
  const uint64_t since_ns = bytes >= TIMED_COPY_BYTES ? tsr_now_ns() : 0;
  memmove(to->host, from->host, bytes);
  count_copy(context->area, to, from, bytes, since_ns);
  if (context->page->observing) report_copy(context, stream, to, from, bytes);
  return CUDA_SUCCESS;
}

/* Wait as the stream's next request would, then copy. For memory of another context of this
 * process, wait until that whole context is idle. */
static CUresult copy_now(struct tsr_context *context, uint32_t stream, const struct end *to,
                         const struct end *from, uint64_t bytes) {
  CUresult result = tsr_wait_stream_open(context, stream);
  for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
    struct tsr_context *owner = i ? from->context : to->context;
    if (owner && owner != context) result = tsr_wait_all(owner);
  }
  return result == CUDA_SUCCESS ? copy_by_client(context, stream, to, from, bytes) : result;
}

static CUresult copy_in_stream(struct tsr_context *context, uint32_t stream, const struct end *to,
                               const struct end *from, uint64_t bytes) {
  /* Pageable memory must not be accessed after this function has returned; nor, as in CUDA, any
   * host memory that is copied to other host memory. */
  if (to->context != context || from->context != context || (!to->device && !from->device))
    return copy_now(context, stream, to, from, bytes);
  const bool both_device = to->device && from->device;
  if (!both_device && bytes <= SMALL_COPY_BYTES && to->host && from->host &&
      tsr_stream_open(context, stream))
    return copy_by_client(context, stream, to, from, bytes);
  return enqueue_copy(context, stream, to->address, from->address, bytes);
}

static CUresult capture_copy(struct tsr_context *context, uint32_t stream, uint64_t destination,
                             uint64_t source, uint64_t bytes) {
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                    .context = tsr_object_handle(TSR_CONTEXT, context),
                                    .copy = tsr_linear_copy(destination, source, bytes)};
  return tsr_capture_add(context, stream, &operation);
}

/* A copy that the thread for host functions makes, because the worker cannot access one end. */
struct hosted_copy {
  struct tsr_host_task task; /* first member */
  struct tsr_context *context;
  struct end to, from;
  struct tsr_copy_shape shape;
};

static void copy_hosted(struct tsr_host_task *task, CUresult status) {
  struct hosted_copy *one = (struct hosted_copy *)task;
  const struct tsr_copy_shape *shape = &one->shape;
  for (uint64_t z = 0; z < shape->layers && status == CUDA_SUCCESS; z++)
    for (uint64_t y = 0; y < shape->rows; y++)
      memmove(one->to.host + z * shape->to_layer_bytes + y * shape->to_row_bytes,
              one->from.host + z * shape->from_layer_bytes + y * shape->from_row_bytes,
              shape->bytes);
  count_copy(one->context->area, &one->to, &one->from, shape->bytes * shape->rows * shape->layers,
             0);
  free(one);
}

static CUresult enqueue_hosted(struct tsr_context *context, uint32_t stream, const struct end *to,
                               const struct end *from, const struct tsr_copy_shape *shape) {
  if (!to->host || !from->host)
    TSR_REFUSE("a graph's copy between pageable memory and a variable of a module");
  struct hosted_copy *one = malloc(sizeof *one);
  if (!one) return CUDA_ERROR_OUT_OF_MEMORY;
  *one = (struct hosted_copy){
      .task.run = copy_hosted, .context = context, .to = *to, .from = *from, .shape = *shape};
  const CUresult result = tsr_host_enqueue(context, stream, &one->task);
  if (result != CUDA_SUCCESS) free(one);
  return result;
}

/* The bytes from the first to the last one that an end spans. */
static uint64_t span_of(const struct tsr_copy_shape *shape, uint64_t row, uint64_t layer) {
  return (shape->layers - 1) * layer + (shape->rows - 1) * row + shape->bytes;
}

CUresult tsr_copy_enqueue(struct tsr_context *context, uint32_t stream, uint64_t destination,
                          uint64_t source, const struct tsr_copy_shape *shape) {
  if (shape->bytes == 0 || shape->rows == 0 || shape->layers == 0) return CUDA_SUCCESS;
  struct end to, from;
  CUresult result =
      locate(destination, span_of(shape, shape->to_row_bytes, shape->to_layer_bytes), &to);
  if (result == CUDA_SUCCESS)
    result = locate(source, span_of(shape, shape->from_row_bytes, shape->from_layer_bytes), &from);
  if (result != CUDA_SUCCESS) return result;
  if (to.context != context || from.context != context)
    return enqueue_hosted(context, stream, &to, &from, shape);
  for (uint64_t z = 0; z < shape->layers && result == CUDA_SUCCESS; z++)
    for (uint64_t y = 0; y < shape->rows && result == CUDA_SUCCESS; y++)
      result = enqueue_copy(
          context, stream, destination + z * shape->to_layer_bytes + y * shape->to_row_bytes,
          source + z * shape->from_layer_bytes + y * shape->from_row_bytes, shape->bytes);
  return result;
}

typedef CUresult locator(uint64_t, uint64_t, struct end *);

static CUresult copy(locator *locate_to, locator *locate_from, uint64_t destination,
                     uint64_t source, size_t bytes, CUstream stream, bool now) {
  struct tsr_context *context;
  uint32_t index;
  CUresult result = tsr_stream_locate(stream, &context, &index);
  if (result != CUDA_SUCCESS || bytes == 0) return result;
  struct end to, from;
  result = locate_to(destination, bytes, &to);
  if (result == CUDA_SUCCESS) result = locate_from(source, bytes, &from);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_captures(context, index))
    return capture_copy(context, index, destination, source, bytes);
  if (now && index == TSR_LEGACY_STREAM && atomic_load(&context->blocking_captures) != 0)
    return tsr_ring_wait(context, index, NULL, 0); /* refused while a blocking stream captures */
  if (now && !(to.device && from.device)) return copy_now(context, index, &to, &from, bytes);
  return copy_in_stream(context, index, &to, &from, bytes);
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult tsr_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy(locate, locate, dst, src, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return copy(locate, locate, dst, src, ByteCount, hStream, false);
}

CUresult tsr_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
  return copy(locate_device, locate_host, dstDevice, ADDRESS(srcHost), ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                  CUstream hStream) {
  return copy(locate_device, locate_host, dstDevice, ADDRESS(srcHost), ByteCount, hStream, false);
}

CUresult tsr_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy(locate_host, locate_device, ADDRESS(dstHost), srcDevice, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                  CUstream hStream) {
  return copy(locate_host, locate_device, ADDRESS(dstHost), srcDevice, ByteCount, hStream, false);
}

/* In CUDA, copies within the device are asynchronous to the host in both forms; here, those that
 * involve pinned memory are not. */
CUresult tsr_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy(locate_device, locate_device, dstDevice, srcDevice, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                  CUstream hStream) {
  return copy(locate_device, locate_device, dstDevice, srcDevice, ByteCount, hStream, false);
}

static CUresult enqueue_fill(struct tsr_context *context, uint32_t stream,
                             const tessera_set_body *body) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_SET, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.set = *body;
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

CUresult tsr_fill_enqueue(struct tsr_context *context, uint32_t stream,
                          const CUDA_MEMSET_NODE_PARAMS *fill) {
  const uint64_t row_bytes = fill->width * fill->elementSize;
  struct end to;
  CUresult result =
      locate_device(fill->dst, (fill->height - 1) * fill->pitch + row_bytes, &to);
  if (result == CUDA_SUCCESS && to.context != context) result = CUDA_ERROR_INVALID_VALUE;
  for (uint64_t y = 0; y < fill->height && result == CUDA_SUCCESS; y++) {
    const tessera_set_body body = {.destination = fill->dst + y * fill->pitch,
                                   .count = fill->width,
                                   .pattern = fill->value,
                                   .width_bytes = fill->elementSize};
    result = enqueue_fill(context, stream, &body);
  }
  return result;
}

static CUresult capture_fill(struct tsr_context *context, uint32_t stream,
                             const tessera_set_body *body) {
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                    .context = tsr_object_handle(TSR_CONTEXT, context),
                                    .set = {.dst = body->destination,
                                            .value = body->pattern,
                                            .elementSize = body->width_bytes,
                                            .width = body->count,
                                            .height = 1}};
  return tsr_capture_add(context, stream, &operation);
}

static CUresult fill(CUdeviceptr destination, uint32_t pattern, uint32_t width_bytes, size_t count,
                     CUstream handle, bool now) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(handle, &context, &stream);
  if (result != CUDA_SUCCESS || count == 0) return result;
  if (count > TESSERA_APERTURE_BYTES / width_bytes || destination % width_bytes != 0)
    return CUDA_ERROR_INVALID_VALUE;
  struct end to;
  result = locate_device(destination, (uint64_t)count * width_bytes, &to);
  if (result != CUDA_SUCCESS) return result;
  if (to.context != context) return CUDA_ERROR_INVALID_VALUE;
  const tessera_set_body body = {
      .destination = destination, .count = count, .pattern = pattern, .width_bytes = width_bytes};
  if (tsr_captures(context, stream)) return capture_fill(context, stream, &body);
  result = enqueue_fill(context, stream, &body);
  if (result != CUDA_SUCCESS) return result;
  /* The host waits only for fills of its own memory. */
  return now && !to.device ? tsr_wait_stream(context, stream) : CUDA_SUCCESS;
}

CUresult tsr_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill(dstDevice, uc, 1, N, NULL, true);
}

CUresult tsr_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill(dstDevice, uc, 1, N, hStream, false);
}

CUresult tsr_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill(dstDevice, us, 2, N, NULL, true);
}

CUresult tsr_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                              CUstream hStream) {
  return fill(dstDevice, us, 2, N, hStream, false);
}

CUresult tsr_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill(dstDevice, ui, 4, N, NULL, true);
}

CUresult tsr_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill(dstDevice, ui, 4, N, hStream, false);
}
