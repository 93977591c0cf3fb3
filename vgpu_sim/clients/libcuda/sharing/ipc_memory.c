/* cuIpc...MemHandle: memory of cuMemAlloc for other processes of the slice. */
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "sharing/opened.h"

_Static_assert(sizeof(CUipcMemHandle) == sizeof(tessera_shared_memory), "handles hold a name");

CUresult tsr_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
  struct tsr_span span;
  if (!pHandle || !tsr_memory_find(dptr, &span) || !tsr_is_ipc_capable(&span))
    return CUDA_ERROR_INVALID_VALUE;
  tessera_shared_memory name;
  const CUresult result = tsr_share_offer(span.context, span.address, span.bytes, span.kind,
                                          TSR_SHARE_IPC, 0, &name);
  if (result == CUDA_SUCCESS) memcpy(pHandle, &name, sizeof name);
  return result;
}

CUresult tsr_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  TSR_CURRENT(context);
  if (!pdptr || Flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  tessera_shared_memory name;
  memcpy(&name, &handle, sizeof name);
  if (name.purpose != TSR_SHARE_IPC) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t address;
  if (tsr_share_own(&name, &address)) return CUDA_ERROR_INVALID_CONTEXT; /* not by its exporter */
  const CUresult result = tsr_opened_add(context, &name, 0, &address);
  if (result == CUDA_SUCCESS) *pdptr = address;
  return result;
}

CUresult tsr_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return tsr_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult tsr_cuIpcCloseMemHandle(CUdeviceptr dptr) {
  TSR_CURRENT(context);
  return tsr_opened_close(dptr, 0);
}
