/* The engine's thread and its loop: it finds work, gives functions their turns, and sleeps when
 * there is no work. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/internal.h"

enum { SPIN_NS = 20000, MAX_SLEEP_MS = 60000 };

/* Release the lock for the threads that wait now for a call to the engine. Callers that arrive
 * meanwhile get the lock after the next iteration. */
static void yield_to_callers(struct hca *hca) {
  const unsigned wanting = atomic_load(&hca->callers);
  if (wanting == 0) return;
  const unsigned before = atomic_load(&hca->entered);
  hca_leave(hca);
  while (atomic_load(&hca->callers) != 0 && atomic_load(&hca->entered) - before < wanting)
    sched_yield();
  pthread_mutex_lock(&hca->lock);
}

static int timeout_ms(uint64_t wake_ns) {
  if (wake_ns == UINT64_MAX) return MAX_SLEEP_MS;
  const uint64_t now_ns = hca_now_ns();
  if (wake_ns <= now_ns) return 0;
  const uint64_t ms = (wake_ns - now_ns + 999999) / 1000000;
  return ms > MAX_SLEEP_MS ? MAX_SLEEP_MS : (int)ms;
}

static void *serve(void *argument) {
  struct hca *hca = argument;
  uint64_t idle_since_ns = 0;
  hca_enter(hca);
  while (!atomic_load(&hca->ending)) {
    if (hca->held) {
      pthread_cond_wait(&hca->released, &hca->lock);
      continue;
    }
    atomic_fetch_add_explicit(&hca->turns, 1, memory_order_relaxed);
    const uint64_t before = hca->work, now_ns = hca_now_ns();
    uint64_t wake_ns;
    hca_look_for_bells(hca, now_ns);
    if (hca_wire_poll(hca)) idle_since_ns = 0;
    if (hca_find_ready(hca, now_ns, &wake_ns)) {
      hca_serve(hca, now_ns);
      idle_since_ns = 0;
      if (hca->most_pass < hca->work - before) hca->most_pass = hca->work - before;
    } else if (idle_since_ns == 0) {
      idle_since_ns = now_ns;
    } else if (now_ns - idle_since_ns > SPIN_NS && hca->polled_count == 0) {
      atomic_fetch_add_explicit(&hca->sleeps, 1, memory_order_relaxed);
      hca_sleep(hca, timeout_ms(wake_ns));
      idle_since_ns = 0;
    } else {
      hca_leave(hca);
      sched_yield(); /* there may be fewer CPUs than communicating processes */
      pthread_mutex_lock(&hca->lock);
    }
    yield_to_callers(hca);
  }
  hca_leave(hca);
  return NULL;
}

static bool watch(struct hca *hca) {
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = HCA_RANG_ENGINE};
  return epoll_ctl(hca->epoll_fd, EPOLL_CTL_ADD, hca->wake_fd, &event) == 0;
}

static struct hca *give_up(struct hca *hca) {
  const int error = errno;
  if (hca->epoll_fd >= 0) close(hca->epoll_fd);
  if (hca->wake_fd >= 0) close(hca->wake_fd);
  if (hca->absent_fd >= 0) close(hca->absent_fd);
  if (hca->sources_fd >= 0) close(hca->sources_fd);
  free(hca);
  errno = error;
  return NULL;
}

struct hca *hca_new(void) {
  struct hca *hca = calloc(1, sizeof *hca);
  if (!hca) return NULL;
  hca_memory_guard();
  pthread_mutex_init(&hca->lock, NULL);
  pthread_cond_init(&hca->released, NULL);
  hca->absent_fd = hca_absent_open();
  hca->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  hca->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  hca->sources_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (hca->epoll_fd < 0 || hca->wake_fd < 0 || hca->sources_fd < 0 || !watch(hca))
    return give_up(hca);
  const int error = pthread_create(&hca->thread, NULL, serve, hca);
  if (error == 0) return hca;
  errno = error;
  return give_up(hca);
}

void hca_free(struct hca *hca) {
  atomic_store(&hca->ending, true);
  hca_release(hca);
  pthread_join(hca->thread, NULL);
  hca_table_free(&hca->numbered);
  hca_table_free(&hca->qps);
  hca_table_free(&hca->regions);
  hca_wire_end(hca);
  hca_table_free(&hca->windows);
  hca_table_free(&hca->ahs);
  give_up(hca);
}

void hca_counters(struct hca *hca, uint64_t *sleeps, uint64_t *turns) {
  *sleeps = atomic_load(&hca->sleeps);
  *turns = atomic_load(&hca->turns);
}

int hca_watches_memory(const struct hca *hca) { return hca->absent_fd >= 0; }
