/* Measures the launch path between two processes with an empty native kernel. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"
#include "base/platform.h"

enum { ROUNDS = 20000, IDLE_ROUNDS = 400 };

static const uint64_t SPIN_NS = 12000;
static client c;
static bool rang;

static void run_nothing(const tessera_launch_context *launch, const uint8_t *parameters,
                        uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)first, (void)end, (void)thread;
}

static tessera_kernel_entry choose(uint64_t handle) {
  (void)handle;
  return run_nothing;
}

static void enqueue(uint64_t kernel, uint32_t blocks) {
  uint8_t parameters[32] = {0};
  uint32_t bell = c.area->bell;
  client_launch(&c, 0, client_slot(&c, 0, TESSERA_OPCODE_LAUNCH), kernel, blocks, parameters, 32);
  rang = c.area->bell != bell;
}

/* The rules of docs/launch-protocol.md. */
static void synchronise(void) {
  uint64_t value = c.values[0];
  int here = sched_getcpu();
  __atomic_store_n(&c.area->cpu, here, __ATOMIC_RELAXED);
  bool spin = !rang && here != __atomic_load_n(&c.page->cpu, __ATOMIC_RELAXED);
  uint64_t deadline = tw_now_ns() + (spin ? SPIN_NS : 0);
  do {
    for (int i = 0; i < 32; i++) {
      if (__atomic_load_n(&c.page->timeline[0], __ATOMIC_ACQUIRE) >= value) return;
      tw_relax();
    }
  } while (tw_now_ns() < deadline);
  CHECK(client_wait(&c, 0, value) == 0);
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void report(const char *what, uint64_t *times, int count) {
  qsort(times, (size_t)count, sizeof *times, ascending);
  printf("%-38s p50 %7.2f us   p99 %7.2f us\n", what, (double)times[count / 2] / 1e3,
         (double)times[count * 99 / 100] / 1e3);
}

static void measure(uint64_t kernel, uint32_t blocks) {
  static uint64_t times[ROUNDS];
  char title[64];
  for (int i = 0; i < ROUNDS / 10; i++) enqueue(kernel, blocks), synchronise();
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t begin = tw_now_ns();
    enqueue(kernel, blocks);
    synchronise();
    times[i] = tw_now_ns() - begin;
  }
  snprintf(title, sizeof title, "launch + sync, %u blocks", blocks);
  report(title, times, ROUNDS);
  for (int i = 0; i < IDLE_ROUNDS; i++) {
    usleep(1000);
    uint64_t begin = tw_now_ns();
    enqueue(kernel, blocks);
    synchronise();
    times[i] = tw_now_ns() - begin;
  }
  snprintf(title, sizeof title, "launch + sync after 1 ms, %u blocks", blocks);
  report(title, times, IDLE_ROUNDS);
  uint64_t all = tw_now_ns();
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t begin = tw_now_ns();
    enqueue(kernel, blocks);
    times[i] = tw_now_ns() - begin;
  }
  synchronise();
  all = tw_now_ns() - all;
  snprintf(title, sizeof title, "asynchronous launch, %u blocks", blocks);
  report(title, times, ROUNDS);
  printf("%-38s %11.2f us each\n", "  the whole queue", (double)all / 1e3 / ROUNDS);
  for (int k = 0; k < 20; k++) {
    for (int i = 0; i < 200; i++) {
      uint64_t begin = tw_now_ns();
      enqueue(kernel, blocks);
      times[k * 200 + i] = tw_now_ns() - begin;
    }
    synchronise();
  }
  snprintf(title, sizeof title, "enqueue of 200, %u blocks", blocks);
  report(title, times, 4000);
}

/* A sleeping client is woken by every completion, not only by the one for which it waits. */
static void measure_sleeping_client(uint64_t kernel) {
  enum { LAUNCHES = 250, REPEATS = 40 };
  uint64_t times[REPEATS];
  for (int k = 0; k < REPEATS; k++) {
    uint64_t begin = tw_now_ns();
    for (int i = 0; i < LAUNCHES; i++) enqueue(kernel, 1);
    CHECK(client_wait(&c, 0, c.values[0]) == 0);
    times[k] = (tw_now_ns() - begin) / LAUNCHES;
  }
  report("each of 250, the client sleeping", times, REPEATS);
}

int main(void) {
  client_open(&c);
  uint64_t kernel = kernel_add("nothing", 32);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
    CHECK(tessera_worker_reserve(BASES[0]) == 0);
    worker_start(2, choose);
    for (;;) pause();
  }
  c.area->stream_limit = 1;
  measure(kernel, 1);
  measure(kernel, 2);
  measure_sleeping_client(kernel);
  c.area->stream_limit = TESSERA_MAX_STREAMS;
  measure(kernel, 2);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return 0;
}
