#include "copies/graph_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "callbacks/host_queue.h"
#include "copies/copy.h"
#include "exchange/list.h"

/* A copy that the thread for host functions makes, because the worker cannot access one end. */
struct hosted_copy {
  struct tsr_host_task task; /* first member */
  struct tsr_context *context;
  struct tsr_end to, from;
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
  tsr_copy_count(one->context->area, &one->to, &one->from, shape->bytes * shape->rows * shape->layers,
             0);
  free(one);
}

static CUresult enqueue_hosted(struct tsr_context *context, uint32_t stream, const struct tsr_end *to,
                               const struct tsr_end *from, const struct tsr_copy_shape *shape) {
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

CUresult tsr_graph_copy_enqueue(struct tsr_context *context, uint32_t stream, uint64_t destination,
                          uint64_t source, const struct tsr_copy_shape *shape) {
  if (shape->bytes == 0 || shape->rows == 0 || shape->layers == 0) return CUDA_SUCCESS;
  struct tsr_end to, from;
  CUresult result =
      tsr_locate_any(destination, span_of(shape, shape->to_row_bytes, shape->to_layer_bytes), &to);
  if (result == CUDA_SUCCESS)
    result = tsr_locate_any(source, span_of(shape, shape->from_row_bytes, shape->from_layer_bytes), &from);
  if (result != CUDA_SUCCESS) return result;
  if ((to.context && to.context != context) || (from.context && from.context != context))
    TSR_REFUSE("a graph's copy of memory of another context than its stream's");
  if (stream == TSR_LIST_RING && (to.context != context || from.context != context))
    TSR_REFUSE("a copy of pageable memory in a conditional body or a graph for kernels");
  if (to.context != context || from.context != context)
    return enqueue_hosted(context, stream, &to, &from, shape);
  for (uint64_t z = 0; z < shape->layers && result == CUDA_SUCCESS; z++)
    for (uint64_t y = 0; y < shape->rows && result == CUDA_SUCCESS; y++)
      result = tsr_copy_enqueue(
          context, stream, destination + z * shape->to_layer_bytes + y * shape->to_row_bytes,
          source + z * shape->from_layer_bytes + y * shape->from_row_bytes, shape->bytes);
  return result;
}
