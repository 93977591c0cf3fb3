#define _GNU_SOURCE
#include "doorbell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread bool tsr_rang;

bool tsr_wake_worker(struct tsr_context *context, bool dozing_too) {
  const uint32_t nap = __atomic_load_n(&context->page->sleeping, __ATOMIC_RELAXED);
  if (nap == 0 || (nap & TESSERA_DOZING && !dozing_too)) return false;
  /* One call a nap: until the woken worker gets a CPU it still seems to sleep. */
  if (atomic_exchange(&context->rung, nap) != nap) {
    tessera_client_area *area = context->area;
    /* The worker may come to run here and now, and must know then that it is here. */
    __atomic_store_n(&area->cpu, sched_getcpu(), __ATOMIC_RELAXED);
    __atomic_fetch_add(&area->bell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &area->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  return true;
}
