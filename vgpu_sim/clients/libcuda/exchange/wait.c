#define _GNU_SOURCE
#include "exchange/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "exchange/doorbell.h"
#include "exchange/hang.h"
#include "exchange/health.h"
#include "exchange/kernel_output.h"

enum { SPIN_NS = 12000, CHECK_EVERY = 16 };
/* How often a sleeping thread checks whether the worker has been killed. */
enum { FIRST_LOOK_MS = 10, LAST_LOOK_MS = 80 };

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool may_spin(struct tsr_context *context) {
  const int cpu = sched_getcpu();
  __atomic_store_n(&context->area->cpu, cpu, __ATOMIC_RELAXED);
  return !tsr_rang && cpu != __atomic_load_n(&context->page->cpu, __ATOMIC_RELAXED);
}

static bool spin(struct tsr_context *context, const uint64_t *counter, uint64_t value) {
  const uint64_t end_ns = tsr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < CHECK_EVERY; i++) {
      if (tsr_counter_reached(counter, value)) return true;
      relax();
    }
  } while (tsr_now_ns() < end_ns && !__atomic_load_n(&context->page->error, __ATOMIC_RELAXED));
  return false;
}

/* Sleep once; a spurious return does no harm. */
static void sleep_until_progress(struct tsr_context *context, const uint64_t *counter,
                                 uint64_t value, long limit_ms) {
  const tessera_worker_page *page = context->page;
  __atomic_fetch_add(&context->area->waiting, 1, __ATOMIC_SEQ_CST);
  const uint32_t progress = __atomic_load_n(&page->progress, __ATOMIC_SEQ_CST);
  if (!tsr_counter_reached(counter, value) && !__atomic_load_n(&page->error, __ATOMIC_ACQUIRE)) {
    const struct timespec limit = {.tv_nsec = limit_ms * 1000000};
    syscall(SYS_futex, &page->progress, FUTEX_WAIT, progress, &limit, NULL, 0);
  }
  __atomic_fetch_sub(&context->area->waiting, 1, __ATOMIC_SEQ_CST);
}

/* Wait until `counter`, which belongs to `stream`, has reached the value. */
static CUresult wait_for(struct tsr_context *context, uint32_t stream, const uint64_t *counter,
                         uint64_t value) {
  CUresult error = tsr_context_error(context);
  if (error != CUDA_SUCCESS || tsr_counter_reached(counter, value)) return error;
  tsr_rang |= tsr_ring_for_wait(context);
  if (may_spin(context)) spin(context, counter, value);
  long limit_ms = FIRST_LOOK_MS;
  struct tsr_hang hang = {0};
  while (!tsr_counter_reached(counter, value)) {
    error = tsr_context_error(context);
    if (error != CUDA_SUCCESS) return error;
    const uint64_t asleep_ns = tsr_now_ns();
    sleep_until_progress(context, counter, value, limit_ms);
    if (tsr_counter_reached(counter, value)) break;
    if (limit_ms == LAST_LOOK_MS) tsr_hang_look(context, stream, &hang);
    if (tsr_now_ns() - asleep_ns < (uint64_t)limit_ms * 1000000u) continue; /* other progress */
    if (tsr_context_hung_up(context)) return tsr_context_lose(context);
    if (limit_ms < LAST_LOOK_MS) limit_ms *= 2;
  }
  return tsr_context_error(context);
}

CUresult tsr_wait_room(struct tsr_context *context, uint32_t stream, uint64_t head) {
  if (head <= TESSERA_SLOTS_PER_STREAM) return CUDA_SUCCESS;
  return wait_for(context, stream, &context->page->tail[stream], head - TESSERA_SLOTS_PER_STREAM);
}

/* Print the kernels' output as well, because a program that has waited for work expects to see
 * it. */
CUresult tsr_wait(struct tsr_context *context, uint32_t stream, uint64_t value) {
  const CUresult result = wait_for(context, stream, &context->page->timeline[stream], value);
  tsr_kernel_output_print(context);
  return result;
}

bool tsr_is_blocking(const struct tsr_context *context, uint32_t stream) {
  return atomic_load_explicit(&context->blocking[stream / 64], memory_order_acquire) >>
             (stream % 64) & 1;
}

static uint64_t last_of(const struct tsr_context *context, uint32_t stream) {
  return atomic_load_explicit(&context->rings[stream].last, memory_order_acquire);
}

static bool idle(const struct tsr_context *context, uint32_t stream) {
  return tsr_reached(context, stream, last_of(context, stream));
}

static CUresult wait_last(struct tsr_context *context, uint32_t stream) {
  return tsr_wait(context, stream, last_of(context, stream));
}

/* Whether all streams of a bitmap are idle. */
static bool all_idle(const struct tsr_context *context, const uint64_t bits[2]) {
  for (uint32_t word = 0; word < 2; word++)
    for (uint64_t left = bits[word]; left; left &= left - 1)
      if (!idle(context, 64 * word + (uint32_t)__builtin_ctzll(left))) return false;
  return true;
}

static CUresult wait_for_all(struct tsr_context *context, const uint64_t bits[2]) {
  for (uint32_t word = 0; word < 2; word++)
    for (uint64_t left = bits[word]; left; left &= left - 1) {
      const CUresult result = wait_last(context, 64 * word + (uint32_t)__builtin_ctzll(left));
      if (result != CUDA_SUCCESS) return result;
    }
  return tsr_context_error(context);
}

static void blocking_streams(const struct tsr_context *context, uint64_t bits[2]) {
  for (uint32_t word = 0; word < 2; word++)
    bits[word] = atomic_load_explicit(&context->blocking[word], memory_order_acquire);
  bits[0] |= 1;
}

bool tsr_stream_idle(const struct tsr_context *context, uint32_t stream) {
  if (stream != TSR_LEGACY_STREAM) return idle(context, stream);
  uint64_t bits[2];
  blocking_streams(context, bits);
  return all_idle(context, bits);
}

CUresult tsr_wait_stream(struct tsr_context *context, uint32_t stream) {
  if (stream != TSR_LEGACY_STREAM) return wait_last(context, stream);
  uint64_t bits[2];
  blocking_streams(context, bits);
  return wait_for_all(context, bits);
}

bool tsr_stream_open(const struct tsr_context *context, uint32_t stream) {
  return tsr_stream_idle(context, stream) &&
         (!tsr_is_blocking(context, stream) || idle(context, TSR_LEGACY_STREAM));
}

CUresult tsr_wait_stream_open(struct tsr_context *context, uint32_t stream) {
  const CUresult result = tsr_wait_stream(context, stream);
  if (result != CUDA_SUCCESS || !tsr_is_blocking(context, stream)) return result;
  return wait_last(context, TSR_LEGACY_STREAM);
}

/* Wait for all indices ever used, because a destroyed stream's work counts, too. */
CUresult tsr_wait_all(struct tsr_context *context) {
  const uint32_t limit = __atomic_load_n(&context->area->stream_limit, __ATOMIC_ACQUIRE);
  for (uint32_t stream = 0; stream < limit; stream++) {
    const CUresult result = wait_last(context, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return tsr_context_error(context);
}
