/* The streams' timelines in the page, in which the client sees their progress. A fault freezes
 * them. */
#define _GNU_SOURCE
#include "base/internal.h"
#include "base/platform.h"

static uint8_t publishing[TESSERA_MAX_STREAMS]; /* atomics: a timeline is being written */
static uint32_t frozen;                         /* atomic: timelines must not be written any more */

static void wake_client(void) {
  __atomic_add_fetch(&tw.page->progress, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&tw.client->waiting, __ATOMIC_SEQ_CST) != 0)
    tw_futex_wake_all(&tw.page->progress);
}

void tw_freeze_timelines(void) {
  __atomic_store_n(&frozen, 1, __ATOMIC_SEQ_CST);
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++)
    while (__atomic_load_n(&publishing[i], __ATOMIC_SEQ_CST) != 0) tw_relax();
}

void tw_publish(uint32_t stream_index, uint64_t value) {
  __atomic_store_n(&publishing[stream_index], 1, __ATOMIC_SEQ_CST);
  bool alive = __atomic_load_n(&frozen, __ATOMIC_SEQ_CST) == 0;
  if (alive) __atomic_store_n(&tw.page->timeline[stream_index], value, __ATOMIC_RELEASE);
  __atomic_store_n(&publishing[stream_index], 0, __ATOMIC_RELEASE);
  if (alive) wake_client();
}

bool tw_timelines_frozen(void) { return __atomic_load_n(&frozen, __ATOMIC_RELAXED) != 0; }
