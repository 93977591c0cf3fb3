/* Selection of the leader among the runners: the leader/followers pattern (Schmidt et al.).
 *
 * A worker has as many runners as requests may run concurrently, plus a leader and a spare. The
 * leader owns the streams. It runs short requests itself, and passes the lead on before a
 * request that takes time, or may take time. When a runner has finished such a request, it leads
 * again if there is no leader, and otherwise waits.
 *
 * While there is nothing to run, no thread has the lead. The client must ring then, so one
 * runner waits for the bell; all other idle runners wait on the bench. One of these watches the
 * leader: if a request that was expected to be short takes longer than two looks (such as a
 * kernel that waits for another stream's kernel), the watcher takes the lead, because no other
 * thread would run the request that is waited for. While nothing happens, no runner watches. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/internal.h"
#include "base/platform.h"

enum { FREE = 0, LEADS = 1, LEADS_SHORTLY = 2, STATES = 3, RUNNER_SHIFT = 2, TURN_SHIFT = 16 };
enum { QUIET_LOOKS = 3 };

static const uint64_t LOOK_NS = 2 * UINT64_C(1000000);

static _Alignas(64) uint64_t lead; /* atomic: state, runner, and a count of short requests */
static _Alignas(64) uint32_t bench; /* futex */
static uint32_t benched;     /* atomic: runners that wait on the bench, or are about to */
static uint32_t at_bell;     /* atomic: runners that wait for the client's bell */
static uint32_t watching;    /* atomic: a runner on the bench watches the leader */
static uint32_t completions; /* atomic: requests that ended, and rings, while another thread led */
static uint32_t elsewhere;   /* atomic: requests that run while another thread leads */
static pthread_t runners[TW_RUNNERS];
static uint32_t runner_count; /* atomic: written by the leader */
static uint32_t bench_first_seen[TW_RUNNERS]; /* value of `bench` when each runner was added */

/* Used by the leader only. */
static uint32_t looked_at; /* `completions` when the leader last began to examine the streams */
static uint64_t turns;
static uint32_t naps;
static bool called; /* a watcher has been called since this leader took the lead */

/* Callbacks of the scheduler, which owns the streams. */
static void *(*runner_main)(void *index);
static bool (*any_news)(void);
static bool (*awaits_value)(void);

/* The calling thread's request. */
static __thread struct {
  uint32_t stream;
  bool marked;       /* its stream is marked as occupied in the page */
} current;

static __thread uint64_t held; /* `lead` as this thread has written it; FREE: it does not lead */
static __thread uint32_t bench_seen; /* `bench` when it last had a reason to try to take the lead */

#define LOAD(object) __atomic_load_n(&(object), __ATOMIC_SEQ_CST)
#define STORE(object, value) __atomic_store_n(&(object), (value), __ATOMIC_SEQ_CST)
#define ADD(object, value) __atomic_add_fetch(&(object), (value), __ATOMIC_SEQ_CST)

static uint64_t mine(uint64_t state) { return state | (uint64_t)tw_current.runner << RUNNER_SHIFT; }

static bool stop_requested(void) { return LOAD(tw.stopping) != 0; }

static uint32_t limit(void) {
  return tw.config.runners != 0 && tw.config.runners < TW_RUNNERS ? tw.config.runners : TW_RUNNERS;
}

static bool replace(uint64_t expected, uint64_t wanted) {
  return __atomic_compare_exchange_n(&lead, &expected, wanted, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

static bool take_lead(uint64_t from) {
  if (!replace(from, mine(LEADS))) return false;
  held = mine(LEADS);
  called = false;
  return true;
}

static bool take_free_lead(void) {
  if (!take_lead(FREE)) return false;
  STORE(tw.page->sleeping, 0);
  return true;
}

static void free_lead(void) {
  bench_seen = LOAD(bench); /* from now on, a call of the bench includes this thread */
  held = FREE;
  STORE(lead, FREE);
}

/* Become the plain leader again, unless another thread took the lead during a short request. */
static bool still_leads(void) {
  if (held == FREE) return false;
  if (held != mine(LEADS)) held = replace(held, mine(LEADS)) ? mine(LEADS) : FREE;
  return held != FREE;
}

bool tw_leads(void) { return held != FREE; }

uint32_t tw_lead_running_elsewhere(void) { return LOAD(elsewhere); }

void tw_lead_look(void) { looked_at = LOAD(completions); }

static void call_bench(void) {
  ADD(bench, 1);
  syscall(SYS_futex, &bench, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Add a runner that starts on the bench, as if it had waited there. */
static bool add_runner(void) {
  const uint32_t index = LOAD(runner_count);
  if (index >= limit()) return false;
  STORE(runner_count, index + 1);
  ADD(benched, 1);
  bench_first_seen[index] = LOAD(bench);
  if (pthread_create(&runners[index], NULL, runner_main, (void *)(uintptr_t)index) == 0)
    return true;
  STORE(runner_count, index);
  ADD(benched, -1);
  return false;
}

static bool loses_lead(uint64_t seen) {
  return (seen & STATES) == LEADS_SHORTLY && take_lead(seen);
}

/* Wait until the bench is called; true if this thread has taken the lead as the watcher. */
static bool wait_on_bench(void) {
  const uint32_t seen = bench_seen;
  uint32_t unwatched = 0, quiet = 0;
  if (!__atomic_compare_exchange_n(&watching, &unwatched, 1, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST)) {
    tw_futex_wait(&bench, seen, 0);
    return false;
  }
  uint64_t before = LOAD(lead);
  while (quiet < QUIET_LOOKS && LOAD(bench) == seen && !stop_requested()) {
    tw_futex_wait(&bench, seen, LOOK_NS);
    const uint64_t now = LOAD(lead);
    if (now == before && loses_lead(now)) {
      ADD(elsewhere, 1);
      STORE(watching, 0);
      return true;
    }
    quiet = now == FREE && before == FREE ? quiet + 1 : 0;
    before = now;
  }
  STORE(watching, 0);
  if (quiet == QUIET_LOOKS && LOAD(lead) == FREE) tw_futex_wait(&bench, seen, 0);
  return false;
}

void tw_lead_enter(uint32_t runner) {
  tw_current.runner = runner;
  bench_seen = bench_first_seen[runner];
}

bool tw_lead_join(void) {
  do {
    if (stop_requested()) return false;
    const uint32_t now = LOAD(bench);
    if (now != bench_seen && (bench_seen = now, take_free_lead())) break;
  } while (!wait_on_bench());
  ADD(benched, -1);
  return true;
}

void tw_lead_keep(void) {
  if (LOAD(watching) == 0 && !called && limit() > 1) {
    called = true;
    if (LOAD(benched) != 0 || add_runner()) call_bench();
  }
  held = mine(LEADS_SHORTLY) | ++turns << TURN_SHIFT;
  __atomic_store_n(&lead, held, __ATOMIC_RELEASE);
}

static void announce_nap(uint32_t how) {
  naps = naps + 1 < TESSERA_DOZING ? naps + 1 : 1; /* never 0 */
  STORE(tw.page->sleeping, naps | how);
}

static void mark(bool marked) {
  uint64_t *bits = &tw.page->occupied[current.stream / 64];
  const uint64_t bit = UINT64_C(1) << current.stream % 64;
  if (marked)
    __atomic_or_fetch(bits, bit, __ATOMIC_SEQ_CST);
  else
    __atomic_and_fetch(bits, ~bit, __ATOMIC_SEQ_CST);
  current.marked = marked;
}

void tw_lead_begin(uint32_t stream) { current.stream = stream; }

void tw_lead_pass(void) {
  if (!still_leads()) return;
  mark(true);
  announce_nap(0);
  /* No bell rings for a value, so a runner that sleeps without a limit does not look at it. */
  const bool busy = any_news() || awaits_value();
  const bool rung = LOAD(at_bell) != 0;
  if (LOAD(benched) == 0 && (busy || !rung) && !add_runner()) {
    STORE(tw.page->sleeping, 0);
    tw_lead_keep();
    return;
  }
  const uint32_t looked = looked_at;
  ADD(elsewhere, 1);
  free_lead();
  if (busy || !rung || LOAD(completions) != looked) call_bench();
}

void tw_lead_reported(void) {
  if (current.marked) mark(false);
}

bool tw_lead_after_request(void) {
  if (still_leads()) return true;
  ADD(elsewhere, -1);
  ADD(completions, 1);
  bench_seen = LOAD(bench);
  if (!take_free_lead()) ADD(benched, 1);
  return false;
}

bool tw_lead_sleep(uint32_t how, uint64_t limit_ns) {
  uint32_t bell = LOAD(tw.client->bell);
  announce_nap(how);
  if (any_news() || stop_requested()) {
    STORE(tw.page->sleeping, 0);
    return true;
  }
  uint32_t *place = limit_ns != 0 || LOAD(at_bell) == 0 ? &at_bell : &benched;
  const uint32_t looked = looked_at;
  ADD(*place, 1);
  free_lead();
  if (LOAD(completions) != looked && take_free_lead()) {
    ADD(*place, -1);
    return true;
  }
  if (place == &benched) return false;
  tw_futex_wait(&tw.client->bell, bell, limit_ns);
  ADD(at_bell, -1);
  if (take_free_lead()) return true;
  /* Another leader may have examined the streams before the client rang, and be about to free
   * the lead. Either it sees this increment before it sleeps, or the lead is free by now. */
  bench_seen = LOAD(bench);
  ADD(benched, 1);
  ADD(completions, 1);
  if (!take_free_lead()) return false;
  ADD(benched, -1);
  return true;
}

int tw_runners_start(void *(*main)(void *index), bool (*news)(void), bool (*awaits)(void)) {
  runner_main = main;
  any_news = news;
  awaits_value = awaits;
  lead = FREE;
  benched = at_bell = watching = completions = elsewhere = runner_count = 0;
  if (!add_runner()) return -EAGAIN;
  call_bench();
  return 0;
}

void tw_runners_stop(void) {
  /* Repeated, because a runner may be about to sleep on the bell, which normally the client
   * rings. */
  for (uint32_t i = 0; i < LOAD(runner_count); i++) {
    struct timespec deadline;
    do {
      ADD(bench, 1);
      tw_futex_wake_all(&bench);
      tw_futex_wake_all(&tw.client->bell);
      clock_gettime(CLOCK_REALTIME, &deadline);
      deadline.tv_nsec += 1000000;
      if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
      }
    } while (pthread_timedjoin_np(runners[i], NULL, &deadline) == ETIMEDOUT);
  }
}
