/* Local memory: a window for the threads of a block.
 *
 * Each group has a part of the window; code finds the group's local memory at the start of that
 * part. Code checks its accesses and redirects those that are misaligned, or outside a lane's
 * own bytes, to images of the window, which are inaccessible. So it does no harm that the part
 * of the window that any launch has needed stays accessible. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "blocks/cta.h"
#include "base/internal.h"
#include "base/platform.h"

static const char NO_MEMORY[] = "no memory for threads' local memory";

static uint64_t reserve(void) {
  void *memory = mmap(NULL, TESSERA_LOCAL_RESERVED_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) tw_die_out_of_memory(NO_MEMORY);
  return (uint64_t)(uintptr_t)memory;
}

void tw_local_prepare(tw_local *window, uint64_t bytes, uint32_t threads) {
  const uint64_t wanted = tw_whole_pages(tw_local_stride(bytes) * threads);
  /* A window is reserved even for zero bytes, because an access to local memory must fault
   * there. */
  if (window->base == 0) window->base = reserve();
  if (wanted <= window->accessible) return;
  uint8_t *end = (uint8_t *)(uintptr_t)window->base + window->accessible;
  if (mprotect(end, wanted - window->accessible, PROT_READ | PROT_WRITE) != 0)
    tw_die_out_of_memory(NO_MEMORY);
  window->accessible = wanted;
}

void tw_local_close(tw_local *window) {
  if (window->base != 0)
    munmap((void *)(uintptr_t)window->base, TESSERA_LOCAL_RESERVED_BYTES);
  *window = (tw_local){0};
}
