/* Kernel launches: no system call, no allocation, one lock (the ring's). */
#include <string.h>

#include "api.h"
#include "context.h"
#include "device.h"
#include "function.h"
#include "occupancy.h"
#include "refuse.h"
#include "ring.h"
#include "stream.h"

struct geometry {
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  bool cooperative; /* all blocks are resident together */
};

static CUresult check_device_limits(const struct tsr_device *device,
                                    const struct geometry *launch) {
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    const int64_t block_limit =
        tsr_device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + (unsigned)i, 0);
    const int64_t grid_limit =
        tsr_device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + (unsigned)i, 0);
    if (launch->block[i] == 0 || launch->block[i] > block_limit || launch->grid[i] == 0 ||
        launch->grid[i] > grid_limit)
      return CUDA_ERROR_INVALID_VALUE;
    threads *= launch->block[i];
  }
  const int64_t limit = tsr_device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0);
  return threads > (uint64_t)limit ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult check_function_limits(const struct tsr_function *function,
                                      const struct geometry *launch) {
  const tessera_function_record *record = &function->record;
  const int shared_limit = atomic_load(&function->dynamic_shared_limit);
  if (launch->shared_bytes > (uint32_t)shared_limit) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
  if (record->max_threads && threads > record->max_threads)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (record->required_block[0] &&
      memcmp(record->required_block, launch->block, sizeof launch->block) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  if (launch->cooperative && blocks > tsr_resident_blocks(function, threads, launch->shared_bytes))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE. */
static CUresult read_extra(void **extra, const void **buffer, size_t *bytes) {
  *buffer = NULL;
  *bytes = SIZE_MAX;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
      memcpy(bytes, extra[1], sizeof *bytes);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/* A buffer may be padded up to 16 bytes, as compilers make structures of parameters. */
static bool fits(size_t given, size_t wanted) {
  return given >= wanted && given <= (wanted + 15) / 16 * 16;
}

/* Writes a piece of the parameter block: the beginning into the slot, the rest behind it. */
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

static CUresult check_parameters(const struct tsr_function *function, void **parameters,
                                 const void *buffer, size_t buffer_bytes) {
  const tessera_function_record *record = &function->record;
  if (buffer_bytes != SIZE_MAX)
    return fits(buffer_bytes, record->parameter_bytes) && (buffer || buffer_bytes == 0)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  if (record->parameter_count == 0) return CUDA_SUCCESS;
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < record->parameter_count; i++)
    if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/* `after`, where it is not NULL, is a request that must have been done before; the launch's own
 * follows in it. */
static CUresult launch(CUfunction f, const struct geometry *geometry, CUstream hStream,
                       void **parameters, void **extra, tessera_wait *after) {
  TSR_CURRENT(context);
  uint64_t handle;
  CUresult result = tsr_function_resolve(context, (uint64_t)(uintptr_t)f, &handle);
  if (result != CUDA_SUCCESS) return result;
  uint32_t stream;
  result = tsr_stream_index(context, hStream, &stream);
  if (result != CUDA_SUCCESS) return result;
  result = check_device_limits(context->device, geometry);
  if (result != CUDA_SUCCESS) return result;
  const void *buffer = NULL;
  size_t buffer_bytes = SIZE_MAX;
  if (parameters && extra) return CUDA_ERROR_INVALID_VALUE;
  if (extra) result = read_extra(extra, &buffer, &buffer_bytes);
  if (result != CUDA_SUCCESS) return result;

  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  /* Under the lock, for whoever unloads the function waits for it before the memory goes. */
  const struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  if (!function)
    result = CUDA_ERROR_INVALID_HANDLE;
  else if ((result = check_function_limits(function, geometry)) == CUDA_SUCCESS)
    result = check_parameters(function, parameters, buffer, buffer_bytes);
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
  body->stack_bytes = (uint32_t)atomic_load(&function->context->system_area.stack_bytes);
  put_parameters(&request, function, parameters, buffer);
  const uint64_t value = tsr_ring_commit(&request);
  if (after) *after = (tessera_wait){.stream = stream, .value = value};
  return CUDA_SUCCESS;
}

/* Cooperative launches run one after the other, as far as they are of one context: then the blocks
 * of each have the device's room, and the workspace of its barrier, to themselves. */
static CUresult launch_cooperative(CUfunction f, const struct geometry *geometry, CUstream hStream,
                                   void **parameters, void **extra) {
  TSR_CURRENT(context);
  pthread_mutex_lock(&context->cooperative_lock);
  const CUresult result = launch(f, geometry, hStream, parameters, extra, &context->cooperative);
  pthread_mutex_unlock(&context->cooperative_lock);
  return result;
}

CUresult tsr_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                            unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                            unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                            void **kernelParams, void **extra) {
  const struct geometry geometry = {.grid = {gridDimX, gridDimY, gridDimZ},
                                    .block = {blockDimX, blockDimY, blockDimZ},
                                    .shared_bytes = sharedMemBytes};
  return launch(f, &geometry, hStream, kernelParams, extra, NULL);
}

CUresult tsr_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                       unsigned int gridDimZ, unsigned int blockDimX,
                                       unsigned int blockDimY, unsigned int blockDimZ,
                                       unsigned int sharedMemBytes, CUstream hStream,
                                       void **kernelParams) {
  const struct geometry geometry = {.grid = {gridDimX, gridDimY, gridDimZ},
                                    .block = {blockDimX, blockDimY, blockDimZ},
                                    .shared_bytes = sharedMemBytes,
                                    .cooperative = true};
  return launch_cooperative(f, &geometry, hStream, kernelParams, NULL);
}

CUresult tsr_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                              void **extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  int cooperative = 0;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute *attribute = &config->attrs[i];
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      memcpy(&cooperative, attribute->value, sizeof cooperative);
    else if (attribute->id != CU_LAUNCH_ATTRIBUTE_IGNORE)
      TSR_REFUSE("a launch attribute of cuLaunchKernelEx");
  }
  const struct geometry geometry = {
      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
      .shared_bytes = config->sharedMemBytes,
      .cooperative = cooperative != 0};
  if (cooperative != 0)
    return launch_cooperative(f, &geometry, config->hStream, kernelParams, extra);
  return launch(f, &geometry, config->hStream, kernelParams, extra, NULL);
}
