/* What the links between devices and with the host can do. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "base/device.h"
#include "contexts/context.h"

enum { LAST_ATOMIC_OPERATION = 12 }; /* CU_ATOMIC_OPERATION_FLOAT_MAX */
enum { TARGET_CURRENT_CONTEXT = 0, TO_OWNER = 100, TO_ALL_DEVICES = 200 };

static bool is_list(const unsigned int *capabilities, const CUatomicOperation *operations,
                    unsigned int count) {
  if (!capabilities || !operations || count == 0) return false;
  for (unsigned int i = 0; i < count; i++)
    if ((unsigned)operations[i] > LAST_ATOMIC_OPERATION) return false;
  return true;
}

/* No link has native atomics: the attributes HOST_NATIVE_ATOMIC_SUPPORTED and
 * P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED are 0, so that no operation has a capability. */
CUresult tsr_cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                               const CUatomicOperation *operations,
                                               unsigned int count, CUdevice dev) {
  if (!is_list(capabilities, operations, count)) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  memset(capabilities, 0, count * sizeof *capabilities);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                              const CUatomicOperation *operations,
                                              unsigned int count, CUdevice srcDevice,
                                              CUdevice dstDevice) {
  if (!is_list(capabilities, operations, count)) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_device(srcDevice) || !tsr_device(dstDevice) || srcDevice == dstDevice)
    return CUDA_ERROR_INVALID_DEVICE;
  memset(capabilities, 0, count * sizeof *capabilities);
  return CUDA_SUCCESS;
}

/* Device memory is shared memory that an HCA writes in program order, so a fence makes what it has
 * written visible to every device. */
CUresult tsr_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                        CUflushGPUDirectRDMAWritesScope scope) {
  TSR_CURRENT(context);
  (void)context;
  if (target != TARGET_CURRENT_CONTEXT || (scope != TO_OWNER && scope != TO_ALL_DEVICES))
    return CUDA_ERROR_INVALID_VALUE;
  atomic_thread_fence(memory_order_seq_cst);
  return CUDA_SUCCESS;
}
