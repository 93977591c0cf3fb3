/* Fills of ranges, and of rectangles row by row. */
#include "copies/fill.h"

#include "api.h"
#include "base/aperture.h"
#include "copies/copy.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "memory/memory.h"
#include "nodes/capture.h"
#include "streams/stream.h"

static CUresult enqueue_fill(struct tsr_context *context, uint32_t stream, uint64_t destination,
                             uint32_t pattern, uint32_t width_bytes, uint64_t count) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_SET, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.set = (tessera_set_body){
      .destination = destination, .count = count, .pattern = pattern, .width_bytes = width_bytes};
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

/* Elements to fill: `height` rows of `width`, which begin `pitch` bytes apart. */
struct rectangle {
  uint64_t destination, pitch_bytes, width, height;
  uint32_t pattern, element_bytes;
};

/* Return the bytes from the first to the last row's end, or 0 if the numbers are wrong. */
static uint64_t extent(const struct rectangle *r) {
  uint64_t row, rows;
  if (__builtin_mul_overflow(r->width, r->element_bytes, &row)) return 0;
  if (r->height > 1 && (r->pitch_bytes < row || r->pitch_bytes % r->element_bytes)) return 0;
  if (__builtin_mul_overflow(r->height - 1, r->pitch_bytes, &rows)) return 0;
  return row > TESSERA_APERTURE_BYTES || rows > TESSERA_APERTURE_BYTES ? 0 : rows + row;
}

static CUresult enqueue_rows(struct tsr_context *context, uint32_t stream, struct rectangle r) {
  CUresult result = CUDA_SUCCESS;
  if (r.pitch_bytes == r.width * r.element_bytes) {
    r.width *= r.height;
    r.height = 1;
  }
  for (uint64_t row = 0; row < r.height && result == CUDA_SUCCESS; row++)
    result = enqueue_fill(context, stream, r.destination + row * r.pitch_bytes, r.pattern,
                          r.element_bytes, r.width);
  return result;
}

/* Find the memory that a fill writes, which must belong to the context. */
static CUresult locate(const struct tsr_context *context, const struct rectangle *r,
                       struct tsr_end *to) {
  const uint64_t bytes = extent(r);
  if (bytes == 0 || r->destination % r->element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = tsr_locate_device(r->destination, bytes, to);
  if (result != CUDA_SUCCESS) return result;
  return to->context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult capture_fill(struct tsr_context *context, uint32_t stream,
                             const struct rectangle *r) {
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                    .context = tsr_object_handle(TSR_CONTEXT, context),
                                    .set = {.dst = r->destination,
                                            .pitch = r->pitch_bytes,
                                            .value = r->pattern,
                                            .elementSize = r->element_bytes,
                                            .width = r->width,
                                            .height = r->height}};
  return tsr_capture_add(context, stream, &operation);
}

static CUresult fill(struct rectangle r, CUstream handle, bool now) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(handle, &context, &stream);
  if (result != CUDA_SUCCESS || r.width == 0 || r.height == 0) return result;
  struct tsr_end to;
  result = locate(context, &r, &to);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_captures(context, stream)) return capture_fill(context, stream, &r);
  result = enqueue_rows(context, stream, r);
  /* Without CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, the host waits only for fills of its own memory. */
  const bool waits = now && (!to.device || tsr_memory_is_synchronous(r.destination));
  return result == CUDA_SUCCESS && waits ? tsr_wait_stream(context, stream) : result;
}

CUresult tsr_fill_enqueue(struct tsr_context *context, uint32_t stream,
                          const CUDA_MEMSET_NODE_PARAMS *fill) {
  const struct rectangle r = {.destination = fill->dst,
                              .pitch_bytes = fill->pitch,
                              .width = fill->width,
                              .height = fill->height,
                              .pattern = fill->value,
                              .element_bytes = fill->elementSize};
  struct tsr_end to;
  const CUresult result = locate(context, &r, &to);
  return result == CUDA_SUCCESS ? enqueue_rows(context, stream, r) : result;
}

static CUresult fill_range(CUdeviceptr destination, uint32_t pattern, uint32_t element_bytes,
                           size_t count, CUstream handle, bool now) {
  const struct rectangle one_row = {.destination = destination,
                                    .width = count,
                                    .height = 1,
                                    .pattern = pattern,
                                    .element_bytes = element_bytes};
  return fill(one_row, handle, now);
}

CUresult tsr_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill_range(dstDevice, uc, 1, N, NULL, true);
}

CUresult tsr_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill_range(dstDevice, uc, 1, N, hStream, false);
}

CUresult tsr_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill_range(dstDevice, us, 2, N, NULL, true);
}

CUresult tsr_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                              CUstream hStream) {
  return fill_range(dstDevice, us, 2, N, hStream, false);
}

CUresult tsr_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill_range(dstDevice, ui, 4, N, NULL, true);
}

CUresult tsr_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill_range(dstDevice, ui, 4, N, hStream, false);
}

#define RECTANGLE(value, element)                                                           \
  ((struct rectangle){.destination = dstDevice, .pitch_bytes = dstPitch, .width = Width,   \
                      .height = Height, .pattern = (value), .element_bytes = (element)})

CUresult tsr_cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                             size_t Width, size_t Height) {
  return fill(RECTANGLE(uc, 1), NULL, true);
}

CUresult tsr_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                               size_t Width, size_t Height, CUstream hStream) {
  return fill(RECTANGLE(uc, 1), hStream, false);
}

CUresult tsr_cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                              size_t Width, size_t Height) {
  return fill(RECTANGLE(us, 2), NULL, true);
}

CUresult tsr_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                size_t Width, size_t Height, CUstream hStream) {
  return fill(RECTANGLE(us, 2), hStream, false);
}

CUresult tsr_cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                              size_t Width, size_t Height) {
  return fill(RECTANGLE(ui, 4), NULL, true);
}

CUresult tsr_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                size_t Width, size_t Height, CUstream hStream) {
  return fill(RECTANGLE(ui, 4), hStream, false);
}
