/* What the context has computed and computes, for whoever asks the owner. */
#define _GNU_SOURCE
#include <pthread.h>

#include "internal.h"
#include "platform.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static tessera_worker_stats stats; /* busy_ns: up to `busy_since_ns`, if something runs */
static uint32_t running;           /* launches */
static uint64_t busy_since_ns;
static struct {
  uint64_t kernel; /* 0: it does not compute */
  uint64_t since_ns;
} launches[TW_RUNNERS];

static void begin(uint64_t now_ns) {
  if (running++ == 0) busy_since_ns = now_ns;
  if (stats.first_launch_ns == 0) stats.first_launch_ns = now_ns;
}

static void compute(uint64_t handle, uint64_t now_ns) {
  launches[tw_current.runner].since_ns = now_ns;
  launches[tw_current.runner].kernel = handle;
}

void tw_launch_begins(uint64_t handle) {
  const uint64_t now_ns = tw_now_ns();
  pthread_mutex_lock(&lock);
  begin(now_ns);
  if (handle != 0) compute(handle, now_ns);
  pthread_mutex_unlock(&lock);
}

void tw_launch_computes(uint64_t handle) {
  const uint64_t now_ns = tw_now_ns();
  pthread_mutex_lock(&lock);
  compute(handle, now_ns);
  pthread_mutex_unlock(&lock);
}

void tw_launch_ends(uint64_t blocks) {
  const uint64_t now_ns = tw_now_ns();
  pthread_mutex_lock(&lock);
  const uint64_t kernel = launches[tw_current.runner].kernel;
  tw_kernel_account(kernel, blocks, now_ns - launches[tw_current.runner].since_ns);
  launches[tw_current.runner].kernel = 0;
  stats.last_launch_ns = now_ns;
  stats.busy_ns += now_ns - busy_since_ns;
  busy_since_ns = now_ns;
  stats.launches++;
  running--;
  pthread_mutex_unlock(&lock);
}

/* The kernel that has run for the longest: a limit of time is a limit for it. */
static void find_oldest(tessera_worker_stats *out) {
  for (uint32_t i = 0; i < TW_RUNNERS; i++) {
    if (launches[i].kernel == 0) continue;
    if (out->running_kernel != 0 && launches[i].since_ns >= out->running_since_ns) continue;
    out->running_kernel = launches[i].kernel;
    out->running_since_ns = launches[i].since_ns;
  }
}

void tessera_worker_get_stats(tessera_worker_stats *out) {
  pthread_mutex_lock(&lock);
  *out = stats;
  find_oldest(out);
  const uint64_t now_ns = tw_now_ns();
  if (running != 0 && now_ns > busy_since_ns) out->busy_ns += now_ns - busy_since_ns;
  tw_kernel_name(out->running_kernel, out->running_name, sizeof out->running_name);
  pthread_mutex_unlock(&lock);
}
