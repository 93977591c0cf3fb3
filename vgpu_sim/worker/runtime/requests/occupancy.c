/* Occupancy of a launch, as the CUDA occupancy calculator computes it: blocks per multiprocessor
 * are limited by threads, registers and shared memory, each in its allocation unit (CUDA C++
 * Programming Guide, "Technical Specifications per Compute Capability"). Blocks are distributed
 * evenly over all multiprocessors, and run in waves of equal duration. */
#include "base/internal.h"

enum { WARP_THREADS = 32, REGISTERS = 65536, REGISTER_UNIT = 256, MAX_REGISTERS = 255 };
enum { SHARED_UNIT = 128 };

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t blocks_of_one(const tessera_worker_kernel *kernel, uint64_t warps,
                              uint64_t dynamic_bytes) {
  const tessera_worker_config *config = &tw.config;
  uint64_t blocks = least(config->sm_threads / WARP_THREADS / warps, config->sm_blocks);
  const uint64_t registers = least(kernel->registers, MAX_REGISTERS);
  if (registers != 0)
    blocks = least(blocks, REGISTERS / round_up(registers * WARP_THREADS, REGISTER_UNIT) / warps);
  const uint64_t bytes =
      round_up(kernel->shared_bytes + dynamic_bytes + config->sm_reserved_bytes, SHARED_UNIT);
  if (bytes != 0) blocks = least(blocks, config->sm_shared_bytes / bytes);
  return blocks != 0 ? blocks : 1; /* the kernel runs nevertheless */
}

tw_occupancy tw_occupancy_of(const tessera_worker_kernel *kernel, uint64_t blocks,
                             uint32_t block_threads, uint64_t dynamic_bytes) {
  const uint64_t places = tw.config.sm_threads / WARP_THREADS, all = tw.config.multiprocessors;
  if (places == 0 || all == 0 || blocks == 0 || block_threads == 0) return (tw_occupancy){0};
  const uint64_t warps = (block_threads + WARP_THREADS - 1) / WARP_THREADS;
  const uint64_t wave = blocks_of_one(kernel, warps, dynamic_bytes) * all;
  const uint64_t waves = (blocks + wave - 1) / wave, last = blocks - (waves - 1) * wave;
  const double active = ((double)(waves - 1) * (double)all + (double)least(last, all)) /
                        ((double)waves * (double)all);
  const double taken =
      (double)blocks * (double)warps / ((double)waves * (double)all * (double)places);
  return (tw_occupancy){.active = (uint32_t)(active * TESSERA_WORKER_ALL),
                        .occupied = (uint32_t)((taken < active ? taken : active) *
                                               TESSERA_WORKER_ALL)};
}
