#define _GNU_SOURCE
#include "exchange/doorbell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread bool tsr_rang;

static uint32_t current_nap(const struct tsr_context *context) {
  return __atomic_load_n(&context->page->sleeping, __ATOMIC_RELAXED);
}

/* Make at most one system call per nap: a woken worker still appears to sleep until it gets a
 * CPU. */
static void ring(struct tsr_context *context, uint32_t nap) {
  if (atomic_exchange(&context->rung, nap) == nap) return;
  tessera_client_area *area = context->area;
  /* The worker may start at once, and must then know that this thread runs on this CPU. */
  __atomic_store_n(&area->cpu, sched_getcpu(), __ATOMIC_RELAXED);
  __atomic_fetch_add(&area->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &area->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool tsr_ring_for_request(struct tsr_context *context, uint32_t stream) {
  const uint32_t nap = current_nap(context);
  if (__builtin_expect(nap == 0, 1) || nap & TESSERA_DOZING) return false;
  const uint64_t occupied = __atomic_load_n(&context->page->occupied[stream / 64], __ATOMIC_RELAXED);
  if (occupied >> stream % 64 & 1) return false;
  ring(context, nap);
  return true;
}

bool tsr_ring_for_wait(struct tsr_context *context) {
  const uint32_t nap = current_nap(context);
  if (nap & TESSERA_DOZING) ring(context, nap);
  return nap != 0;
}
