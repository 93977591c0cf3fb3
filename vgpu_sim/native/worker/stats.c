/* What the context has computed and computes, for whoever asks the owner. */
#define _GNU_SOURCE
#include "internal.h"
#include "platform.h"

static tessera_worker_stats stats; /* written by the scheduler's thread alone */

void tw_account_launch(uint64_t begin_ns, uint64_t end_ns) {
  if (stats.first_launch_ns == 0)
    __atomic_store_n(&stats.first_launch_ns, begin_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&stats.last_launch_ns, end_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&stats.busy_ns, stats.busy_ns + (end_ns - begin_ns), __ATOMIC_RELAXED);
  __atomic_store_n(&stats.launches, stats.launches + 1, __ATOMIC_RELEASE);
}

void tw_kernel_begins(uint64_t handle) {
  __atomic_store_n(&stats.running_since_ns, tw_now_ns(), __ATOMIC_RELAXED);
  __atomic_store_n(&stats.running_kernel, handle, __ATOMIC_SEQ_CST);
}

void tw_kernel_ends(void) {
  tw_kernel_account(stats.running_kernel, tw_now_ns() - stats.running_since_ns);
  __atomic_store_n(&stats.running_kernel, 0, __ATOMIC_SEQ_CST);
}

/* The kernel that runs and since when, as a pair that belongs together. */
static void read_running(tessera_worker_stats *out) {
  do {
    out->running_kernel = __atomic_load_n(&stats.running_kernel, __ATOMIC_SEQ_CST);
    out->running_since_ns = __atomic_load_n(&stats.running_since_ns, __ATOMIC_SEQ_CST);
  } while (__atomic_load_n(&stats.running_kernel, __ATOMIC_SEQ_CST) != out->running_kernel);
  out->running_name[0] = 0;
  if (out->running_kernel == 0) out->running_since_ns = 0;
  tw_kernel_name(out->running_kernel, out->running_name, sizeof out->running_name);
}

void tessera_worker_get_stats(tessera_worker_stats *out) {
  out->launches = __atomic_load_n(&stats.launches, __ATOMIC_ACQUIRE);
  out->first_launch_ns = __atomic_load_n(&stats.first_launch_ns, __ATOMIC_RELAXED);
  out->last_launch_ns = __atomic_load_n(&stats.last_launch_ns, __ATOMIC_RELAXED);
  out->busy_ns = __atomic_load_n(&stats.busy_ns, __ATOMIC_RELAXED);
  read_running(out);
}
