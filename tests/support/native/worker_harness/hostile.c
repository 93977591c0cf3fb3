/* Requests that no client library writes. Each is sent to a separate worker process, which must
 * end its context with a protocol error, or (random ones) end or keep serving, never hang or
 * crash. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"

enum { CHUNK = 2 << 20, PARAMETER_BYTES = 200, RANDOM_CASES = 300 };

typedef void (*damage)(tessera_slot *slot);

static client c;
static uint64_t kernel, removed_kernel, strict_kernel;
static uint64_t device;

static void run_nothing(const tessera_launch_context *launch, const uint8_t *parameters,
                        uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)first, (void)end, (void)thread;
}

static tessera_kernel_entry choose(uint64_t handle) {
  (void)handle;
  return run_nothing;
}

/* The valid request that each test damages. */
static tessera_slot good_launch(void) {
  tessera_slot slot = {.opcode = TESSERA_OPCODE_LAUNCH, .value = 1, .continuation_slots = 1};
  slot.body.launch = (tessera_launch_body){.kernel = kernel,
                                           .grid = {1, 1, 1},
                                           .block = {32, 1, 1},
                                           .parameter_bytes = PARAMETER_BYTES};
  return slot;
}

#define CASE(name, statement) \
  static void name(tessera_slot *s) { statement; }
#define LAUNCH s->body.launch
CASE(opcode_zero, s->opcode = 0)
CASE(opcode_unknown, s->opcode = 99)
CASE(value_repeated, s->value = 0)
CASE(value_skipped, s->value = 2)
CASE(five_waits, s->wait_count = 5)
CASE(wait_for_no_stream, (s->wait_count = 1, s->waits[0].stream = TESSERA_MAX_STREAMS))
CASE(wait_for_itself, (s->wait_count = 1, s->waits[0].value = 1))
CASE(no_kernel, LAUNCH.kernel = 0)
CASE(wild_kernel, LAUNCH.kernel = ~UINT64_C(0))
CASE(next_kernel, LAUNCH.kernel = kernel + 7)
CASE(dead_kernel, LAUNCH.kernel = removed_kernel)
CASE(short_parameters, LAUNCH.parameter_bytes--)
CASE(long_parameters, LAUNCH.parameter_bytes = UINT32_MAX)
CASE(no_continuation, s->continuation_slots = 0)
CASE(many_continuations, s->continuation_slots = UINT8_MAX)
CASE(empty_grid, LAUNCH.grid[1] = 0)
CASE(deep_grid, LAUNCH.grid[2] = 65536)
CASE(wide_grid, LAUNCH.grid[0] = UINT32_MAX)
CASE(empty_block, LAUNCH.block[0] = 0)
CASE(deep_block, LAUNCH.block[2] = 65)
CASE(wide_block, LAUNCH.block[0] = 1025)
CASE(full_block, (LAUNCH.block[0] = 1024, LAUNCH.block[1] = 2))
CASE(wrapping_block, (LAUNCH.block[0] = 0x80000000, LAUNCH.block[1] = 2))
CASE(other_block, LAUNCH.kernel = strict_kernel)
CASE(much_shared, LAUNCH.shared_bytes = UINT32_MAX)

static void as_copy(tessera_slot *s, uint64_t destination, uint64_t source, uint64_t bytes) {
  s->opcode = TESSERA_OPCODE_COPY;
  s->continuation_slots = 0;
  s->body.copy = (tessera_copy_body){destination, source, bytes};
}
CASE(copy_from_null, as_copy(s, device, 0, 16))
CASE(copy_to_code, as_copy(s, (uint64_t)(uintptr_t)run_nothing, device, 16))
CASE(copy_beyond, as_copy(s, device, device + CHUNK - 15, 16))
CASE(copy_wrapping, as_copy(s, device, device, ~UINT64_C(0)))
CASE(copy_with_continuation, (as_copy(s, device, device, 1), s->continuation_slots = 1))

static void as_set(tessera_slot *s, uint64_t destination, uint64_t count, uint32_t width) {
  s->opcode = TESSERA_OPCODE_SET;
  s->continuation_slots = 0;
  s->body.set = (tessera_set_body){destination, count, 1, width};
}
CASE(set_width_zero, as_set(s, device, 1, 0))
CASE(set_width_three, as_set(s, device, 1, 3))
CASE(set_unaligned, as_set(s, device + 2, 1, 4))
CASE(set_wrapping, as_set(s, device, UINT64_C(1) << 62, 4))
CASE(set_beyond, as_set(s, device, CHUNK / 4 + 1, 4))
CASE(timestamp_beyond, (s->opcode = TESSERA_OPCODE_TIMESTAMP, s->continuation_slots = 0,
                        s->body.timestamp.index = TESSERA_MAX_TIMESTAMPS))

static const struct {
  const char *name;
  damage apply;
} CASES[] = {
#define ENTRY(name) {#name, name}
    ENTRY(opcode_zero), ENTRY(opcode_unknown), ENTRY(value_repeated), ENTRY(value_skipped),
    ENTRY(five_waits), ENTRY(wait_for_no_stream), ENTRY(wait_for_itself), ENTRY(no_kernel),
    ENTRY(wild_kernel), ENTRY(next_kernel), ENTRY(dead_kernel), ENTRY(short_parameters),
    ENTRY(long_parameters), ENTRY(no_continuation), ENTRY(many_continuations), ENTRY(empty_grid),
    ENTRY(deep_grid), ENTRY(wide_grid), ENTRY(empty_block), ENTRY(deep_block), ENTRY(wide_block),
    ENTRY(full_block), ENTRY(wrapping_block), ENTRY(other_block), ENTRY(much_shared),
    ENTRY(copy_from_null), ENTRY(copy_to_code), ENTRY(copy_beyond), ENTRY(copy_wrapping),
    ENTRY(copy_with_continuation), ENTRY(set_width_zero), ENTRY(set_width_three),
    ENTRY(set_unaligned), ENTRY(set_wrapping), ENTRY(set_beyond), ENTRY(timestamp_beyond),
};

/* Starts a worker process; returns its pid. The parent is the client. */
static pid_t start(void) {
  client_open(&c);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid != 0) return pid;
  alarm(20);
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  CHECK(tessera_worker_reserve(BASES[0]) == 0);
  int fd = memfd_create("chunk", 0);
  CHECK(ftruncate(fd, CHUNK) == 0);
  CHECK(tessera_worker_map_chunk(TESSERA_DEVICE_OFFSET, CHUNK, fd) == 0);
  worker_start(2, choose);
  for (;;) pause();
}

static int end_status(pid_t pid) {
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

static void put_launch(tessera_slot slot) {
  uint8_t more[TESSERA_SLOT_BYTES] = {0};
  client_put(&c, 0, &slot);
  client_put(&c, 0, more);
}

static void expect_protocol_fault(const char *name, pid_t pid) {
  uint32_t error = client_wait(&c, 0, 2);
  int status = end_status(pid);
  if (error == CUDA_ERROR_LAUNCH_FAILED && c.page->fault.kind == TESSERA_FAULT_KIND_PROTOCOL &&
      c.page->fault.message[0] != 0 && WIFEXITED(status) &&
      WEXITSTATUS(status) == TESSERA_WORKER_EXIT_STATUS && c.page->timeline[0] == 0)
    return;
  fprintf(stderr, "%s: error %u, kind %u, status %x\n", name, error, c.page->fault.kind, status);
  exit(1);
}

static void good_request_runs(void) {
  pid_t pid = start();
  put_launch(good_launch());
  CHECK(client_wait(&c, 0, 1) == 0);
  CHECK(kill(pid, SIGKILL) == 0);
  end_status(pid);
}

static void far_head(void) {
  pid_t pid = start();
  __atomic_store_n(&c.area->head[0], 1000, __ATOMIC_SEQ_CST);
  tessera_slot slot = {.opcode = TESSERA_OPCODE_NOP, .value = 1};
  client_put(&c, 1, &slot); /* rings the bell */
  expect_protocol_fault("far_head", pid);
}

static void random_requests(uint32_t seed) {
  pid_t pid = start();
  uint32_t random = seed * 2654435761u + 1;
  for (int i = 0; i < 8; i++) {
    uint8_t slot[TESSERA_SLOT_BYTES];
    for (uint32_t k = 0; k < sizeof slot; k++) {
      random = random * 1664525 + 1013904223;
      slot[k] = (uint8_t)(random >> 24);
    }
    tessera_slot *header = (tessera_slot *)slot;
    /* Mostly valid headers, so that the worker examines the bodies. */
    if (seed % 2 == 0) {
      header->opcode = (uint16_t)(1 + random % 5);
      header->wait_count = (uint8_t)(seed % 3);
      header->value = (uint64_t)i + 1;
      header->continuation_slots = (uint8_t)(seed % 5 == 0);
    }
    client_put(&c, seed % TESSERA_MAX_STREAMS, slot);
  }
  usleep(500);
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) == 0) {
    kill(pid, SIGKILL);
    end_status(pid);
    return;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != TESSERA_WORKER_EXIT_STATUS) {
    fprintf(stderr, "seed %u: status %x\n", seed, status);
    exit(1);
  }
}

int main(void) {
  client_dying = DYING_MAY_NOT_WAIT; /* the worker has no owner that could answer */
  client_open(&c);
  kernel = kernel_add("kernel", PARAMETER_BYTES);
  removed_kernel = kernel_add("removed", PARAMETER_BYTES);
  CHECK(tessera_worker_remove_kernel(removed_kernel) == 0);
  tessera_worker_kernel strict = {
      .parameter_bytes = PARAMETER_BYTES, .required_block = {64, 1, 1}, .name = "strict"};
  strict_kernel = tessera_worker_add_kernel(&strict);
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  device = BASES[0] + TESSERA_DEVICE_OFFSET;
  good_request_runs();
  for (unsigned i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    pid_t pid = start();
    tessera_slot slot = good_launch();
    CASES[i].apply(&slot);
    put_launch(slot);
    expect_protocol_fault(CASES[i].name, pid);
  }
  far_head();
  for (uint32_t seed = 0; seed < RANDOM_CASES; seed++) random_requests(seed);
  printf("ok\n");
  return 0;
}
