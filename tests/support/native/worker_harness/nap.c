/* Requests that arrive at the worst moment: after the worker's last check and before its sleep.
 * The client sees a worker that is awake, and does not ring; the worker must check once more. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"

enum { STREAM = 1, LATE_STREAM = 2, ROUNDS = 50, LATE_CALL = 2 };

static client c;
static int calls_left;   /* atomic; calls until a request is enqueued; 0: no request will be */
static time_t skipped_s; /* of the scheduler's thread */

static void put_nop(uint32_t stream) {
  tessera_slot slot = client_slot(&c, stream, TESSERA_OPCODE_NOP);
  client_put(&c, stream, &slot);
}

/* Replaces libc's function. Here only the scheduler calls it: to determine when polling ends,
 * then to check whether that time has passed, which is true at once. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  syscall(SYS_clock_gettime, clock, now, 0, 0, 0, 0);
  if (__atomic_load_n(&calls_left, __ATOMIC_SEQ_CST) > 0 &&
      __atomic_sub_fetch(&calls_left, 1, __ATOMIC_SEQ_CST) == 0) {
    put_nop(LATE_STREAM);
    skipped_s++;
  }
  now->tv_sec += skipped_s;
  return 0;
}

static tessera_kernel_entry choose(uint64_t kernel) {
  (void)kernel;
  return NULL;
}

int main(void) {
  alarm(60); /* a worker that sleeps now never wakes up */
  client_open(&c);
  tw.aperture_base = TESSERA_GUARD_BEFORE_BYTES;
  worker_start(1, choose);
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t nap = TESSERA_DOZING;
    while (nap == 0 || nap & TESSERA_DOZING)
      nap = __atomic_load_n(&c.page->sleeping, __ATOMIC_SEQ_CST);
    __atomic_store_n(&calls_left, LATE_CALL, __ATOMIC_SEQ_CST);
    put_nop(STREAM);
    CHECK(client_wait(&c, STREAM, c.values[STREAM]) == 0);
    while (__atomic_load_n(&calls_left, __ATOMIC_SEQ_CST) != 0) sched_yield();
    CHECK(client_wait(&c, LATE_STREAM, (uint64_t)i + 1) == 0);
  }
  tessera_worker_stop();
  printf("ok\n");
  return 0;
}
