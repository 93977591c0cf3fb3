/* Requests of several streams run concurrently: a kernel that waits through memory for another
 * stream's request sees its effect, whichever was enqueued first, and however long its kernel
 * took before. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"
#include "base/platform.h"

enum { STREAMS = 8, ROUNDS = 4, CHUNK = 8 << 20 };
static const uint64_t PATIENCE_NS = UINT64_C(60000000000);

static client c;
static uint64_t waiting, setting, slow_to_compile, spreading;
static uint32_t flags[STREAMS + 1]; /* atomic */
static uint32_t compiling, compile_on; /* atomic */
static uint32_t late;                /* atomic: number of waits that timed out */

typedef struct parameters {
  uint32_t awaited, set; /* numbers of flags; 0: none */
} parameters;

static bool raised(const uint32_t *flag) {
  const uint64_t deadline = tw_now_ns() + PATIENCE_NS;
  while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
    if (tw_now_ns() > deadline) return false;
  return true;
}

static void run(const tessera_launch_context *launch, const uint8_t *bytes, uint64_t first,
                uint64_t end, tessera_thread_state *thread) {
  (void)launch, (void)first, (void)end, (void)thread;
  parameters p;
  memcpy(&p, bytes, sizeof p);
  if (p.awaited != 0 && !raised(&flags[p.awaited])) __atomic_store_n(&late, 1, __ATOMIC_SEQ_CST);
  if (p.set != 0) __atomic_store_n(&flags[p.set], 1, __ATOMIC_RELEASE);
}

static void answer(tessera_worker_call *call) {
  if (call->kernel == slow_to_compile) {
    __atomic_store_n(&compiling, 1, __ATOMIC_SEQ_CST);
    if (!raised(&compile_on)) __atomic_store_n(&late, 1, __ATOMIC_SEQ_CST);
  }
  call->entry = (uint64_t)(uintptr_t)run;
  call->fault_kind = TESSERA_FAULT_KIND_NONE;
}

static void put(uint64_t kernel, uint32_t stream, uint32_t blocks, uint32_t awaited, uint32_t set) {
  const parameters p = {.awaited = awaited, .set = set};
  client_launch(&c, stream, client_slot(&c, stream, TESSERA_OPCODE_LAUNCH), kernel, blocks, &p,
                sizeof p);
}

static void finish(uint32_t stream) { CHECK(client_wait(&c, stream, c.values[stream]) == 0); }

static void clear(void) {
  for (uint32_t i = 0; i <= STREAMS; i++) __atomic_store_n(&flags[i], 0, __ATOMIC_SEQ_CST);
}

/* Each stream's kernel waits for that of the next stream, which is enqueued later. */
static void check_chain(uint32_t blocks) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    clear();
    for (uint32_t s = 0; s < STREAMS; s++)
      put(blocks > 1 ? spreading : waiting, s, blocks, s + 1 < STREAMS ? s + 2 : 0, s + 1);
    for (uint32_t s = 0; s < STREAMS; s++) finish(s);
  }
}

/* A kernel that was always quick, and therefore runs in the thread that takes requests, now
   waits. */
static void check_surprise(void) {
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < 40; i++) put(waiting, 1, 1, 0, 0);
    finish(1);
    clear();
    put(waiting, 1, 1, 2, 1);
    put(setting, 2, 1, 0, 2);
    finish(2);
    finish(1);
  }
}

/* The statistics report the oldest running kernel and its start; busy time does not exceed
   elapsed time. */
static void check_stats(void) {
  tessera_worker_stats before, during, after;
  clear();
  tessera_worker_get_stats(&before);
  put(waiting, 1, 1, 2, 1);
  do tessera_worker_get_stats(&during);
  while (during.running_kernel == 0);
  put(waiting, 3, 1, 2, 3);
  CHECK(during.running_kernel == waiting && during.running_since_ns >= before.last_launch_ns);
  usleep(20000);
  const uint64_t since_ns = during.running_since_ns;
  tessera_worker_get_stats(&during);
  CHECK(during.running_kernel == waiting && during.running_since_ns == since_ns);
  CHECK(during.busy_ns >= before.busy_ns + 20000000);
  CHECK(tessera_worker_kernel_runs(waiting) && !tessera_worker_kernel_runs(slow_to_compile));
  put(setting, 2, 1, 0, 2);
  for (uint32_t s = 1; s <= 3; s++) finish(s);
  do tessera_worker_get_stats(&after);
  while (after.launches < before.launches + 3);
  CHECK(after.launches == before.launches + 3 && after.running_kernel == 0);
  CHECK(after.busy_ns <= after.last_launch_ns - after.first_launch_ns);
}

/* While one stream's kernel is compiled, others run; only requests that wait for it are delayed. */
static void check_compile(void) {
  clear();
  put(slow_to_compile, 1, 1, 0, 1);
  CHECK(raised(&compiling));
  tessera_slot after = client_slot(&c, 4, TESSERA_OPCODE_NOP);
  client_wait_on(&after, 1, c.values[1]);
  client_put(&c, 4, &after);
  put(setting, 2, 1, 0, 2);
  put(setting, 3, 1, 2, 3);
  finish(3);
  finish(2);
  CHECK(c.page->timeline[1] + 1 == c.values[1] && c.page->timeline[4] + 1 == c.values[4]);
  CHECK(!__atomic_load_n(&flags[1], __ATOMIC_SEQ_CST));
  __atomic_store_n(&compile_on, 1, __ATOMIC_SEQ_CST);
  finish(4);
  CHECK(__atomic_load_n(&flags[1], __ATOMIC_SEQ_CST));
}

#if !defined(__SANITIZE_THREAD__)
/* Copies and fills of several streams, long and short, concurrent with kernels. */
static void check_copies(uint64_t device) {
  uint8_t *bytes = (uint8_t *)(uintptr_t)device;
  clear();
  put(waiting, 1, 1, 2, 1);
  for (uint32_t s = 3; s < 7; s++) {
    const uint64_t mine = device + s * (CHUNK / 8), size = s % 2 ? CHUNK / 16 : 100;
    tessera_slot set = client_slot(&c, s, TESSERA_OPCODE_SET);
    set.body.set = (tessera_set_body){mine, size, s, 1};
    client_put(&c, s, &set);
    tessera_slot copy = client_slot(&c, s, TESSERA_OPCODE_COPY);
    copy.body.copy = (tessera_copy_body){mine + CHUNK / 16, mine, size};
    client_put(&c, s, &copy);
  }
  for (uint32_t s = 3; s < 7; s++) {
    finish(s);
    CHECK(bytes[s * (CHUNK / 8) + CHUNK / 16 + 99] == s);
  }
  CHECK(c.page->timeline[1] + 1 == c.values[1]);
  put(setting, 2, 1, 0, 2);
  finish(1);
}

#endif

/* Two timestamps around a kernel are those of its own stream, regardless of other streams. */
static void check_times(void) {
  clear();
  put(waiting, 1, 1, 7, 0);
  for (uint16_t i = 0; i < 2; i++) {
    tessera_slot stamp = client_slot(&c, 2, TESSERA_OPCODE_TIMESTAMP);
    stamp.body.timestamp.index = i;
    client_put(&c, 2, &stamp);
    if (i == 0) {
      finish(2); /* taken now: what follows comes after it, even on a busy machine */
      put(waiting, 2, 1, 8, 0);
    }
  }
  usleep(5000);
  put(setting, 3, 1, 0, 8);
  finish(2);
  CHECK(c.page->timestamps[1] - c.page->timestamps[0] >= 1000000);
  CHECK(c.page->timeline[1] + 1 == c.values[1]);
  put(setting, 3, 1, 0, 7);
  finish(1);
}

static void start(uint32_t threads) {
  const tessera_worker_config config = {.aperture_base = tw.aperture_base,
                                        .threads = threads,
                                        .max_threads_per_block = 1024,
                                        .client_socket = -1,
                                        .fault_event = -1,
                                        .callback = answer};
  CHECK(tessera_worker_start(&config) == 0);
}

int main(void) {
  alarm(110); /* requests that do not run concurrently wait forever */
  client_open(&c);
  /* One mapping for both sides: the thread sanitizer distinguishes memory by address. */
  tw.client = c.area;
  c.page = tw.page;
#if defined(__SANITIZE_THREAD__)
  tw.aperture_base = TESSERA_GUARD_BEFORE_BYTES; /* the sanitizer's own memory is elsewhere */
#else
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  CHECK(tessera_worker_reserve(BASES[0]) == 0);
  const int fd = memfd_create("chunk", 0);
  CHECK(fd >= 0 && ftruncate(fd, CHUNK) == 0);
  CHECK(tessera_worker_map_chunk(TESSERA_DEVICE_OFFSET, CHUNK, fd) == 0);
#endif
  waiting = kernel_add("waiting", sizeof(parameters));
  spreading = kernel_add("spreading", sizeof(parameters));
  setting = kernel_add("setting", sizeof(parameters));
  slow_to_compile = kernel_add("slow_to_compile", sizeof(parameters));
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    start(threads);
    check_chain(1);
    check_chain(5);
    check_surprise();
    check_stats();
    check_times();
    if (threads == 1) check_compile();
#if !defined(__SANITIZE_THREAD__)
    check_copies(tw.aperture_base + TESSERA_DEVICE_OFFSET);
#endif
    tessera_worker_stop();
    tw.stopping = 0;
    client_open(&c);
    tw.client = c.area;
    c.page = tw.page;
  }
  CHECK(!late);
  printf("ok\n");
  return 0;
}
