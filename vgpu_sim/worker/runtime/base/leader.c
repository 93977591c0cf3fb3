/* Which runner leads: leader and followers, after Schmidt's pattern of that name.
 *
 * A worker has as many runners as requests run side by side, one that leads and one to spare. Who
 * leads owns the streams; it runs short requests by itself, and passes the lead on before one that
 * takes time, or may. Who has run such a request leads again if nobody does, else it waits.
 *
 * The lead is free where there is nothing to run. Then the client must ring, so somebody waits for
 * the bell; all others that have nothing to do wait on the bench. One of those watches: a request
 * that was thought to be short and is not (a kernel that waits for another stream's) loses the lead
 * after two looks, or nobody would run what it waits for. Nobody watches where nothing happens. */
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
static uint32_t benched;     /* atomic: runners that wait on it, or are on their way there */
static uint32_t at_bell;     /* atomic: runners that wait for the client */
static uint32_t watching;    /* atomic: one of the bench does */
static uint32_t completions; /* atomic: requests that ended, and rings, while another thread led */
static uint32_t elsewhere;   /* atomic: requests that run while another thread leads */
static pthread_t runners[TW_RUNNERS];
static uint32_t runner_count; /* atomic: written by the leader */
static uint32_t heard_first[TW_RUNNERS]; /* `bench` when each runner was added */

/* The leader's alone. */
static uint32_t looked_at; /* `completions` when it last began to look at the streams */
static uint64_t turns;
static uint32_t naps;
static bool called; /* for somebody to watch, since it leads */

/* What the owner of the streams gave. */
static void *(*runner_main)(void *index);
static bool (*any_news)(void);

/* The request of the calling thread. */
static __thread struct {
  uint32_t stream;
  bool marked;       /* in the page: its stream is occupied */
} current;

static __thread uint64_t held; /* `lead` as this thread has written it; FREE: it does not lead */
static __thread uint32_t heard; /* `bench` when it last had a reason to try to lead */

#define LOAD(object) __atomic_load_n(&(object), __ATOMIC_SEQ_CST)
#define STORE(object, value) __atomic_store_n(&(object), (value), __ATOMIC_SEQ_CST)
#define ADD(object, value) __atomic_add_fetch(&(object), (value), __ATOMIC_SEQ_CST)

static uint64_t mine(uint64_t state) { return state | (uint64_t)tw_current.runner << RUNNER_SHIFT; }

static bool stop_asked(void) { return LOAD(tw.stopping) != 0; }

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
  heard = LOAD(bench); /* whoever calls the bench from now on means this thread, too */
  held = FREE;
  STORE(lead, FREE);
}

/* The leader again, if nobody has taken the lead from it during a short request. */
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

/* The new one goes to the bench, as if it had sat there before. */
static bool add_runner(void) {
  const uint32_t index = LOAD(runner_count);
  if (index >= limit()) return false;
  STORE(runner_count, index + 1);
  ADD(benched, 1);
  heard_first[index] = LOAD(bench);
  if (pthread_create(&runners[index], NULL, runner_main, (void *)(uintptr_t)index) == 0)
    return true;
  STORE(runner_count, index);
  ADD(benched, -1);
  return false;
}

static bool loses_lead(uint64_t seen) {
  return (seen & STATES) == LEADS_SHORTLY && take_lead(seen);
}

/* Waits until the bench is called; true when it has got the lead by watching. */
static bool wait_on_bench(void) {
  const uint32_t seen = heard;
  uint32_t nobody = 0, quiet = 0;
  if (!__atomic_compare_exchange_n(&watching, &nobody, 1, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST)) {
    tw_futex_wait(&bench, seen, 0);
    return false;
  }
  uint64_t before = LOAD(lead);
  while (quiet < QUIET_LOOKS && LOAD(bench) == seen && !stop_asked()) {
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
  heard = heard_first[runner];
}

bool tw_lead_join(void) {
  do {
    if (stop_asked()) return false;
    const uint32_t now = LOAD(bench);
    if (now != heard && (heard = now, take_free_lead())) break;
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
  const bool busy = any_news();
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

void tw_lead_told(void) {
  if (current.marked) mark(false);
}

bool tw_lead_after_request(void) {
  if (still_leads()) return true;
  ADD(elsewhere, -1);
  ADD(completions, 1);
  heard = LOAD(bench);
  if (!take_free_lead()) ADD(benched, 1);
  return false;
}

bool tw_lead_sleep(uint32_t how, uint64_t limit_ns) {
  uint32_t bell = LOAD(tw.client->bell);
  announce_nap(how);
  if (any_news() || stop_asked()) {
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
  /* Whoever has the lead may be about to free it, and have looked before the client rang. It sees
   * this before it sleeps, or the lead is free by now. */
  heard = LOAD(bench);
  ADD(benched, 1);
  ADD(completions, 1);
  if (!take_free_lead()) return false;
  ADD(benched, -1);
  return true;
}

int tw_runners_start(void *(*main)(void *index), bool (*news)(void)) {
  runner_main = main;
  any_news = news;
  lead = FREE;
  benched = at_bell = watching = completions = elsewhere = runner_count = 0;
  if (!add_runner()) return -EAGAIN;
  call_bench();
  return 0;
}

void tw_runners_stop(void) {
  /* The bell is the client's to ring, so one that falls asleep just now is woken again. */
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
