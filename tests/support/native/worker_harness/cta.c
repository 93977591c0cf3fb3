/* Blocks whose groups wait for each other: scheduling, exits, shared memory, and faults. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"

enum { STEPS = 5, MAX_GROUPS = 64, BAD_BLOCK = 23, TRAP_WORD = 9 };
enum { GRID_X = 3, GRID_Y = 5, GRID_Z = 40 /* runs of three blocks */, BLOCKS = GRID_X * GRID_Y * GRID_Z };
static const uint32_t SHARED_BYTES = 3 * 4096 + 8;
#if defined(__SANITIZE_THREAD__)
enum { WAITING_Z = 3 }; /* the sanitizer needs a microsecond for a switch */
#else
enum { WAITING_Z = GRID_Z };
#endif

typedef struct outcome {
  uint32_t sums[BLOCKS];
  uint32_t visits[BLOCKS];
  uint32_t wrong;
  uint32_t met;
} outcome;

static outcome *seen; /* shared with the worker's process */
static uint32_t groups_of_launch, blocks_of_launch;

static void stop(tessera_thread_state *state) {
  ((void (*)(tessera_thread_state *, uint64_t))(uintptr_t)state->stop)(state, 0);
}

static void note_wrong(bool wrong) {
  if (wrong) __atomic_add_fetch(&seen->wrong, 1, __ATOMIC_RELAXED);
}

static void check_block(const tessera_launch_context *launch, const tessera_thread_state *state) {
  const uint32_t *at = state->block_index;
  note_wrong(at[0] >= launch->grid[0] || at[1] >= launch->grid[1] || at[2] >= launch->grid[2]);
  note_wrong(state->current_block !=
             at[0] + launch->grid[0] * ((uint64_t)at[1] + (uint64_t)launch->grid[1] * at[2]));
}

/* Each group adds up what all groups wrote in the previous step: correct only if no group is
   early. */
static void sum(const tessera_launch_context *launch, const uint8_t *parameters, uint64_t group,
                tessera_thread_state *state) {
  (void)parameters;
  const uint32_t groups = groups_of_launch;
  volatile uint32_t *shared = (volatile uint32_t *)(uintptr_t)state->shared_base;
  check_block(launch, state);
  note_wrong(shared[MAX_GROUPS + group] != 0); /* left from the previous block */
  shared[MAX_GROUPS + group] = 1;
  volatile uint32_t kept[8];
  for (uint32_t i = 0; i < 8; i++) kept[i] = (uint32_t)group + i;
  uint32_t value = (uint32_t)group + 1;
  for (uint32_t step = 0; step < STEPS; step++) {
    shared[group] = value;
    stop(state);
    uint32_t total = 0;
    for (uint32_t i = 0; i < groups; i++) total += shared[i];
    stop(state);
    value = total + (uint32_t)group;
  }
  for (uint32_t i = 0; i < 8; i++) note_wrong(kept[i] != (uint32_t)group + i);
  __atomic_add_fetch(&seen->sums[state->current_block], value, __ATOMIC_RELAXED);
  __atomic_add_fetch(&seen->visits[state->current_block], 1, __ATOMIC_RELAXED);
}

static uint32_t expected_sum(uint32_t groups) {
  uint32_t values[MAX_GROUPS], total = 0;
  for (uint32_t i = 0; i < groups; i++) values[i] = i + 1;
  for (uint32_t step = 0; step < STEPS; step++) {
    total = 0;
    for (uint32_t i = 0; i < groups; i++) total += values[i];
    for (uint32_t i = 0; i < groups; i++) values[i] = total + i;
  }
  total = 0;
  for (uint32_t i = 0; i < groups; i++) total += values[i];
  return total;
}

/* Groups end after 0, 1, 2... wait points. The remaining ones still observe each other's steps,
 * and no group enters the next block before the last one has left. */
static void end_early(const tessera_launch_context *launch, const uint8_t *parameters,
                      uint64_t group, tessera_thread_state *state) {
  (void)parameters;
  volatile uint32_t *shared = (volatile uint32_t *)(uintptr_t)state->shared_base;
  check_block(launch, state);
  if (shared[MAX_GROUPS] == 0) shared[MAX_GROUPS] = (uint32_t)state->current_block + 1;
  note_wrong(shared[MAX_GROUPS] != state->current_block + 1);
  for (uint32_t step = 0; step < group; step++) {
    shared[group] = step + 1;
    stop(state);
    for (uint64_t other = group; other < groups_of_launch; other++)
      note_wrong(shared[other] != step + 1);
    stop(state);
  }
  note_wrong(shared[MAX_GROUPS] != state->current_block + 1);
  __atomic_add_fetch(&seen->visits[state->current_block], 1, __ATOMIC_RELAXED);
}

static uint32_t reduce(tessera_thread_state *state, uint32_t barrier, uint32_t count, uint32_t how,
                       uint32_t ballot) {
  return ((uint32_t (*)(tessera_thread_state *, uint32_t, uint32_t, uint32_t, uint32_t))(
      uintptr_t)state->meet)(state, barrier, count, how, ballot);
}

static void meet(tessera_thread_state *state, uint32_t barrier, uint32_t count, bool waits) {
  (void)reduce(state, barrier, count, waits, 0);
}

static uint64_t collect(tessera_thread_state *state, uint32_t kind, uint32_t members, uint64_t a,
                        uint64_t way) {
  return ((uint64_t (*)(tessera_thread_state *, uint32_t, uint32_t, uint64_t, uint64_t))(
      uintptr_t)state->collect)(state, kind, members, a, way);
}

/* Each lane is a separate fiber: halves of a warp vote, quarters shuffle, the first lane ends
   early. */
static void learn(const tessera_launch_context *launch, const uint8_t *parameters, uint64_t group,
                  tessera_thread_state *state) {
  (void)parameters;
  const uint32_t lane = (uint32_t)group % 32, half = lane < 16 ? 0xffff : 0xffff0000;
  check_block(launch, state);
  note_wrong(collect(state, 0x13, half, lane & 1, 0) != (0xaaaaaaaa & half));
  __atomic_add_fetch(&seen->visits[state->current_block], 1, __ATOMIC_RELAXED);
  if (lane == 0) return;
  for (uint32_t step = 0; step < STEPS; step++) {
    const uint32_t next = lane % 8 == 7 ? lane : lane + 1;
    const uint64_t got = collect(state, 0x01, UINT32_MAX, lane + step, 1 | UINT64_C(0x181f) << 32);
    note_wrong(got != ((uint64_t)(next != lane) << 32 | (next + step)));
    note_wrong(collect(state, 0x30, UINT32_MAX, lane, 0) != 31 * 16);
    note_wrong(reduce(state, 2, 64, 1 | 1 << 1, 1 | (lane & 1) << 16) != 32);
  }
}

/* Blocks of two warps: the first warp's groups only arrive at barriers 1 and 2 in turn, at which
 * the second warp's groups wait; the last group ends before the last barrier. */
static void hand_over(const tessera_launch_context *launch, const uint8_t *parameters,
                      uint64_t group, tessera_thread_state *state) {
  (void)parameters;
  volatile uint32_t *shared = (volatile uint32_t *)(uintptr_t)state->shared_base;
  const uint32_t half = groups_of_launch / 2;
  check_block(launch, state);
  for (uint32_t step = 0; step < STEPS; step++) {
    if (group < half) shared[group] = 10 * step + (uint32_t)group;
    meet(state, 1 + step % 2, 64, group >= half);
    for (uint32_t i = 0; group >= half && i < half; i++) note_wrong(shared[i] != 10 * step + i);
    meet(state, 0, step % 2 ? 64 : 0, true);
  }
  if (group + 1 != groups_of_launch) meet(state, 15, 0, true);
  __atomic_add_fetch(&seen->visits[state->current_block], 1, __ATOMIC_RELAXED);
}

/* Counts an iteration of a polling loop, as generated code does, and suspends after the last
   one. */
static void turn(tessera_thread_state *state) {
  if (--state->turns == 0) stop(state);
}

static uint32_t look(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static void tell(uint32_t *word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

/* Every block waits for the next block, and within a block every group for the next group. */
static void wait_backward(const tessera_launch_context *launch, const uint8_t *parameters,
                          uint64_t group, tessera_thread_state *state) {
  (void)parameters;
  const uint64_t block = state->current_block;
  check_block(launch, state);
  if (group + 1 == groups_of_launch && block + 1 != blocks_of_launch)
    while (look(&seen->sums[block + 1]) == 0) turn(state);
  while (look(&seen->visits[block]) != groups_of_launch - 1 - group) turn(state);
  tell(&seen->visits[block], groups_of_launch - (uint32_t)group);
  if (group == 0) tell(&seen->sums[block], 1);
}

/* In a fully resident grid, blocks synchronise with each other at each step. */
static void meet_in_grid(const tessera_launch_context *launch, const uint8_t *parameters,
                         uint64_t group, tessera_thread_state *state) {
  (void)parameters;
  volatile uint32_t *shared = (volatile uint32_t *)(uintptr_t)state->shared_base;
  check_block(launch, state);
  for (uint32_t step = 1; step <= STEPS; step++) {
    shared[group] = step;
    meet(state, 0, 0, true);
    for (uint32_t i = 0; i < groups_of_launch; i++) note_wrong(shared[i] != step);
    if (group == 0) {
      __atomic_add_fetch(&seen->met, 1, __ATOMIC_ACQ_REL);
      while (look(&seen->met) < step * blocks_of_launch) turn(state);
    }
    meet(state, 1, 0, true);
  }
  __atomic_add_fetch(&seen->visits[state->current_block], 1, __ATOMIC_RELAXED);
}

/* A kernel whose threads do not wait also has shared memory, which it clears itself. */
static void count_alone(const tessera_launch_context *launch, const uint8_t *parameters,
                        uint64_t first, uint64_t end, tessera_thread_state *state) {
  (void)launch, (void)parameters;
  volatile uint32_t *last =
      (volatile uint32_t *)(uintptr_t)(state->shared_base + SHARED_BYTES - sizeof *last);
  for (uint64_t block = first; block < end; block++) {
    state->current_block = block;
    *last = (uint32_t)block;
    note_wrong(*last != block);
    seen->visits[block]++;
  }
}

static void misbehave(const tessera_launch_context *launch, uint64_t group,
                      tessera_thread_state *state, void (*how)(tessera_thread_state *state)) {
  (void)launch;
  stop(state);
  if (state->current_block == BAD_BLOCK && group == 2) how(state);
  stop(state);
}

#define BAD(name, body)                                                                        \
  static void do_##name(tessera_thread_state *state) {                                         \
    (void)state;                                                                               \
    body;                                                                                      \
  }                                                                                            \
  static void name(const tessera_launch_context *launch, const uint8_t *parameters,            \
                   uint64_t group, tessera_thread_state *state) {                              \
    (void)parameters;                                                                          \
    misbehave(launch, group, state, do_##name);                                                \
  }
static uint32_t descend(uint32_t depth) {
  volatile uint8_t here[512];
  here[0] = (uint8_t)depth;
  return depth == 0 ? 0 : here[0] + descend(depth - 1) + here[0];
}
static void touch(uint64_t address) { *(volatile uint32_t *)(uintptr_t)address = 1; }
BAD(trap, (state->status = CUDA_ERROR_LAUNCH_FAILED, state->trap_word = TRAP_WORD))
BAD(overflow, descend(1000))
BAD(behind, touch(state->shared_base + 4 * 4096))
BAD(before, touch(state->shared_base - 4))
BAD(far, touch(state->shared_base - TESSERA_SHARED_REACH_BYTES))
BAD(farther, touch(state->shared_base + TESSERA_SHARED_REACH_BYTES - 4))
BAD(misaligned, touch(state->shared_base + TESSERA_SHARED_MISALIGNED_OFFSET_BYTES + 2))
BAD(global, touch(tw.aperture_base))
BAD(counts_wrongly, meet(state, 3, 33, true))
BAD(names_none, meet(state, 17, 0, true))
BAD(waits_alone, meet(state, 3, 64, true))
BAD(is_no_member, (void)collect(state, 0x60, 1, 0, 0))

typedef struct kernel {
  void *entry;
  uint32_t groups, stack_bytes, error, kind;
  int64_t shared_offset; /* of the fault; 0: the fault has no shared address */
  bool counts, polls;
} kernel;

enum { ADDRESS = TESSERA_FAULT_KIND_ADDRESS };
static const kernel BAD_KERNELS[] = {
    {trap, 8, 16384, CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP, 0, false, false},
    {overflow, 8, 16384, CUDA_ERROR_HARDWARE_STACK_ERROR, TESSERA_FAULT_KIND_STACK, 0, false, false},
    {behind, 8, 16384, CUDA_ERROR_ILLEGAL_ADDRESS, ADDRESS, 4 * 4096, false, false},
    {before, 8, 16384, CUDA_ERROR_ILLEGAL_ADDRESS, ADDRESS, -4, false, false},
    {far, 8, 16384, CUDA_ERROR_ILLEGAL_ADDRESS, ADDRESS, -(int64_t)TESSERA_SHARED_REACH_BYTES, false, false},
    {farther, 8, 16384, CUDA_ERROR_ILLEGAL_ADDRESS, ADDRESS, TESSERA_SHARED_REACH_BYTES - 4, false, false},
    {misaligned, 8, 16384, CUDA_ERROR_MISALIGNED_ADDRESS, TESSERA_FAULT_KIND_MISALIGNED, 2, false, false},
    {global, 8, 16384, CUDA_ERROR_ILLEGAL_ADDRESS, ADDRESS, 0, false, false},
    {counts_wrongly, 8, 16384, CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP, 0, true, false},
    {names_none, 8, 16384, CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP, 0, true, false},
    {waits_alone, 8, 16384, CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP, 0, true, false},
    {is_no_member, 64, 16384, CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP, 0, true, false},
};
enum { BAD_COUNT = sizeof BAD_KERNELS / sizeof BAD_KERNELS[0] };
static const kernel GOOD_KERNELS[] = {
    {sum, 8, 8192, 0, 0, 0, false, false},   {sum, 64, 16384, 0, 0, 0, false, false},      {sum, 1, 8192, 0, 0, 0, false, false},
    {sum, 64, 65536, 0, 0, 0, false, false}, {end_early, 16, 8192, 0, 0, 0, false, false}, {count_alone, 0, 0, 0, 0, 0, false, false},
    {sum, 5, 8192, 0, 0, 0, false, false},   {hand_over, 8, 8192, 0, 0, 0, true, false},
    {hand_over, 64, 8192, 0, 0, 0, true, false},
    {learn, 64, 16384, 0, 0, 0, true, false},
    {wait_backward, 2, 8192, 0, 0, 0, false, true},
    {wait_backward, 3, 8192, 0, 0, 0, false, true},
    {meet_in_grid, 2, 8192, 0, 0, 0, true, true},
    {sum, 8, 8192, 0, 0, 0, false, false},
};
enum { GOOD_COUNT = sizeof GOOD_KERNELS / sizeof GOOD_KERNELS[0] };

static client c;
static const kernel *running;
static bool system_pretends; /* to support every madvise() advice, as qemu does */

int madvise(void *address, size_t bytes, int advice) {
  if (system_pretends) return 0;
  return (int)syscall(SYS_madvise, address, bytes, advice);
}

static void answer(tessera_worker_call *call) {
  call->entry = (uint64_t)(uintptr_t)running->entry;
  call->groups = running->groups;
  call->stack_bytes = running->stack_bytes;
  call->counts = running->counts ? 64 / running->groups : 0;
  call->polls = running->polls;
  call->fault_kind = TESSERA_FAULT_KIND_NONE;
}

static void start(uint32_t threads) {
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
#if defined(__SANITIZE_THREAD__)
  tw.aperture_base = BASES[0]; /* the sanitizer's own memory is there; kernels do not access it */
#else
  if (tw.aperture_base == 0) CHECK(tessera_worker_reserve(BASES[0]) == 0);
#endif
  tessera_worker_config config = {.aperture_base = tw.aperture_base,
                                  .threads = threads,
                                  .max_threads_per_block = 1024,
                                  .multiprocessors = 132,
                                  .client_socket = -1,
                                  .fault_event = -1,
                                  .callback = answer};
  CHECK(tessera_worker_start(&config) == 0);
}

static uint32_t launch(const kernel *k, uint32_t dynamic_bytes) {
  tessera_worker_kernel registered = {.shared_bytes = SHARED_BYTES - 8, .name = "cta"};
  const uint64_t handle = tessera_worker_add_kernel(&registered);
  CHECK(handle != 0);
  running = k;
  groups_of_launch = k->groups;
  const uint32_t grid_z = k->polls ? WAITING_Z : GRID_Z;
  blocks_of_launch = GRID_X * GRID_Y * grid_z;
  memset(seen, 0, sizeof *seen);
  tessera_slot slot = client_slot(&c, 0, TESSERA_OPCODE_LAUNCH);
  slot.body.launch = (tessera_launch_body){.kernel = handle,
                                           .grid = {GRID_X, GRID_Y, grid_z},
                                           .block = {64, 1, 1},
                                           .shared_bytes = dynamic_bytes};
  client_put(&c, 0, &slot);
  const uint32_t error = client_wait(&c, 0, slot.value);
  CHECK(error != 0 || tessera_worker_remove_kernel(handle) == 0);
  return error;
}

static void run_good(uint32_t threads) {
  client_open(&c);
  /* One mapping for both sides: the thread sanitizer distinguishes memory by address. */
  tw.client = c.area;
  c.page = tw.page;
  start(threads);
  for (int i = 0; i < GOOD_COUNT; i++) {
    const kernel *k = &GOOD_KERNELS[i];
    CHECK(launch(k, 8) == 0);
    CHECK(seen->wrong == 0);
    uint32_t sum_of_block = k->entry == (void *)sum ? expected_sum(k->groups) : 0;
    if (k->entry == (void *)wait_backward) sum_of_block = 1;
    for (uint32_t block = 0; block < blocks_of_launch; block++) {
      CHECK(seen->visits[block] == (k->groups ? k->groups : 1));
      CHECK(seen->sums[block] == sum_of_block);
    }
  }
  tessera_worker_stop();
}

static void run_bad(const kernel *k) {
  client_open(&c);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(60);
    start(2);
    CHECK(launch(&GOOD_KERNELS[0], 8 * 4096) == 0); /* after it no stream has its slot */
    launch(k, 8);
    for (;;) pause();
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == TESSERA_WORKER_EXIT_STATUS);
  const tessera_fault_record *fault = &c.page->fault;
  CHECK(c.page->error == k->error);
  CHECK(fault->kind == k->kind && fault->block == BAD_BLOCK);
  if (k->shared_offset != 0)
    CHECK(fault->address == (uint32_t)k->shared_offset);
  if (k->kind == TESSERA_FAULT_KIND_STACK) CHECK(fault->address == 0);
}

int main(int count, char **arguments) {
  const bool faults = count < 2 || strcmp(arguments[1], "good") != 0;
  seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(seen != MAP_FAILED);
  for (int i = 0; faults && i < 2 * BAD_COUNT; i++) {
    system_pretends = i >= BAD_COUNT;
    run_bad(&BAD_KERNELS[i % BAD_COUNT]);
  }
  system_pretends = false;
  run_good(1);
  run_good(4);
  printf("ok\n");
  return 0;
}
