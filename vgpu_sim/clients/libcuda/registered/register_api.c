/* cuMemHostRegister: memory of the program that kernels access. */
#include "api.h"
#include "base/aperture.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "exchange/unsafe.h"
#include "registered/registered.h"

CUresult tsr_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  const uint64_t begin = (uint64_t)(uintptr_t)p;
  const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!p || bytesize == 0 || (Flags & ~known) || begin >> 47 || bytesize >> 47)
    return CUDA_ERROR_INVALID_VALUE;
  if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
    TSR_REFUSE("cuMemHostRegister with CU_MEMHOSTREGISTER_IOMEMORY");
  if (Flags & CU_MEMHOSTREGISTER_READ_ONLY)
    TSR_REFUSE("cuMemHostRegister with CU_MEMHOSTREGISTER_READ_ONLY");
  struct tsr_span span;
  if (tsr_memory_find(begin, &span) && span.kind == TESSERA_CHUNK_KIND_HOST)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED; /* pinned memory is by itself */
  if (tsr_aperture_holds(begin)) return CUDA_ERROR_INVALID_VALUE;
  return tsr_registered_add(context, begin, bytesize, Flags | CU_MEMHOSTREGISTER_DEVICEMAP);
}

CUresult tsr_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags) {
  return tsr_cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult tsr_cuMemHostUnregister(void *p) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_span span;
  const bool found = tsr_memory_find((uint64_t)(uintptr_t)p, &span);
  /* Memory that the driver allocated is pinned without a registration. */
  if (found && span.sort.use == TSR_USE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  return tsr_registered_remove((uint64_t)(uintptr_t)p);
}
