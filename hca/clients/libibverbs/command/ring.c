/* Notification of hcad: sets a bit in the client's page, and writes a byte into its pipe if the
 * engine does not poll the page (hca/engine/base/doorbell.c). */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "command/command.h"

static void wake(struct tsr_context *context) {
  if (context->dead || __atomic_load_n(&context->page->sleeping, __ATOMIC_SEQ_CST) == 0) return;
  /* If hcad has gone, the write raises SIGPIPE, which verbs programs do not expect. */
  sigset_t pipe_only, before, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  sigpending(&pending);
  const bool blocked = pthread_sigmask(SIG_BLOCK, &pipe_only, &before) == 0;
  /* If the pipe is full, its content wakes the engine. */
  if (write(context->doorbell_fd, "", 1) < 0 && errno == EPIPE) {
    tsr_mark_lost(context);
    const struct timespec at_once = {0};
    if (!sigismember(&pending, SIGPIPE)) sigtimedwait(&pipe_only, NULL, &at_once);
  }
  if (blocked) pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void tsr_ring_armed(struct tsr_context *context) {
  __atomic_store_n(&context->page->armed, 1, __ATOMIC_SEQ_CST);
  wake(context);
}

static void mark(struct tsr_context *context, uint64_t *dirty, uint32_t index) {
  /* First the bit, then `sleeping`; the engine uses the opposite order. */
  __atomic_fetch_or(&dirty[index / 64], UINT64_C(1) << index % 64, __ATOMIC_SEQ_CST);
  wake(context);
}

void tsr_ring(struct tsr_context *context, uint32_t index) {
  mark(context, context->page->dirty, index);
}

void tsr_ring_srq(struct tsr_context *context, uint32_t index) {
  mark(context, context->page->dirty_srqs, index);
}
