/* Requests that come at the worst moment: after the worker's last look and before its sleep. The
 * client sees a worker that is awake and does not ring; the worker must look once more. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"

enum { STREAM = 1, LATE_STREAM = 2, ROUNDS = 50, LATE_CALL = 2 };

static client c;
static int calls_left;   /* atomic; until a request is put in, 0: none will be */
static time_t skipped_s; /* scheduler's thread */

static void put_nop(uint32_t stream) {
  tessera_slot slot = client_slot(&c, stream, TESSERA_OPCODE_NOP);
  client_put(&c, stream, &slot);
}

/* Instead of libc's. Only the scheduler asks here: for when to stop looking, then for whether it is
 * time, which it is at once. */
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
  alarm(60); /* a worker that sleeps now sleeps for good */
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
