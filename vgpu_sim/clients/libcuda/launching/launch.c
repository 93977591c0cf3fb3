/* Kernel launches: no system call, no allocation, one lock (the ring's). */
#include "launching/launch.h"

#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "base/device.h"
#include "modules/function.h"
#include "modules/cluster.h"
#include "launching/launch_attributes.h"
#include "launching/launch_check.h"
#include "exchange/list.h"
#include "exchange/ring.h"
#include "nodes/capture.h"
#include "streams/stream.h"

/* CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE. */
static bool read_extra(void **extra, const void **buffer, size_t *bytes) {
  *buffer = NULL;
  *bytes = SIZE_MAX;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
      memcpy(bytes, extra[1], sizeof *bytes);
    else
      return false;
  }
  return true;
}

static CUresult check_parameters(struct tsr_function *function, const char *call,
                                 void **parameters, void **extra, const void **buffer) {
  size_t bytes = SIZE_MAX;
  if (parameters && extra)
    return tsr_launch_refuse_arguments(function, call, "both kernelParams and extra are given");
  if (extra && !read_extra(extra, buffer, &bytes))
    return tsr_launch_refuse_arguments(function, call, "extra holds what is no CU_LAUNCH_PARAM");
  return tsr_launch_check_parameters(function, call, parameters, *buffer, bytes);
}

/* Write a part of the parameter block: the beginning into the slot, the rest into continuation
 * slots. */
static void put(const struct tsr_request *request, uint32_t offset, const void *source,
                uint32_t bytes) {
  const uint8_t *from = source;
  if (offset < TESSERA_INLINE_PARAMETER_BYTES) {
    const uint32_t room = TESSERA_INLINE_PARAMETER_BYTES - offset;
    const uint32_t now = bytes < room ? bytes : room;
    memcpy(request->slot->body.launch.parameters + offset, from, now);
    from += now;
    offset += now;
    bytes -= now;
  }
  while (bytes > 0) {
    const uint32_t beyond = offset - TESSERA_INLINE_PARAMETER_BYTES;
    const uint32_t within = beyond % TESSERA_SLOT_BYTES;
    const uint32_t room = TESSERA_SLOT_BYTES - within;
    const uint32_t now = bytes < room ? bytes : room;
    memcpy(tsr_ring_continuation(request, beyond / TESSERA_SLOT_BYTES) + within, from, now);
    from += now;
    offset += now;
    bytes -= now;
  }
}

static void put_parameters(const struct tsr_request *request, const struct tsr_function *function,
                           void **parameters, const void *buffer) {
  if (buffer) {
    put(request, 0, buffer, function->record.parameter_bytes);
    return;
  }
  for (uint32_t i = 0; i < function->record.parameter_count; i++)
    put(request, function->parameters[i].offset, parameters[i], function->parameters[i].size);
}

static uint32_t continuation_slots(uint32_t parameter_bytes) {
  if (parameter_bytes <= TESSERA_INLINE_PARAMETER_BYTES) return 0;
  return (parameter_bytes - TESSERA_INLINE_PARAMETER_BYTES + TESSERA_SLOT_BYTES - 1) /
         TESSERA_SLOT_BYTES;
}

/* What a launch passes to the kernel, in one of three forms. */
struct given {
  void **parameters;
  void **extra;
  const void *block; /* the whole parameter block, of the right size */
};

/* Enqueue a launch. `after`, if not NULL, is a request that must be done before; it is replaced
 * by this launch. */
static CUresult enqueue(struct tsr_context *context, uint32_t stream, uint64_t handle,
                        const struct tsr_geometry *geometry, const struct given *given,
                        tessera_wait *after) {
  CUresult result = CUDA_SUCCESS;
  const void *buffer = given->block;
  struct tsr_cluster cluster;
  struct tsr_geometry whole;
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  /* This needs the lock, because a thread that unloads the function waits for the lock before it
   * frees the memory. */
  struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  if (function && tsr_launch_expand(function, geometry, &whole)) geometry = &whole;
  if (!function)
    result = CUDA_ERROR_INVALID_HANDLE;
  else if ((result = tsr_launch_check(function, geometry, &cluster)) == CUDA_SUCCESS && !buffer)
    result = check_parameters(function, geometry->call, given->parameters, given->extra, &buffer);
  if (result != CUDA_SUCCESS) {
    tsr_ring_unlock(&request);
    return result;
  }
  const uint32_t parameter_bytes = function->record.parameter_bytes;
  const uint32_t more = continuation_slots(parameter_bytes);
  const bool waits = after && after->value != 0 && after->stream != stream;
  result = tsr_ring_begin(&request, TESSERA_OPCODE_LAUNCH, more, waits ? after : NULL);
  if (result != CUDA_SUCCESS) return result;
  tessera_launch_body *body = &request.slot->body.launch;
  body->kernel = function->record.kernel;
  memcpy(body->grid, geometry->grid, sizeof body->grid);
  memcpy(body->block, geometry->block, sizeof body->block);
  body->shared_bytes = geometry->shared_bytes;
  body->parameter_bytes = parameter_bytes;
  body->multiprocessors = (uint16_t)geometry->multiprocessors;
  body->cluster = tsr_cluster_pack(&cluster);
  /* Frames here are larger than those of compiled code: the default limit is less than they need. */
  const uint64_t stack = atomic_load(&function->context->system_area.stack_bytes);
  body->stack_bytes =
      stack > TESSERA_STACK_BYTES_PER_THREAD ? (uint32_t)stack : TESSERA_STACK_BYTES_PER_THREAD;
  put_parameters(&request, function, given->parameters, buffer);
  const uint64_t value = tsr_ring_commit(&request);
  if (after) *after = (tessera_wait){.stream = stream, .value = value};
  return CUDA_SUCCESS;
}

/* Run cooperative launches of one context one after the other. Then the blocks of each launch
 * have all of the device's room and the workspace of its barrier to themselves. */
static CUresult enqueue_in_order(struct tsr_context *context, uint32_t stream, uint64_t handle,
                                 const struct tsr_geometry *geometry, const struct given *given) {
  if (!geometry->cooperative) return enqueue(context, stream, handle, geometry, given, NULL);
  if (stream == TSR_LIST_RING) { /* the request that runs the list keeps the order */
    tsr_list_recording()->cooperative = true;
    return enqueue(context, stream, handle, geometry, given, NULL);
  }
  pthread_mutex_lock(&context->cooperative_lock);
  const CUresult result =
      enqueue(context, stream, handle, geometry, given, &context->cooperative);
  pthread_mutex_unlock(&context->cooperative_lock);
  return result;
}

CUresult tsr_launch_enqueue(struct tsr_context *context, uint32_t stream,
                            const struct tsr_kernel_operation *kernel) {
  struct tsr_geometry geometry = {.call = "cuGraphLaunch",
                                  .shared_bytes = kernel->shared_bytes,
                                  .multiprocessors = kernel->multiprocessors,
                                  .cooperative = kernel->cooperative};
  memcpy(geometry.grid, kernel->grid, sizeof geometry.grid);
  memcpy(geometry.block, kernel->block, sizeof geometry.block);
  memcpy(geometry.cluster, kernel->cluster, sizeof geometry.cluster);
  uint64_t handle;
  const CUresult result = tsr_function_resolve(context, kernel->function, &handle);
  if (result != CUDA_SUCCESS) return result;
  const struct given given = {.block = kernel->parameters};
  return enqueue_in_order(context, stream, handle, &geometry, &given);
}

static struct tsr_geometry geometry_of_node(const struct tsr_kernel_operation *launch) {
  struct tsr_geometry geometry = {.call = "a kernel node of a graph",
                                  .shared_bytes = launch->shared_bytes,
                                  .cooperative = launch->cooperative};
  memcpy(geometry.grid, launch->grid, sizeof geometry.grid);
  memcpy(geometry.block, launch->block, sizeof geometry.block);
  memcpy(geometry.cluster, launch->cluster, sizeof geometry.cluster);
  return geometry;
}

CUresult tsr_launch_check_node(struct tsr_context *context,
                               const struct tsr_kernel_operation *launch) {
  struct tsr_geometry geometry = geometry_of_node(launch);
  struct tsr_cluster cluster;
  uint64_t handle;
  CUresult result = tsr_function_resolve(context, launch->function, &handle);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&tsr_module_lock);
  struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  if (function) tsr_launch_expand(function, &geometry, &geometry);
  result = function ? tsr_launch_check(function, &geometry, &cluster) : CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

CUresult tsr_launch_describe(struct tsr_operation *operation, struct tsr_context *context,
                             const struct tsr_kernel_operation *launch, void **parameters,
                             void **extra) {
  uint64_t handle;
  CUresult result = tsr_function_resolve(context, launch->function, &handle);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_geometry geometry = geometry_of_node(launch);
  struct tsr_cluster cluster;
  const void *buffer = NULL;
  pthread_mutex_lock(&tsr_module_lock);
  struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  if (function) tsr_launch_expand(function, &geometry, &geometry);
  result = function ? tsr_launch_check(function, &geometry, &cluster) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS)
    result = check_parameters(function, geometry.call, parameters, extra, &buffer);
  pthread_mutex_unlock(&tsr_module_lock);
  if (result != CUDA_SUCCESS) return result;
  return tsr_operation_of_kernel(operation, context, launch, parameters, buffer);
}

/* Return how many multiprocessors kernels of a stream may use; 0: all. */
static uint32_t multiprocessors_of(const struct tsr_context *context, uint32_t stream) {
  const uint8_t group = atomic_load_explicit(&context->group[stream], memory_order_relaxed);
  return __builtin_expect(group == 0, 1) ? 0 : context->groups[group].multiprocessors;
}

static CUresult capture(CUfunction f, struct tsr_context *context, uint32_t stream,
                        const struct tsr_geometry *geometry, void **parameters, void **extra) {
  struct tsr_kernel_operation launch = {.function = (uint64_t)(uintptr_t)f,
                                        .shared_bytes = geometry->shared_bytes,
                                        .multiprocessors = multiprocessors_of(context, stream),
                                        .cooperative = geometry->cooperative};
  memcpy(launch.grid, geometry->grid, sizeof launch.grid);
  memcpy(launch.block, geometry->block, sizeof launch.block);
  memcpy(launch.cluster, geometry->cluster, sizeof launch.cluster);
  struct tsr_operation operation;
  const CUresult result = tsr_launch_describe(&operation, context, &launch, parameters, extra);
  return result == CUDA_SUCCESS ? tsr_capture_add(context, stream, &operation) : result;
}

static CUresult launch(CUfunction f, const struct tsr_geometry *geometry, CUstream hStream,
                       void **parameters, void **extra) {
  TSR_CURRENT(context);
  uint64_t handle;
  CUresult result = tsr_function_resolve(context, (uint64_t)(uintptr_t)f, &handle);
  if (result != CUDA_SUCCESS) return result;
  if (__builtin_expect(
          atomic_load_explicit(&context->references_changed, memory_order_acquire), 0)) {
    result = context->bind_references(context, handle);
    if (result != CUDA_SUCCESS) return result;
  }
  uint32_t stream;
  result = tsr_stream_index(context, hStream, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_captures(context, stream))
    return capture(f, context, stream, geometry, parameters, extra);
  const struct given given = {.parameters = parameters, .extra = extra};
  struct tsr_geometry placed = *geometry;
  placed.multiprocessors = multiprocessors_of(context, stream);
  return enqueue_in_order(context, stream, handle, &placed, &given);
}

CUresult tsr_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                            unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                            unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                            void **kernelParams, void **extra) {
  const struct tsr_geometry geometry = {.call = "cuLaunchKernel",
                                        .grid = {gridDimX, gridDimY, gridDimZ},
                                        .block = {blockDimX, blockDimY, blockDimZ},
                                        .shared_bytes = sharedMemBytes};
  return launch(f, &geometry, hStream, kernelParams, extra);
}

CUresult tsr_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                       unsigned int gridDimZ, unsigned int blockDimX,
                                       unsigned int blockDimY, unsigned int blockDimZ,
                                       unsigned int sharedMemBytes, CUstream hStream,
                                       void **kernelParams) {
  const struct tsr_geometry geometry = {.call = "cuLaunchCooperativeKernel",
                                        .grid = {gridDimX, gridDimY, gridDimZ},
                                        .block = {blockDimX, blockDimY, blockDimZ},
                                        .shared_bytes = sharedMemBytes,
                                        .cooperative = true};
  return launch(f, &geometry, hStream, kernelParams, NULL);
}

CUresult tsr_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                              void **extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  bool cooperative;
  uint32_t cluster[3];
  const CUresult result = tsr_launch_attributes(config, &cooperative, cluster);
  if (result != CUDA_SUCCESS) return result;
  const struct tsr_geometry geometry = {
      .call = "cuLaunchKernelEx",
      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
      .cluster = {cluster[0], cluster[1], cluster[2]},
      .shared_bytes = config->sharedMemBytes,
      .cooperative = cooperative};
  return launch(f, &geometry, config->hStream, kernelParams, extra);
}
