/* The scheduler takes requests out of all rings, in order per stream, when the requests that
 * they wait for are done. In each round every stream that can starts its next request, by
 * priority and then age. A short request runs to its end before the next one starts; a long one runs
 * concurrently (leader.c). */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>

#include "base/internal.h"
#include "base/platform.h"

static const uint64_t SPIN_NS = 12000;
static const uint64_t DOZE_NS = 50000;
/* Between two looks at values in memory for which requests wait. */
static const uint64_t SHORTEST_LOOK_NS = 20000, LONGEST_LOOK_NS = 1000000;
/* On a virtual machine a doze has cost 12 us more than a nap; it pays if requests collect
 * meanwhile. */
enum { PAYING_REQUESTS = 2, MAX_NAPS_BETWEEN_DOZES = 255 };

static stream streams[TESSERA_MAX_STREAMS];
static uint32_t ran; /* requests started since the last sleep; used by the leader only */

static uint32_t streams_in_use(void) {
  uint32_t limit = __atomic_load_n(&tw.client->stream_limit, __ATOMIC_RELAXED);
  if (limit == 0) return 1; /* the NULL stream always exists */
  return limit < TESSERA_MAX_STREAMS ? limit : TESSERA_MAX_STREAMS;
}

static bool stop_requested(void) { return __atomic_load_n(&tw.stopping, __ATOMIC_ACQUIRE) != 0; }

static bool runs(const stream *s) { return __atomic_load_n(&s->running, __ATOMIC_ACQUIRE); }

static bool waits_reached(const tessera_slot *slot) {
  for (uint32_t i = 0; i < slot->wait_count; i++)
    if (__atomic_load_n(&tw.page->timeline[slot->waits[i].stream], __ATOMIC_ACQUIRE) <
        slot->waits[i].value)
      return false;
  return true;
}

static bool may_start(const tessera_slot *slot) {
  return waits_reached(slot) && tw_value_reached(slot);
}

static uint8_t priority_of(const stream *s) {
  return __atomic_load_n(&tw.client->priorities[s - streams], __ATOMIC_RELAXED);
}

/* Whether the next request of stream `a` comes before that of `b`: it has a higher priority, or was
 * enqueued earlier; the numbers in `order` wrap around. A request that many later ones have passed
 * is not passed any more, so that none waits forever. */
static bool is_before(const stream *a, const stream *b) {
  enum { MOST_PASSED = 512 };
  const uint8_t first = priority_of(a), second = priority_of(b);
  const int32_t later = (int32_t)(a->next.slot.order - b->next.slot.order);
  if (first == second || later < -MOST_PASSED || later > MOST_PASSED) return later < 0;
  return first > second;
}

/* Fill `ready` with the streams whose next request can run, in the order in which they start. */
static uint32_t find_ready(uint32_t ready[TESSERA_MAX_STREAMS]) {
  uint32_t count = 0, limit = streams_in_use();
  for (uint32_t i = 0; i < limit; i++) {
    const stream *s = &streams[i];
    if (runs(s) || !tw_ring_fetch(i, &streams[i]) || !may_start(&s->next.slot)) continue;
    uint32_t place = count++;
    for (; place > 0 && is_before(s, &streams[ready[place - 1]]); place--)
      ready[place] = ready[place - 1];
    ready[place] = i;
  }
  return count;
}

/* Run a stream's next request. Returns whether the calling thread has led without interruption. */
static bool run_next(uint32_t index) {
  stream *s = &streams[index];
  tw_lead_begin(index);
  __atomic_store_n(&s->running, true, __ATOMIC_RELAXED); /* before the lead may pass on */
  ran++;
  if (tw_expect_short(&s->next))
    tw_lead_keep();
  else
    tw_lead_pass();
  tw_perform(index, &s->next);
  s->pending = false;
  tw_publish(index, s->last_value);
  tw_lead_reported();
  __atomic_store_n(&s->running, false, __ATOMIC_RELEASE);
  return tw_lead_after_request();
}

/* Run one round. Returns false when there was nothing to run; a frozen context runs nothing. */
static bool run_turn(void) {
  uint32_t ready[TESSERA_MAX_STREAMS];
  tw_lead_look();
  const uint32_t count = find_ready(ready);
  uint32_t done = 0;
  while (done < count && !tw_timelines_frozen())
    if (!run_next(ready[done++])) break;
  return done > 0;
}

static bool is_whole(const stream *s) { return s->pending && s->awaited == 0; }

/* Whether another round might find a request: a request that had to wait may be ready by now. */
static bool any_news(void) {
  uint32_t limit = tw_timelines_frozen() ? 0 : streams_in_use();
  for (uint32_t i = 0; i < limit; i++) {
    const stream *s = &streams[i];
    if (!runs(s) && (is_whole(s) ? may_start(&s->next.slot) : tw_ring_has_news(i, s)))
      return true;
  }
  return false;
}

/* Whether a request waits for a value in memory, whose arrival rings no bell. */
static bool awaits_value(void) {
  uint32_t limit = tw_timelines_frozen() ? 0 : streams_in_use();
  for (uint32_t i = 0; i < limit; i++) {
    const stream *s = &streams[i];
    if (!runs(s) && is_whole(s) && s->next.slot.opcode == TESSERA_OPCODE_AWAIT &&
        waits_reached(&s->next.slot))
      return true;
  }
  return false;
}

/* Return how long to sleep before the next look at the awaited values: longer each time, until a
 * request has run. 0: no request awaits a value. */
static uint64_t value_nap_ns(void) {
  static uint64_t last_ns;
  if (!awaits_value()) return 0;
  last_ns = ran != 0 || last_ns == 0 ? SHORTEST_LOOK_NS : 2 * last_ns;
  if (last_ns > LONGEST_LOOK_NS) last_ns = LONGEST_LOOK_NS;
  return last_ns;
}

/* Return how long to spin: 0 on the client's CPU, where spinning would only delay the client,
 * whose request is awaited. */
static uint64_t spin_budget_ns(void) {
  int32_t here = sched_getcpu();
  __atomic_store_n(&tw.page->cpu, here, __ATOMIC_RELAXED);
  return here == __atomic_load_n(&tw.client->cpu, __ATOMIC_RELAXED) ? 0 : SPIN_NS;
}

static void sleep_on_bell(uint32_t how, uint64_t limit_ns) {
  if (!tw_lead_sleep(how, limit_ns)) return; /* the calling thread does not lead any more */
  ran = 0;
  __atomic_store_n(&tw.page->cpu, sched_getcpu(), __ATOMIC_RELAXED);
}

static struct {
  bool unevaluated;      /* the last sleep was a doze */
  uint32_t pause;     /* naps between two dozes: 0; or 1, 3, 7... while dozes do not pay */
  uint32_t naps_left; /* naps left before the next doze */
} dozing;

static void evaluate_doze(void) {
  if (!dozing.unevaluated) return;
  dozing.unevaluated = false;
  dozing.pause = ran >= PAYING_REQUESTS ? 0 : 2 * dozing.pause + 1;
  if (dozing.pause > MAX_NAPS_BETWEEN_DOZES) dozing.pause = MAX_NAPS_BETWEEN_DOZES;
  dozing.naps_left = dozing.pause;
}

/* A worker that runs on its client's CPU may have preempted the client while that was writing
 * requests, and would do so again for each request that rings the bell. A client that waits has
 * no requests to write. */
static bool may_doze(bool same_cpu) {
  if (!same_cpu || __atomic_load_n(&tw.client->waiting, __ATOMIC_RELAXED) != 0) return false;
  if (dozing.naps_left == 0) return true;
  dozing.naps_left--;
  return false;
}

static void wait_for_news(void) {
  enum { LOOKS_PER_CLOCK = 32 };
  uint64_t budget_ns = spin_budget_ns();
  /* Do not spin while other threads compute. */
  uint64_t deadline = tw_lead_running_elsewhere() != 0 ? 0 : tw_now_ns() + budget_ns;
  do {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (any_news() || stop_requested()) return;
      tw_relax();
    }
  } while (tw_now_ns() < deadline);
  evaluate_doze();
  dozing.unevaluated = may_doze(budget_ns == 0);
  /* After the sleep, this thread examines all streams as the leader: another leader may have
   * found requests and not started them. */
  if (dozing.unevaluated)
    sleep_on_bell(TESSERA_DOZING, DOZE_NS);
  else
    sleep_on_bell(0, value_nap_ns());
}

static void *runner_main(void *index) {
  tw_lead_enter((uint32_t)(uintptr_t)index);
  tw_fault_prepare_thread();
  while (tw_lead_join())
    while (tw_leads() && !stop_requested())
      if (!run_turn()) wait_for_news();
  tw_cta_end_thread();
  return NULL;
}

int tw_scheduler_start(void) {
  memset(streams, 0, sizeof streams);
  return tw_runners_start(runner_main, any_news, awaits_value);
}
