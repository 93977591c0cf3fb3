/* Shared memory: one window per thread, for the block that the thread runs.
 *
 * Code adds a signed 32-bit number, and less than 2^30 bytes, to the window's base without a
 * check. All addresses that it can reach in this way are reserved and inaccessible, except for
 * the block's bytes, in whole pages. The image to which code redirects misaligned accesses is
 * inaccessible, too. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "blocks/cta.h"
#include "base/internal.h"
#include "base/platform.h"

static __thread uint64_t accessible; /* bytes at the window's base */
static __thread tw_local local;      /* of the blocks that it runs alone */

static const char NO_MEMORY[] = "no memory for a block's shared memory";

uint64_t tw_shared_reserve(void) {
  void *memory = mmap(NULL, TESSERA_SHARED_RESERVED_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)memory + TESSERA_SHARED_REACH_BYTES;
}

void tw_shared_release(uint64_t base) {
  munmap((void *)(uintptr_t)(base - TESSERA_SHARED_REACH_BYTES), TESSERA_SHARED_RESERVED_BYTES);
}

uint64_t tw_shared_window(uint32_t bytes) {
  if (tw_current.shared_window == 0) tw_current.shared_window = tw_shared_reserve();
  if (tw_current.shared_window == 0) tw_die_out_of_memory(NO_MEMORY);
  tw_current.shared_bytes = bytes;
  uint8_t *base = (uint8_t *)(uintptr_t)tw_current.shared_window;
  const uint64_t wanted = tw_whole_pages(bytes);
  int status = 0;
  if (wanted > accessible)
    status = mprotect(base + accessible, wanted - accessible, PROT_READ | PROT_WRITE);
  else if (wanted < accessible)
    status = mprotect(base + wanted, accessible - wanted, PROT_NONE);
  if (status != 0) tw_die_out_of_memory(NO_MEMORY);
  accessible = wanted;
  return tw_current.shared_window;
}

/* Zero bytes are not cleared: a zero-length store to an unmapped address is slow on some
 * processors. */
void tw_shared_clear(uint64_t base, uint64_t bytes) {
  if (bytes != 0) memset((void *)(uintptr_t)base, 0, bytes);
}

void tw_shared_run_at(uint64_t base, const tw_launch *launch, const tw_code *code,
                      const uint8_t *parameters, uint64_t first, uint64_t end,
                      tessera_thread_state *thread) {
  const tessera_launch_context *context = &launch->context;
  const tessera_kernel_entry entry = (tessera_kernel_entry)(uintptr_t)code->entry;
  const uint32_t *extent = context->block;
  tw_local_prepare(&local, context->local_bytes, extent[0] * extent[1] * extent[2]);
  thread->local_base = tw_current.local_window = local.base;
  thread->shared_base = base;
  thread->multiply = (uint64_t)(uintptr_t)tw_tensor_multiply;
  entry(context, parameters, first, end, thread); /* the code clears each block's shared memory */
  if (thread->status != 0) tw_die_of_trap(context->kernel, code->entry, thread, NULL);
}

void tw_shared_run(const tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                   uint64_t first, uint64_t end, tessera_thread_state *thread) {
  /* The window is set even for zero bytes, because an access to shared memory must fault there. */
  tw_shared_run_at(tw_shared_window(launch->shared_bytes), launch, code, parameters, first, end,
                   thread);
}

void tw_shared_end_thread(void) {
  tw_local_close(&local);
  tw_tensor_end_thread();
  if (tw_current.shared_window == 0) return;
  tw_shared_release(tw_current.shared_window);
  tw_current.shared_window = 0;
  accessible = 0;
}
