/* Clusters of several blocks. All blocks of a cluster are resident on one thread of the pool, which runs
 * them in turn; a block's shared memory remains until the last block of its cluster has ended.
 *
 * The shared memory of the block with rank r is mapped at the base of this block, and also (1 + r) *
 * TESSERA_CLUSTER_STEP_BYTES above the base of each block of the cluster. So an address that names a
 * rank is an ordinary address of shared memory, and it is the same in all blocks of the cluster. Around
 * each base, the range that code may access is reserved and inaccessible, as for other blocks. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "blocks/cta.h"
#include "blocks/room.h"
#include "base/internal.h"
#include "base/platform.h"

enum { PATIENCE_ROUNDS = 32, KEPT = 1 };

typedef struct resident {
  tw_cluster cluster;
  tw_cta *blocks[TESSERA_MAX_CLUSTER_BLOCKS]; /* some are kept for later clusters */
  uint64_t bases[TESSERA_MAX_CLUSTER_BLOCKS]; /* of the shared memory; 0: none */
  uint32_t mapped;                            /* for so many blocks */
  uint64_t mapped_bytes;
  uint32_t ended; /* blocks, a bit each */
} resident;

/* The clusters of one thread. The first `count` are in use. */
static __thread struct {
  tw_fiber home; /* the thread's own stack */
  resident **all;
  uint32_t made, count;
} mine;

static void unmap(resident *r) {
  for (uint32_t i = 0; i < TESSERA_MAX_CLUSTER_BLOCKS; i++)
    if (r->bases[i] != 0) tw_shared_release(r->bases[i]);
  memset(r->bases, 0, sizeof r->bases);
  r->mapped = 0;
}

static bool map_at(uint64_t address, int fd, uint64_t offset, uint64_t bytes) {
  return mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
              (off_t)offset) != MAP_FAILED;
}

static bool map_blocks(resident *r, int fd, uint32_t count, uint64_t bytes) {
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t base = r->bases[i] = tw_shared_reserve();
    if (base == 0) return false;
    if (bytes == 0) continue;
    if (!map_at(base, fd, i * bytes, bytes)) return false;
    for (uint32_t rank = 0; rank < count; rank++)
      if (!map_at(base + (1 + rank) * TESSERA_CLUSTER_STEP_BYTES, fd, rank * bytes, bytes))
        return false;
  }
  return true;
}

/* Provide shared memory for `count` blocks of `bytes` each; false: memory or addresses lack. */
static bool provide_memory(resident *r, uint32_t count, uint64_t bytes) {
  bytes = tw_whole_pages(bytes);
  if (r->mapped == count && r->mapped_bytes == bytes) return true;
  unmap(r);
  const int fd = memfd_create("tessera-cluster", MFD_CLOEXEC);
  if (fd < 0) return false;
  const bool mapped =
      ftruncate(fd, (off_t)(count * bytes)) == 0 && map_blocks(r, fd, count, bytes);
  close(fd);
  if (!mapped) {
    unmap(r);
    return false;
  }
  r->mapped = count;
  r->mapped_bytes = bytes;
  return true;
}

static uint32_t blocks_of(const tessera_launch_context *context) {
  return context->cluster[0] * context->cluster[1] * context->cluster[2];
}

/* Return the index in the grid of the block with a rank in a cluster. */
static uint64_t block_of(const tessera_launch_context *context, uint64_t number, uint32_t rank) {
  const uint32_t *grid = context->grid, *size = context->cluster;
  uint64_t place[3];
  for (int axis = 0; axis < 3; axis++) {
    const uint64_t clusters = grid[axis] / size[axis];
    place[axis] = number % clusters * size[axis] + rank % size[axis];
    number /= clusters;
    rank /= size[axis];
  }
  return place[0] + grid[0] * (place[1] + grid[1] * place[2]);
}

/* Return an unused entry; NULL: memory is lacking. */
static resident *next_resident(void) {
  if (mine.count < mine.made) return mine.all[mine.count];
  resident **more = realloc(mine.all, (mine.made + 1) * sizeof *more);
  if (more == NULL) return NULL;
  mine.all = more;
  if ((more[mine.made] = calloc(1, sizeof **more)) == NULL) return NULL;
  return more[mine.made++];
}

static bool provide_blocks(resident *r, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (r->blocks[i] == NULL && (r->blocks[i] = calloc(1, sizeof *r->blocks[i])) == NULL)
      return false;
  return true;
}

/* Start a cluster; false: memory is lacking. */
static bool begin(tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                  uint64_t number) {
  const uint32_t count = blocks_of(&launch->context);
  resident *r = next_resident();
  if (r == NULL || !provide_blocks(r, count) || !provide_memory(r, count, launch->shared_bytes))
    return false;
  r->ended = 0;
  r->cluster = (tw_cluster){.live = count * code->groups, .count = count};
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t block = block_of(&launch->context, number, i);
    r->cluster.blocks[i] = r->blocks[i];
    tw_cta_prepare(r->blocks[i], launch, code, parameters, r->bases[i], &mine.home, &r->cluster);
    tw_cta_begin(r->blocks[i], block, block + 1);
  }
  mine.count++;
  return true;
}

static void end_one(uint32_t index) {
  resident *ended = mine.all[index];
  mine.count--;
  memmove(&mine.all[index], &mine.all[index + 1], (mine.count - index) * sizeof *mine.all);
  mine.all[mine.count] = ended;
}

static void enter_window(uint64_t base, const tw_launch *launch) {
  tw_current.shared_window = base;
  tw_current.shared_bytes = launch->shared_bytes;
}

/* Let each block of a cluster run once. Returns whether the cluster has ended; `progress` is set if a
 * block has ended. */
static bool run_cluster(resident *r, const tw_launch *launch, bool *progress) {
  bool ran = false;
  for (uint32_t i = 0; i < r->cluster.count; i++) {
    if ((r->ended >> i & 1) || !tw_cta_may_continue(r->blocks[i])) continue;
    const uint64_t phase = r->cluster.phase;
    ran = true;
    enter_window(r->bases[i], launch);
    if (tw_cta_continue(r->blocks[i])) r->ended |= UINT32_C(1) << i;
    if ((r->ended >> i & 1) || r->cluster.phase != phase) *progress = true;
  }
  const bool ended = r->ended == (UINT32_C(1) << r->cluster.count) - 1;
  if (!ran && !ended) tw_cta_fail_stuck(r->blocks[__builtin_ctz(~r->ended)]);
  return ended;
}

/* Run every cluster once; returns whether one has made progress. */
static bool run_round(tw_launch *launch) {
  bool progress = false;
  for (uint32_t left = mine.count, index = 0; left > 0; left--) {
    if (run_cluster(mine.all[index], launch, &progress)) {
      end_one(index);
      if (mine.count > 0) tw_room_give(launch);
    } else {
      index++;
    }
  }
  return progress;
}

static void free_one(resident *r) {
  unmap(r);
  for (uint32_t i = 0; i < TESSERA_MAX_CLUSTER_BLOCKS; i++) {
    if (r->blocks[i] == NULL) continue;
    tw_stacks_close(&r->blocks[i]->stacks);
    tw_local_close(&r->blocks[i]->local);
    free(r->blocks[i]);
  }
  free(r);
}

static void keep_few(void) {
  while (mine.made > KEPT && mine.made > mine.count) free_one(mine.all[--mine.made]);
}

/* Run clusters whose groups may wait, and those for which they wait. */
static void run_waiting(tw_launch *launch, const uint8_t *parameters, uint64_t first, uint64_t end) {
  uint64_t since_ns = 0;
  uint32_t rounds = 0; /* rounds without progress */
  tw_fiber_adopt_thread(&mine.home);
  for (;;) {
    if (mine.count == 0) {
      if (first == end) return keep_few();
      if (!begin(launch, tw_code_now(launch), parameters, first++))
        tw_die_out_of_memory("no memory for the blocks of a cluster");
    }
    if (run_round(launch)) {
      rounds = 0;
      continue;
    }
    if (mine.count == 0 || ++rounds < PATIENCE_ROUNDS) continue;
    const bool room = tw_room_take(launch);
    if (room && (first != end || tw_pool_claim(&first, &end))) {
      if (begin(launch, tw_code_now(launch), parameters, first)) {
        first++;
        rounds = 0;
        continue;
      }
    }
    if (room) tw_room_give(launch);
    tw_room_wait(rounds, &since_ns);
  }
}

/* Run clusters in which nothing waits: block after block, with the memory of all. */
static void run_plain(tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                      uint64_t first, uint64_t end, tessera_thread_state *thread) {
  const uint32_t count = blocks_of(&launch->context);
  resident *r = next_resident();
  if (r == NULL || !provide_memory(r, count, launch->shared_bytes))
    tw_die_out_of_memory("no memory for the blocks of a cluster");
  for (; first != end; first++) {
    for (uint32_t i = 0; i < count; i++) tw_shared_clear(r->bases[i], launch->shared_bytes);
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t block = block_of(&launch->context, first, i);
      enter_window(r->bases[i], launch);
      tw_shared_run_at(r->bases[i], launch, code, parameters, block, block + 1, thread);
    }
  }
}

void tw_clusters_run(const tessera_launch_context *context, const uint8_t *parameters,
                     uint64_t first, uint64_t end, tessera_thread_state *thread) {
  tw_launch *launch = (tw_launch *)(uintptr_t)context;
  const tw_code *code = tw_code_now(launch);
  const uint64_t window = tw_current.shared_window;
  if (code->groups != 0)
    run_waiting(launch, parameters, first, end);
  else
    run_plain(launch, code, parameters, first, end, thread);
  tw_current.shared_window = window;
}

void tw_clusters_end_thread(void) {
  mine.count = 0;
  while (mine.made > 0) free_one(mine.all[--mine.made]);
  free(mine.all);
  mine.all = NULL;
}
