/* Local memory: a window for the threads of a block.
 *
 * Code finds the memory of a group's lanes where the group's share of the window begins, tests its
 * accesses, and moves what is outside of a lane's own bytes or misaligned to images of the window,
 * which are inaccessible. So all of the window may be accessible that any launch has needed. */
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
  /* Also without a byte of it: what a kernel does to local memory then must fault there. */
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
