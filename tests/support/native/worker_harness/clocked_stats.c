/* The worker's statistics under a clock that the test sets, without the rest of the worker. */
#define _GNU_SOURCE
#include <stdio.h>

#include "base/internal.h"
#include "base/platform.h"

static uint64_t clock_ns;
#define tw_now_ns() clock_ns
#include "requests/stats.c"

__thread thread_activity tw_current;
static struct {
  uint64_t kernel, blocks, ns;
} accounted;

tw_occupancy tw_occupancy_of(const tessera_worker_kernel *kernel, uint64_t blocks,
                             uint32_t block_threads, uint64_t dynamic_bytes) {
  (void)kernel;
  (void)dynamic_bytes;
  return (tw_occupancy){.active = TESSERA_WORKER_ALL / (uint32_t)blocks,
                        .occupied = TESSERA_WORKER_ALL / block_threads};
}

void tw_copies_read(tessera_worker_stats *out) {
  out->set_bytes = 77;
}

void tw_kernel_account(uint64_t handle, uint64_t blocks, uint64_t busy_ns) {
  accounted.kernel = handle;
  accounted.blocks = blocks;
  accounted.ns = busy_ns;
}

void tw_kernel_name(uint64_t handle, char *name, uint64_t size) {
  snprintf(name, size, "kernel %llu", (unsigned long long)handle);
}

/* Sets the clock to `now_ns`; the following calls are those of `runner`. */
void clocked_at(uint64_t now_ns, uint32_t runner) {
  clock_ns = now_ns;
  tw_current.runner = runner;
}

void clocked_launch(uint64_t handle, uint32_t grid_z, uint32_t block_z, uint32_t shared_bytes,
                    uint32_t first_pipe) {
  tessera_worker_kernel kernel = {.pipes = {first_pipe, TESSERA_WORKER_ALL / 8}};
  tessera_launch_body body = {.kernel = handle,
                              .grid = {1, 2, grid_z},
                              .block = {4, 2, block_z},
                              .shared_bytes = shared_bytes};
  tw_launch_of(&kernel, &body);
}

void clocked_accounted(uint64_t out[3]) {
  out[0] = accounted.kernel;
  out[1] = accounted.blocks;
  out[2] = accounted.ns;
}
