/* The launch functions of CUDA 2: block, parameters and shared memory are state of the function. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "modules/function.h"

struct tsr_old_launch {
  unsigned int block[3];
  unsigned int shared_bytes;
  unsigned int bytes; /* of the parameters */
  uint8_t parameters[TESSERA_MAX_PARAMETER_BYTES];
};

/* Return the function's state, which is created at first use; NULL: out of memory. Under the module
 * lock. The module frees it. */
static struct tsr_old_launch *state_of(struct tsr_function *function) {
  if (function->old_launch) return function->old_launch;
  struct tsr_old_launch *made = calloc(1, sizeof *made);
  if (made) made->block[0] = made->block[1] = made->block[2] = 1;
  return function->old_launch = made;
}

static CUresult set_block(struct tsr_old_launch *state, int x, int y, int z) {
  if (!state) return CUDA_ERROR_OUT_OF_MEMORY;
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  state->block[0] = (unsigned)x;
  state->block[1] = (unsigned)y;
  state->block[2] = (unsigned)z;
  return CUDA_SUCCESS;
}

static CUresult set_size(struct tsr_old_launch *state, unsigned int bytes) {
  if (!state) return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes > sizeof state->parameters) return CUDA_ERROR_INVALID_VALUE;
  state->bytes = bytes;
  return CUDA_SUCCESS;
}

static CUresult set_parameter(struct tsr_old_launch *state, int offset, const void *value,
                              unsigned int bytes) {
  if (!state) return CUDA_ERROR_OUT_OF_MEMORY;
  if (offset < 0 || !value || bytes > sizeof state->parameters ||
      (unsigned)offset > sizeof state->parameters - bytes)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(state->parameters + offset, value, bytes);
  return CUDA_SUCCESS;
}

CUresult tsr_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  TSR_WITH_FUNCTION(hfunc, result = set_block(state_of(function), x, y, z));
}

CUresult tsr_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  TSR_WITH_FUNCTION(hfunc, {
    struct tsr_old_launch *state = state_of(function);
    result = state ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (state) state->shared_bytes = bytes;
  });
}

CUresult tsr_cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  TSR_WITH_FUNCTION(hfunc, result = set_size(state_of(function), numbytes));
}

CUresult tsr_cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes) {
  TSR_WITH_FUNCTION(hfunc, result = set_parameter(state_of(function), offset, ptr, numbytes));
}

CUresult tsr_cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return tsr_cuParamSetv(hfunc, offset, &value, sizeof value);
}

CUresult tsr_cuParamSetf(CUfunction hfunc, int offset, float value) {
  return tsr_cuParamSetv(hfunc, offset, &value, sizeof value);
}

static CUresult copy_state(CUfunction hfunc, struct tsr_old_launch *copy) {
  TSR_WITH_FUNCTION(hfunc, {
    const struct tsr_old_launch *state = state_of(function);
    result = state ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (state) *copy = *state;
  });
}

CUresult tsr_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  if (grid_width <= 0 || grid_height <= 0) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_old_launch state;
  const CUresult copied = copy_state(f, &state);
  if (copied != CUDA_SUCCESS) return copied;
  size_t bytes = state.bytes;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, state.parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  return tsr_cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1, state.block[0],
                            state.block[1], state.block[2], state.shared_bytes, hStream, NULL,
                            extra);
}

CUresult tsr_cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return tsr_cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult tsr_cuLaunch(CUfunction f) { return tsr_cuLaunchGrid(f, 1, 1); }
