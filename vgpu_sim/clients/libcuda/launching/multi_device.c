/* cuLaunchCooperativeKernelMultiDevice: with one device it is a cooperative launch. */
#include "api.h"
#include "base/refuse.h"

enum { KNOWN_FLAGS = 3 }; /* no synchronization before the launch, or after it: with other devices */

CUresult tsr_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                  unsigned int numDevices, unsigned int flags) {
  if (!launchParamsList || numDevices == 0 || flags & ~(unsigned)KNOWN_FLAGS)
    return CUDA_ERROR_INVALID_VALUE;
  if (numDevices > 1) TSR_REFUSE("cuLaunchCooperativeKernelMultiDevice on several devices");
  const CUDA_LAUNCH_PARAMS one = launchParamsList[0];
  const uintptr_t stream = (uintptr_t)one.hStream;
  if (stream <= (uintptr_t)CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_VALUE; /* as in CUDA */
  return tsr_cuLaunchCooperativeKernel(one.function, one.gridDimX, one.gridDimY, one.gridDimZ,
                                       one.blockDimX, one.blockDimY, one.blockDimZ,
                                       one.sharedMemBytes, one.hStream, one.kernelParams);
}
