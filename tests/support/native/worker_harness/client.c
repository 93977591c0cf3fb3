#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/internal.h"

static int area_fd, page_fd;
static tessera_kernel_entry (*choose_entry)(uint64_t kernel);

enum dying client_dying = DYING_MAY_TIME_OUT;
uint32_t client_runners;

/* Whether a dying worker waits for its owner: runners that still run also wait, but only
 * milliseconds. */
static bool for_owner(const struct timespec *limit) {
  enum { LEAST_NS = 100000000 };
  return limit != NULL && (limit->tv_sec > 0 || limit->tv_nsec >= LEAST_NS);
}

/* Replaces libc's function, to detect a dying worker's waits. Only futexes are called by this
   name. */
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (int i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
  va_end(list);
  const bool timed = number == SYS_futex && (arguments[1] & 0x7f) == FUTEX_WAIT &&
                     for_owner((const struct timespec *)arguments[3]);
  if (timed && tw_dead() && client_dying == DYING_MAY_NOT_WAIT) _exit(HARNESS_WAITED);
  register long r10 __asm__("r10") = arguments[3];
  register long r8 __asm__("r8") = arguments[4];
  register long r9 __asm__("r9") = arguments[5];
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10),
                     "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (timed && tw_dead() && client_dying == DYING_MAY_WAIT && result == -ETIMEDOUT)
    _exit(HARNESS_WAITED);
  if (result >= 0) return result;
  errno = (int)-result;
  return -1;
}

void client_open(client *c) {
  memset(c, 0, sizeof *c);
  CHECK(tessera_worker_create_shared(&area_fd, &page_fd) == 0);
  c->area = mmap(NULL, sizeof *c->area, PROT_READ | PROT_WRITE, MAP_SHARED, area_fd, 0);
  c->page = mmap(NULL, sizeof *c->page, PROT_READ, MAP_SHARED, page_fd, 0);
  CHECK(c->area != MAP_FAILED && c->page != MAP_FAILED);
  /* Only the worker may write the page, and the client cannot change the size of the area. */
  CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0) == MAP_FAILED);
  CHECK(ftruncate(area_fd, 4096) != 0 && errno == EPERM);
  c->area->cpu = -1;
  c->area->stream_limit = TESSERA_MAX_STREAMS;
}

tessera_slot client_slot(client *c, uint32_t stream, uint16_t opcode) {
  const uint32_t order = __atomic_fetch_add(&c->order, 1, __ATOMIC_RELAXED);
  return (tessera_slot){.opcode = opcode, .order = order, .value = ++c->values[stream]};
}

void client_wait_on(tessera_slot *slot, uint32_t stream, uint64_t value) {
  slot->waits[slot->wait_count++] = (tessera_wait){.stream = stream, .value = value};
}

static uint32_t error_of(client *c) { return __atomic_load_n(&c->page->error, __ATOMIC_ACQUIRE); }

void client_ring(client *c) {
  __atomic_add_fetch(&c->area->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &c->area->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void client_put(client *c, uint32_t stream, const void *slot) {
  uint64_t head = __atomic_load_n(&c->area->head[stream], __ATOMIC_RELAXED);
  while (head - __atomic_load_n(&c->page->tail[stream], __ATOMIC_ACQUIRE) >=
         TESSERA_SLOTS_PER_STREAM) {
    if (error_of(c)) return;
    usleep(20);
  }
  memcpy(&c->area->rings[stream].slots[head % TESSERA_SLOTS_PER_STREAM], slot, TESSERA_SLOT_BYTES);
  __atomic_store_n(&c->area->head[stream], head + 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&c->page->sleeping, __ATOMIC_SEQ_CST)) client_ring(c);
}

uint64_t client_launch(client *c, uint32_t stream, tessera_slot slot, uint64_t kernel,
                       uint32_t blocks, const void *parameters, uint32_t parameter_bytes) {
  const uint8_t *bytes = parameters;
  uint32_t taken = parameter_bytes < TESSERA_INLINE_PARAMETER_BYTES
                       ? parameter_bytes
                       : (uint32_t)TESSERA_INLINE_PARAMETER_BYTES;
  slot.body.launch = (tessera_launch_body){.kernel = kernel,
                                           .grid = {blocks, 1, 1},
                                           .block = {32, 1, 1},
                                           .parameter_bytes = parameter_bytes};
  memcpy(slot.body.launch.parameters, bytes, taken);
  uint32_t rest = parameter_bytes - taken;
  slot.continuation_slots = (uint8_t)((rest + TESSERA_SLOT_BYTES - 1) / TESSERA_SLOT_BYTES);
  client_put(c, stream, &slot);
  while (taken < parameter_bytes) {
    uint8_t more[TESSERA_SLOT_BYTES] = {0};
    uint32_t part = parameter_bytes - taken < sizeof more ? parameter_bytes - taken : sizeof more;
    memcpy(more, bytes + taken, part);
    client_put(c, stream, more);
    taken += part;
  }
  return slot.value;
}

uint32_t client_wait(client *c, uint32_t stream, uint64_t value) {
  for (;;) {
    __atomic_add_fetch(&c->area->waiting, 1, __ATOMIC_SEQ_CST);
    uint32_t progress = __atomic_load_n(&c->page->progress, __ATOMIC_SEQ_CST);
    bool done = __atomic_load_n(&c->page->timeline[stream], __ATOMIC_ACQUIRE) >= value;
    if (!done && !error_of(c))
      syscall(SYS_futex, &c->page->progress, FUTEX_WAIT, progress, NULL, NULL, 0);
    __atomic_sub_fetch(&c->area->waiting, 1, __ATOMIC_SEQ_CST);
    if (done) return 0;
    if (error_of(c)) return error_of(c);
  }
}

uint64_t kernel_add(const char *name, uint32_t parameter_bytes) {
  tessera_worker_kernel kernel = {.parameter_bytes = parameter_bytes};
  strncpy(kernel.name, name, sizeof kernel.name - 1);
  uint64_t handle = tessera_worker_add_kernel(&kernel);
  CHECK(handle != 0);
  return handle;
}

static void answer(tessera_worker_call *call) {
  call->entry = (uint64_t)(uintptr_t)choose_entry(call->kernel);
  call->fault_kind = TESSERA_FAULT_KIND_NONE;
}

void worker_start(uint32_t threads, tessera_kernel_entry (*choose)(uint64_t kernel)) {
  choose_entry = choose;
  tessera_worker_config config = {.aperture_base = tw.aperture_base,
                                  .threads = threads,
                                  .max_threads_per_block = 1024,
                                  .client_socket = -1,
                                  .fault_event = -1,
                                  .runners = client_runners,
                                  .callback = answer};
  CHECK(tessera_worker_start(&config) == 0);
}
