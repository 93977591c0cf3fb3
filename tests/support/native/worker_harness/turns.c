/* Requests of several streams that can all run, in a worker that runs one at a time: in each
 * round it runs one of each stream, the oldest first. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"
#include "base/platform.h"

enum { GATE_STREAM = 3, MAX_RUNS = 16, OTHER = 1000, SLOTS = 16384 };

static client c;
static uint64_t gate, noted, other;
static uint32_t entered, opened; /* atomic */
static uint32_t runs, order[MAX_RUNS];
static uint64_t launched_ns; /* of the last gate */

static void wait_at_gate(const tessera_launch_context *launch, const uint8_t *parameters,
                         uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)first, (void)end, (void)thread;
  __atomic_store_n(&entered, 1, __ATOMIC_SEQ_CST);
  while (!__atomic_load_n(&opened, __ATOMIC_SEQ_CST)) usleep(50);
}

static void note(const tessera_launch_context *launch, const uint8_t *parameters, uint64_t first,
                 uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)first, (void)end, (void)thread;
  if (runs < MAX_RUNS) memcpy(&order[runs++], parameters, sizeof order[0]);
}

static void note_other(const tessera_launch_context *launch, const uint8_t *parameters,
                       uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)first, (void)end, (void)thread;
  order[runs++] = OTHER;
}

static tessera_kernel_entry choose(uint64_t kernel) {
  if (kernel == other) return note_other;
  return kernel == gate ? wait_at_gate : note;
}

static void launch(uint64_t kernel, uint32_t stream, uint32_t number) {
  client_launch(&c, stream, client_slot(&c, stream, TESSERA_OPCODE_LAUNCH), kernel, 1, &number,
                sizeof number);
}

/* While the gate kernel runs, the statistics report it and its start. */
static void check_running(void) {
  tessera_worker_stats stats;
  tessera_worker_get_stats(&stats);
  CHECK(stats.running_kernel == gate && strcmp(stats.running_name, "gate") == 0);
  CHECK(stats.running_since_ns > launched_ns && stats.running_since_ns < tw_now_ns());
  CHECK(stats.launches == 0 || stats.last_launch_ns <= stats.running_since_ns);
}

static void check_that_none_runs(uint64_t launches) {
  tessera_worker_stats stats;
  tessera_worker_get_stats(&stats);
  CHECK(stats.running_kernel == 0 && stats.running_since_ns == 0 && stats.running_name[0] == 0);
  CHECK(stats.launches == launches && stats.busy_ns > 0);
  CHECK(stats.busy_ns <= stats.last_launch_ns - stats.first_launch_ns);
  tessera_worker_kernel_usage of_gate, of_noted;
  tessera_worker_get_kernel_usage(gate, &of_gate);
  tessera_worker_get_kernel_usage(noted, &of_noted);
  CHECK(of_gate.launches == 3 && of_noted.launches == launches - 3);
  CHECK(of_gate.busy_ns > 0 && of_noted.busy_ns > 0);
  CHECK(of_gate.busy_ns + of_noted.busy_ns <= stats.busy_ns);
}

static void hold_at_gate(void) {
  runs = 0;
  __atomic_store_n(&entered, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&opened, 0, __ATOMIC_SEQ_CST);
  launched_ns = tw_now_ns();
  launch(gate, GATE_STREAM, 0);
  while (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST)) usleep(50);
}

/* A kernel in the slot of a removed one has neither its code nor its counts. Slots are reused in
 * rotation, so this needs many kernels, and skips the gate's slot, whose kernel is running. */
static void check_reuse(void) {
  hold_at_gate();
  CHECK(tessera_worker_remove_kernel(gate) == 0 && tessera_worker_kernel_runs(gate));
  CHECK(tessera_worker_remove_kernel(noted) == 0);
  for (uint32_t i = 0; other == 0 && i < 2 * SLOTS; i++) {
    const uint64_t handle = kernel_add("other", sizeof(uint32_t));
    CHECK(handle % SLOTS != gate % SLOTS && handle != noted);
    if (handle % SLOTS == noted % SLOTS)
      other = handle;
    else
      CHECK(tessera_worker_remove_kernel(handle) == 0);
  }
  CHECK(other != 0);
  launch(other, 5, 0);
  __atomic_store_n(&opened, 1, __ATOMIC_SEQ_CST);
  CHECK(client_wait(&c, 5, c.values[5]) == 0);
  CHECK(runs == 1 && order[0] == OTHER);
  tessera_worker_kernel_usage usage;
  tessera_worker_get_kernel_usage(other, &usage);
  CHECK(usage.launches == 1 && !tessera_worker_kernel_runs(gate));
  gate = kernel_add("gate", sizeof(uint32_t));
  noted = other;
}

/* A context that is ended from outside completes nothing, not even the running request. */
static void check_end_at_gate(void) {
  enum { ERROR = 46 };
  hold_at_gate();
  launch(noted, 5, 5);
  const uint64_t reached = c.page->timeline[GATE_STREAM];
  CHECK(tessera_worker_fail(TESSERA_FAULT_KIND_FENCED, ERROR, gate, "taken away") == 1);
  CHECK(tessera_worker_fail(TESSERA_FAULT_KIND_FENCED, ERROR + 1, 0, "again") == 0);
  __atomic_store_n(&opened, 1, __ATOMIC_SEQ_CST);
  tessera_worker_stop(); /* which waits for the scheduler */
  CHECK(c.page->timeline[GATE_STREAM] == reached && runs == 0);
  CHECK(client_wait(&c, GATE_STREAM, c.values[GATE_STREAM]) == ERROR);
  CHECK(c.page->fault.kernel == gate && strcmp(c.page->fault.kernel_name, "gate") == 0);
  CHECK(strcmp(c.page->fault.message, "taken away") == 0);
}

/* Enqueues in the given streams, each with its own number, while the worker is at the gate. */
static void check(const uint32_t *fed, const uint32_t *expected, uint32_t count) {
  hold_at_gate();
  check_running();
  for (uint32_t i = 0; i < count; i++) launch(noted, fed[i], fed[i]);
  __atomic_store_n(&opened, 1, __ATOMIC_SEQ_CST);
  for (uint32_t i = 0; i < count; i++) CHECK(client_wait(&c, fed[i], c.values[fed[i]]) == 0);
  CHECK(runs == count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i] == expected[i]) continue;
    fprintf(stderr, "run %u was stream %u's and not stream %u's\n", i, order[i], expected[i]);
    exit(1);
  }
}

int main(void) {
  client_open(&c);
  /* One mapping for both sides: the thread sanitizer distinguishes memory by address. */
  tw.client = c.area;
  c.page = tw.page;
  tw.aperture_base = TESSERA_GUARD_BEFORE_BYTES;
  gate = kernel_add("gate", sizeof(uint32_t));
  noted = kernel_add("note", sizeof(uint32_t));
  client_runners = 1;
  worker_start(2, choose);
  static const uint32_t MIXED[] = {7, 2, 100, 0, 5};
  check(MIXED, MIXED, 5);
  c.order = UINT32_MAX - 3; /* the order number wraps between two of them */
  check(MIXED, MIXED, 5);
  /* A stream with several requests has one turn per round like the others. */
  static const uint32_t QUEUED[] = {7, 7, 7, 2, 5, 2}, TURNS[] = {7, 2, 5, 7, 2, 7};
  check(QUEUED, TURNS, 6);
  check_that_none_runs(3 + 5 + 5 + 6);
  check_reuse();
  check_end_at_gate();
  printf("ok\n");
  return 0;
}
