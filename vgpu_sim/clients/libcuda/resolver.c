/* cuGetProcAddress: returns the highest version of a name up to the requested version. */
#include "resolver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "log.h"
#include "base/rivals.h"

/* Return the index of the first row of `name`, or tsr_symbol_count. */
static size_t first_row(const char *name) {
  size_t low = 0, high = tsr_symbol_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(tsr_symbols[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

CUresult tsr_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, uint64_t flags,
                                 CUdriverProcAddressQueryResult *symbolStatus) {
  const uint64_t known =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!symbol || !pfn || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  *pfn = NULL;
  const int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const struct tsr_symbol *best = NULL;
  int named = 0;
  for (size_t i = first_row(symbol);
       i < tsr_symbol_count && strcmp(tsr_symbols[i].name, symbol) == 0; i++) {
    const struct tsr_symbol *row = &tsr_symbols[i];
    named = 1;
    /* The rows are sorted: first the plain ones, then the per-thread ones, each by version. */
    if (row->since <= cudaVersion && (per_thread || !row->per_thread)) best = row;
  }
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  if (best)
    memcpy(pfn, &best->address, sizeof *pfn);
  else
    status = named ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  /* A name that is not found is no error for a caller that receives the status. */
  if (!symbolStatus) return best ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  *symbolStatus = status;
  return CUDA_SUCCESS;
}

CUresult tsr_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, uint64_t flags) {
  return tsr_cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, NULL);
}

/* NVRTC requests this table, and works without it. A request for any other table is made by
 * NVIDIA's runtime. */
static const uint8_t nvrtc_table[16] = {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41,
                                        0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28};

static void tell_about_runtime(void) {
  static _Atomic bool said;
  if (atomic_exchange(&said, true)) return;
  static struct tsr_rival rival; /* of the one call that gets here */
  const bool is_found = tsr_find_rival(&rival);
  if (is_found && rival.is_preloaded)
    tsr_log("%s is NVIDIA's, which needs NVIDIA's own driver and cannot run here; the program loads it by"
            " its path: uninstall its package",
            rival.path);
  else if (is_found)
    tsr_log("%s is NVIDIA's, which needs NVIDIA's own driver and cannot run here; it was found before"
            " Tessera's: start the program with `tessera run --preload %d`; in a pod set LD_PRELOAD=%s",
            rival.path, rival.major, rival.preload);
  else
    tsr_log("this program uses NVIDIA's CUDA runtime (cudart), which needs NVIDIA's own driver and"
            " cannot run here: link it dynamically, with `nvcc -cudart shared` or `tessera cc`");
}

CUresult tsr_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
  if (!ppExportTable || !pExportTableId) return CUDA_ERROR_INVALID_VALUE;
  *ppExportTable = NULL; /* private tables of NVIDIA's own libraries, which do not exist here */
  if (memcmp(pExportTableId->bytes, nvrtc_table, sizeof nvrtc_table) != 0) tell_about_runtime();
  return CUDA_ERROR_NOT_FOUND;
}
