#define _GNU_SOURCE
#include "exchange/hang.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "base/environment.h"
#include "log.h"
#include "modules/module.h"
#include "base/reached.h"
#include "base/try_lock.h"

enum { MOST_STREAMS = 8 }; /* longest chain of streams that wait for each other */

/* Find a stream's first request that has not ended. False if its slot has been reused, because
 * other threads have enqueued many requests since. */
static bool first_request(const struct tsr_context *context, uint32_t stream, tessera_slot *slot) {
  const uint64_t wanted = __atomic_load_n(&context->page->timeline[stream], __ATOMIC_ACQUIRE) + 1;
  const uint64_t tail = __atomic_load_n(&context->page->tail[stream], __ATOMIC_ACQUIRE);
  const tessera_ring *ring = &context->area->rings[stream];
  /* The request has not been copied by the worker yet, or is the last one copied, with its
   * continuation slots. */
  for (uint64_t back = 0; back <= TESSERA_SLOTS_PER_STREAM && back <= tail; back++) {
    memcpy(slot, &ring->slots[(tail - back) % TESSERA_SLOTS_PER_STREAM], sizeof *slot);
    const bool whole = back == 0 || slot->continuation_slots + UINT64_C(1) == back;
    if (whole && slot->value == wanted) return true;
  }
  return false;
}

/* Follow the waits to the request that blocks `stream`. */
static bool culprit(const struct tsr_context *context, uint32_t *stream, tessera_slot *slot) {
  for (int i = 0; i < MOST_STREAMS; i++) {
    if (!first_request(context, *stream, slot)) return false;
    const tessera_wait *on = NULL;
    for (unsigned wait = 0; wait < slot->wait_count && wait < TESSERA_MAX_WAITS; wait++)
      if (slot->waits[wait].stream < TESSERA_MAX_STREAMS &&
          !tsr_reached(context, slot->waits[wait].stream, slot->waits[wait].value))
        on = &slot->waits[wait];
    if (!on) return true;
    *stream = on->stream;
  }
  return false;
}

static void log_hang(struct tsr_context *context, const tessera_launch_body *launch, int seconds) {
  const uint32_t *grid = launch->grid, *block = launch->block;
  char name[200] = "";
  /* Try-lock: the calling thread may hold the lock, and the name is not worth waiting for. */
  if (tsr_try_lock(&tsr_module_lock)) {
    for (const struct tsr_module *module = context->modules; module; module = module->next)
      for (uint32_t i = 0; module->functions && i < module->table.header->function_count; i++)
        if (module->functions[i]->record.kernel == launch->kernel)
          snprintf(name, sizeof name, " %.190s", module->functions[i]->title);
    pthread_mutex_unlock(&tsr_module_lock);
  }
  tsr_log("kernel%s (grid %ux%ux%u, block %ux%ux%u) has not ended after %d s (a first launch also "
          "compiles it): press Ctrl-C twice under tessera run, or run it with --kernel-timeout "
          "SECONDS, to end it",
          name, grid[0], grid[1], grid[2], block[0], block[1], block[2], seconds);
}

void tsr_hang_look(struct tsr_context *context, uint32_t stream, struct tsr_hang *hang) {
  if (hang->reported) return;
  if (!hang->looked) hang->limit_s = tsr_hang_notice_s();
  hang->looked = true;
  if (hang->limit_s == 0) return;
  tessera_slot slot;
  const uint64_t now_ns = tsr_now_ns();
  if (!culprit(context, &stream, &slot)) return;
  if (hang->value != slot.value || hang->stream != stream) {
    hang->stream = stream;
    hang->value = slot.value;
    hang->since_ns = now_ns;
    return;
  }
  if (slot.opcode != TESSERA_OPCODE_LAUNCH) return;
  if (now_ns - hang->since_ns < (uint64_t)hang->limit_s * 1000000000u) return;
  hang->reported = true;
  /* Several threads may wait for the same request. */
  const uint64_t mark = slot.value << 8 | stream;
  if (atomic_exchange(&context->hang_reported, mark) != mark)
    log_hang(context, &slot.body.launch, hang->limit_s);
}
