/* Better code that arrives while a launch runs. A block of that launch itself installs it, so
 * that the division of blocks between old and new code does not depend on time. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"
#include "base/platform.h"

enum { BLOCKS = 20000, SWAP_AT = 777, NARROW = 1, BETTER = 2, GROUPS = 4, THREADS = 3 };

static client c;
static uint64_t kernel;
static uint32_t requests;           /* atomic: number of requests to the owner */
static uint8_t ran_in[BLOCKS];   /* which code each block ran in */
static uint32_t visits[BLOCKS];  /* atomic: groups that ran each block */
static uint32_t groups_per_kind[3];
static tessera_worker_call narrow, better; /* the owner's answer, and the later replacement */
static bool hands_over;
static int improved = -1; /* atomic: launches that changed code; -1: none handed over */

static void hand_over(uint64_t block) {
  if (!hands_over) return;
  /* Blocks begin in order, so the thread that runs block SWAP_AT does not wait here. */
  while (block > SWAP_AT + 100 && __atomic_load_n(&improved, __ATOMIC_SEQ_CST) < 0) usleep(50);
  if (block != SWAP_AT) return;
  better.kernel = kernel;
  better.block[0] = 32;
  better.block[1] = better.block[2] = 1;
  __atomic_store_n(&improved, tessera_worker_replace_code(&better), __ATOMIC_SEQ_CST);
}

static void visit(uint64_t block, uint8_t kind) {
  ran_in[block] |= kind;
  __atomic_add_fetch(&visits[block], 1, __ATOMIC_RELAXED);
}

static void run(uint64_t first, uint64_t end, uint8_t kind) {
  for (uint64_t block = first; block < end; block++) {
    visit(block, kind);
    if (kind == NARROW) hand_over(block);
  }
}

static void run_narrow(const tessera_launch_context *launch, const uint8_t *parameters,
                       uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)thread;
  run(first, end, NARROW);
}

static void run_better(const tessera_launch_context *launch, const uint8_t *parameters,
                       uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)thread;
  run(first, end, BETTER);
}

static void stop(tessera_thread_state *state) {
  ((void (*)(tessera_thread_state *, uint64_t))(uintptr_t)state->stop)(state, 0);
}

static void wait_narrow(const tessera_launch_context *launch, const uint8_t *parameters,
                        uint64_t group, tessera_thread_state *state) {
  (void)launch, (void)parameters;
  __atomic_fetch_or(&ran_in[state->current_block], NARROW, __ATOMIC_RELAXED);
  __atomic_add_fetch(&visits[state->current_block], 1, __ATOMIC_RELAXED);
  if (group == 0) hand_over(state->current_block);
  stop(state); /* the block continues in the code in which it began */
}

static void wait_better(const tessera_launch_context *launch, const uint8_t *parameters,
                        uint64_t group, tessera_thread_state *state) {
  (void)launch, (void)parameters, (void)group;
  __atomic_fetch_or(&ran_in[state->current_block], BETTER, __ATOMIC_RELAXED);
  __atomic_add_fetch(&visits[state->current_block], 1, __ATOMIC_RELAXED);
  stop(state);
}

static void answer(tessera_worker_call *call) {
  __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
  call->entry = narrow.entry;
  call->groups = narrow.groups;
  call->stack_bytes = narrow.stack_bytes;
  call->polls = narrow.polls;
  call->provisional = 1;
  call->fault_kind = TESSERA_FAULT_KIND_NONE;
}

static tessera_worker_call code(const void *entry, uint32_t groups, uint32_t polls) {
  return (tessera_worker_call){.entry = (uint64_t)(uintptr_t)entry,
                               .groups = groups,
                               .stack_bytes = 1 << 16,
                               .polls = polls};
}

static void launch(void) {
  memset(ran_in, 0, sizeof ran_in);
  memset(visits, 0, sizeof visits);
  const uint32_t number = 0;
  client_launch(&c, 0, client_slot(&c, 0, TESSERA_OPCODE_LAUNCH), kernel, BLOCKS, &number,
                sizeof number);
  CHECK(client_wait(&c, 0, c.values[0]) == 0);
  memset(groups_per_kind, 0, sizeof groups_per_kind);
  for (uint32_t block = 0; block < BLOCKS; block++) {
    CHECK(ran_in[block] == NARROW || ran_in[block] == BETTER); /* one code only */
    const uint32_t groups = ran_in[block] == NARROW ? narrow.groups : better.groups;
    CHECK(visits[block] == (groups != 0 ? groups : 1));
    groups_per_kind[ran_in[block]]++;
  }
}

static void add_kernel(void) {
  kernel = kernel_add("swapped", sizeof(uint32_t));
  requests = 0;
  improved = -1;
  hands_over = true;
}

static void check(tessera_worker_call first, tessera_worker_call later) {
  narrow = first;
  better = later;
  add_kernel();
  launch();
  CHECK(improved == 1 && requests == 1 && ran_in[SWAP_AT] == NARROW);
  CHECK(groups_per_kind[NARROW] != 0 && groups_per_kind[BETTER] > BLOCKS / 2);
  for (uint32_t block = BLOCKS - 64; block < BLOCKS; block++) CHECK(ran_in[block] == BETTER);
  launch();
  CHECK(requests == 1 && groups_per_kind[BETTER] == BLOCKS);
}

/* Code that is never replaced, and code for a removed or unrequested kernel. */
static void check_without(void) {
  narrow = code(run_narrow, 0, 0);
  better = code(run_better, 0, 0);
  add_kernel();
  hands_over = false;
  launch();
  launch();
  CHECK(requests == 1 && groups_per_kind[NARROW] == BLOCKS);
  better.kernel = kernel;
  better.block[0] = 64;
  better.block[1] = better.block[2] = 1;
  CHECK(tessera_worker_replace_code(&better) == 0);
  launch();
  CHECK(requests == 1 && groups_per_kind[NARROW] == BLOCKS);
  better.block[0] = 32;
  CHECK(tessera_worker_replace_code(&better) == 0);
  launch();
  CHECK(requests == 1 && groups_per_kind[BETTER] == BLOCKS);
  CHECK(tessera_worker_remove_kernel(kernel) == 0);
  CHECK(tessera_worker_replace_code(&better) == 0);
  better.kernel = 0;
  CHECK(tessera_worker_replace_code(&better) == 0);
}

/* The better code is ready before the owner's answer: no block runs in the narrow code. */
static void answer_late(tessera_worker_call *call) {
  hands_over = true;
  hand_over(SWAP_AT);
  hands_over = false;
  answer(call);
}

static void (*answering)(tessera_worker_call *) = answer;
static void answer_by_mode(tessera_worker_call *call) { answering(call); }

static void check_early(void) {
  narrow = code(run_narrow, 0, 0);
  better = code(run_better, 0, 0);
  add_kernel();
  hands_over = false;
  answering = answer_late;
  launch();
  answering = answer;
  CHECK(requests == 1 && improved == 0 && groups_per_kind[BETTER] == BLOCKS);
}

int main(int count, char **arguments) {
  (void)arguments;
  client_open(&c);
  /* One mapping for both sides: the thread sanitizer distinguishes memory by address. */
  tw.client = c.area;
  c.page = tw.page;
  tw.aperture_base = TESSERA_GUARD_BEFORE_BYTES;
  tessera_worker_config config = {.aperture_base = tw.aperture_base,
                                  .threads = count > 1 ? 1 : THREADS,
                                  .max_threads_per_block = 1024,
                                  .multiprocessors = 1,
                                  .client_socket = -1,
                                  .fault_event = -1,
                                  .callback = answer_by_mode};
  CHECK(tessera_worker_start(&config) == 0);
  check(code(run_narrow, 0, 0), code(run_better, 0, 0));
  check(code(wait_narrow, GROUPS, 0), code(wait_better, 2, 0));
  check(code(wait_narrow, GROUPS, 0), code(run_better, 0, 0));
  check(code(run_narrow, 0, 0), code(wait_better, GROUPS, 0));
  check(code(wait_narrow, 2, 1), code(wait_better, GROUPS, 1));
  check_without();
  check_early();
  tessera_worker_stop();
  printf("ok\n");
  return 0;
}
