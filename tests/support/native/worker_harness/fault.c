/* Native kernels that fault: the page's contents, the process's end, the delay until the client
   knows. */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"
#include "base/platform.h"

enum { BAD_BLOCK = 37, BLOCKS = 64, TRAP_WORD = 12, RESOLVED_LINE = 99 };

static client c;
static int client_socket, worker_socket;
static bool resolve;

static void store_outside(const tessera_launch_context *launch, const uint8_t *parameters,
                          uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)parameters;
  for (uint64_t block = first; block < end; block++) {
    thread->current_block = block;
    if (block == BAD_BLOCK)
      *(volatile uint64_t *)(uintptr_t)(launch->aperture_base + launch->aperture_limit) = 1;
  }
}

static void trap(const tessera_launch_context *launch, const uint8_t *parameters, uint64_t first,
                 uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters;
  if (first > BAD_BLOCK || BAD_BLOCK >= end) return;
  thread->current_block = BAD_BLOCK;
  thread->status = CUDA_ERROR_LAUNCH_FAILED;
  thread->trap_word = TRAP_WORD;
}

static void illegal_instruction(const tessera_launch_context *launch, const uint8_t *parameters,
                                uint64_t first, uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)parameters, (void)first, (void)end, (void)thread;
  __builtin_trap();
}

static tessera_kernel_entry kernels[] = {store_outside, trap, illegal_instruction};
static uint64_t handles[3];
/* Interpreted kernels: the interpreter of the first one fails itself; the memory of the second
   one was freed meanwhile. */
static uint64_t broken, vanished;

static tessera_kernel_entry choose(uint64_t handle) {
  for (int i = 0; i < 3; i++)
    if (handles[i] == handle) return kernels[i];
  return NULL;
}

static void answer(tessera_worker_call *call) {
  const uint64_t wrong = call->kernel == broken     ? 64
                         : call->kernel == vanished ? tw.aperture_base + TESSERA_DEVICE_OFFSET
                                                    : 0;
  if (wrong) (void)*(volatile uint8_t *)(uintptr_t)wrong;
  call->entry = (uint64_t)(uintptr_t)choose(call->kernel);
  call->fault_kind = TESSERA_FAULT_KIND_NONE;
}

/* The owner thread, as in vgpu_sim.worker.control: waits for a fault and reports its origin. */
static void own(int fault_event) {
  uint64_t count;
  CHECK(read(fault_event, &count, sizeof count) == sizeof count);
  if (resolve && tessera_worker_fault()->pc != 0)
    tessera_worker_resolve_fault(
        tessera_worker_get_fault_origin()->word ? TRAP_WORD + 1 : RESOLVED_LINE,
        tessera_worker_fault()->address, "resolved", &(tessera_fault_detail){.thread_known = 1});
  tessera_worker_fault_reported();
  for (;;) pause();
}

static pid_t start(void) {
  int sockets[2];
  client_open(&c);
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
  client_socket = sockets[0];
  worker_socket = sockets[1];
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid != 0) {
    close(worker_socket);
    return pid;
  }
  alarm(20);
  close(client_socket);
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  CHECK(tessera_worker_reserve(BASES[0]) == 0);
  int event = eventfd(0, 0);
  tessera_worker_config config = {.aperture_base = BASES[0],
                                  .threads = 2,
                                  .max_threads_per_block = 1024,
                                  .client_socket = worker_socket,
                                  .fault_event = event,
                                  .callback = answer};
  CHECK(tessera_worker_start(&config) == 0);
  own(event);
  return 0;
}

/* Launches and waits for the end; returns the ns from the enqueue until the client knew. */
static uint64_t provoke(uint64_t kernel, uint32_t expected_error, uint32_t expected_kind) {
  uint8_t nothing = 0;
  pid_t pid = start();
  usleep(20000);
  uint64_t begin = tw_now_ns();
  client_launch(&c, 0, client_slot(&c, 0, TESSERA_OPCODE_LAUNCH), kernel, BLOCKS, &nothing, 0);
  CHECK(client_wait(&c, 0, 1) == expected_error);
  uint64_t known = tw_now_ns() - begin;
  CHECK(c.page->fault.kind == expected_kind && c.page->fault.kernel == kernel);
  CHECK(c.page->timeline[0] == 0);
  struct pollfd hangup = {.fd = client_socket, .events = POLLIN};
  CHECK(poll(&hangup, 1, 1000) == 1 && (hangup.revents & POLLHUP));
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == TESSERA_WORKER_EXIT_STATUS);
  close(client_socket);
  return known;
}

static uint64_t add_interpreted(const char *name) {
  tessera_worker_kernel kernel = {.interpreted = 1};
  strncpy(kernel.name, name, sizeof kernel.name - 1);
  const uint64_t handle = tessera_worker_add_kernel(&kernel);
  CHECK(handle != 0);
  return handle;
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

int main(void) {
  static const char *const NAMES[] = {"store_outside", "trap", "illegal_instruction"};
  client_open(&c);
  for (int i = 0; i < 3; i++) handles[i] = kernel_add(NAMES[i], 0);
  broken = add_interpreted("broken");
  vanished = add_interpreted("vanished");
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  uint64_t times[15];
  resolve = true;
  client_dying = DYING_MAY_WAIT; /* the owner answers every request */
  for (int i = 0; i < 15; i++) {
    times[i] = provoke(handles[0], CUDA_ERROR_ILLEGAL_ADDRESS, TESSERA_FAULT_KIND_ADDRESS);
    const tessera_fault_record *fault = &c.page->fault;
    CHECK(fault->address == BASES[0] + TESSERA_APERTURE_BYTES && fault->block == BAD_BLOCK);
    CHECK(fault->pc >= (uint64_t)(uintptr_t)store_outside);
    CHECK(fault->ptx_line == RESOLVED_LINE && strcmp(fault->message, "resolved") == 0);
    CHECK(strcmp(fault->kernel_name, "store_outside") == 0);
  }
  resolve = false; /* an owner without an answer delays the end by at most half a second */
  client_dying = DYING_MAY_TIME_OUT;
  CHECK(provoke(handles[0], CUDA_ERROR_ILLEGAL_ADDRESS, TESSERA_FAULT_KIND_ADDRESS) >= 20000000);
  CHECK(strcmp(c.page->fault.message, "illegal address") == 0);
  resolve = true;
  client_dying = DYING_MAY_WAIT;
  provoke(handles[1], CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP);
  CHECK(c.page->fault.ptx_line == TRAP_WORD + 1 && c.page->fault.block == BAD_BLOCK);
  provoke(handles[2], CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_TRAP);
  CHECK(c.page->fault.pc != 0);
  client_dying = DYING_MAY_NOT_WAIT; /* the owner's lock may be held by the thread that faults */
  provoke(broken, CUDA_ERROR_LAUNCH_FAILED, TESSERA_FAULT_KIND_INTERNAL);
  CHECK(c.page->fault.address == 64);
  CHECK(strcmp(c.page->fault.message, "the worker itself failed") == 0);
  provoke(vanished, CUDA_ERROR_ILLEGAL_ADDRESS, TESSERA_FAULT_KIND_ADDRESS);
  CHECK(c.page->fault.address == BASES[0] + TESSERA_DEVICE_OFFSET && c.page->fault.pc == 0);
  qsort(times, 15, sizeof times[0], ascending);
  printf("ok: the client knows after %.0f us (median of 15), at most %.0f us\n",
         (double)times[7] / 1e3, (double)times[14] / 1e3);
  return 0;
}
