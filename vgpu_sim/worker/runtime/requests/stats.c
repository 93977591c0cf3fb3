/* Counters of the context's finished and running launches, which the owner reads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "base/internal.h"
#include "base/platform.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything below */
static tessera_worker_stats stats; /* busy_ns counts up to `busy_since_ns`, if a launch runs */
static uint32_t running;           /* launches */
static uint64_t busy_since_ns;
static uint32_t computing; /* launches whose code is available */
static uint64_t computing_since_ns;
/* Per runner. `shape` is written by its runner, and constant while it computes. */
static struct {
  uint64_t kernel; /* 0: the runner does not compute */
  uint64_t since_ns;
  struct {
    uint64_t kernel, blocks, shared_bytes;
    uint32_t block_threads;
    tw_occupancy occupancy;
    uint32_t pipes[TESSERA_WORKER_PIPES];
  } shape;
} launches[TW_RUNNERS];

/* Called before the launch starts. For a launch like the runner's previous one it only costs a
 * comparison. */
void tw_launch_of(const tessera_worker_kernel *kernel, const tessera_launch_body *body) {
  __typeof__(launches[0].shape) *shape = &launches[tw_current.runner].shape;
  const uint64_t blocks = (uint64_t)body->grid[0] * body->grid[1] * body->grid[2];
  const uint32_t threads = body->block[0] * body->block[1] * body->block[2];
  if (shape->kernel == body->kernel && shape->blocks == blocks &&
      shape->block_threads == threads && shape->shared_bytes == body->shared_bytes)
    return;
  shape->kernel = body->kernel;
  shape->blocks = blocks;
  shape->block_threads = threads;
  shape->shared_bytes = body->shared_bytes;
  shape->occupancy = tw_occupancy_of(kernel, blocks, threads, body->shared_bytes);
  memcpy(shape->pipes, kernel->pipes, sizeof shape->pipes);
}

static uint64_t part(uint64_t ns, uint32_t share) {
  return (uint64_t)((double)ns * share / TESSERA_WORKER_ALL);
}

/* Add the time for which a runner's launch has kept resources busy. */
static void add_time(tessera_worker_stats *out, uint32_t runner, uint64_t ns) {
  const uint64_t active_ns = part(ns, launches[runner].shape.occupancy.active);
  out->sm_active_ns += active_ns;
  out->sm_occupancy_ns += part(ns, launches[runner].shape.occupancy.occupied);
  for (uint32_t i = 0; i < TESSERA_WORKER_PIPES; i++)
    out->pipe_ns[i] += part(active_ns, launches[runner].shape.pipes[i]);
}

static void begin(uint64_t now_ns) {
  if (running++ == 0) busy_since_ns = now_ns;
  if (stats.first_launch_ns == 0) stats.first_launch_ns = now_ns;
}

static void compute(uint64_t handle, uint64_t now_ns) {
  launches[tw_current.runner].since_ns = now_ns;
  launches[tw_current.runner].kernel = handle;
  if (computing++ == 0) computing_since_ns = now_ns;
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
  const uint64_t ns = now_ns - launches[tw_current.runner].since_ns;
  tw_kernel_account(kernel, blocks, ns);
  add_time(&stats, tw_current.runner, ns);
  stats.blocks += blocks;
  stats.threads += blocks * launches[tw_current.runner].shape.block_threads;
  launches[tw_current.runner].kernel = 0;
  stats.last_launch_ns = now_ns;
  stats.busy_ns += now_ns - busy_since_ns;
  busy_since_ns = now_ns;
  stats.computed_ns += now_ns - computing_since_ns;
  computing_since_ns = now_ns;
  computing--;
  stats.launches++;
  running--;
  pthread_mutex_unlock(&lock);
}

/* Find the kernel that has been running for the longest time; a time limit applies to it. */
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
  if (computing != 0 && now_ns > computing_since_ns)
    out->computed_ns += now_ns - computing_since_ns;
  for (uint32_t i = 0; i < TW_RUNNERS; i++)
    if (launches[i].kernel != 0 && now_ns > launches[i].since_ns)
      add_time(out, i, now_ns - launches[i].since_ns);
  tw_copies_read(out);
  tw_kernel_name(out->running_kernel, out->running_name, sizeof out->running_name);
  pthread_mutex_unlock(&lock);
}
