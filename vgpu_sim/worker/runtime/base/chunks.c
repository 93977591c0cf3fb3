/* The aperture's mapped chunks, sorted by address.
 *
 * The owner thread maps and unmaps chunks. Runners check each copy's ranges and hold the lock
 * while they copy, so a copy within chunks cannot fault. A kernel faults if its chunk is freed
 * while it runs: that is the program's error, and ends only the program's own context. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/internal.h"

enum { MAX_CHUNKS = 16384 };

typedef struct chunk {
  uint64_t address;
  uint64_t bytes;
} chunk;

/* Prefers writers: overlapping copies must not delay the owner forever. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static chunk chunks[MAX_CHUNKS];
static uint32_t chunk_count;

/* Return the index of the first chunk that ends after `address`. */
static uint32_t first_behind(uint64_t address) {
  uint32_t low = 0, high = chunk_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (chunks[middle].address + chunks[middle].bytes > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void tw_chunks_lock(void) { pthread_rwlock_rdlock(&lock); }
bool tw_chunks_try_lock(void) { return pthread_rwlock_tryrdlock(&lock) == 0; }
void tw_chunks_unlock(void) { pthread_rwlock_unlock(&lock); }

bool tw_chunks_cover_locked(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return true;
  if (address + bytes < address) return false;
  uint64_t end = address + bytes;
  for (uint32_t i = first_behind(address); i < chunk_count; i++) {
    if (chunks[i].address > address) return false;
    address = chunks[i].address + chunks[i].bytes;
    if (address >= end) return true;
  }
  return false;
}

/* Add a mapping to the table at its place; `at` is first_behind() of its address. */
static void add(uint32_t at, uint64_t address, uint64_t bytes) {
  pthread_rwlock_wrlock(&lock);
  memmove(&chunks[at + 1], &chunks[at], (chunk_count - at) * sizeof chunks[0]);
  chunks[at] = (chunk){.address = address, .bytes = bytes};
  chunk_count++;
  tw_chunks_unlock();
}

/* Find the place for a new mapping; returns a negative errno if there is none. Only the owner
 * thread changes the table, so that thread reads it without the lock. */
static int find_place(uint64_t offset, uint64_t bytes, uint32_t *at) {
  if (tw.aperture_base == 0 || bytes == 0 || bytes > TESSERA_APERTURE_BYTES ||
      offset > TESSERA_APERTURE_BYTES - bytes || (offset | bytes) % TESSERA_PAGE_BYTES != 0)
    return -EINVAL;
  if (chunk_count == MAX_CHUNKS) return -ENOMEM;
  const uint64_t address = tw.aperture_base + offset;
  *at = first_behind(address);
  return *at < chunk_count && chunks[*at].address < address + bytes ? -EEXIST : 0;
}

int tessera_worker_map_chunk(uint64_t offset, uint64_t bytes, int fd) {
  uint32_t at;
  const int refused = find_place(offset, bytes, &at);
  if (refused) return refused;
  const uint64_t address = tw.aperture_base + offset;
  /* Populate now, or the first kernel would incur a page fault for every page. */
  void *mapped = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) return -errno;
  add(at, address, bytes);
  return 0;
}

int tessera_worker_map_view(uint64_t offset, uint64_t source, uint64_t bytes) {
  uint32_t at;
  const int refused = find_place(offset, bytes, &at);
  if (refused) return refused;
  if (source > TESSERA_APERTURE_BYTES - bytes ||
      !tw_chunks_cover_locked(tw.aperture_base + source, bytes))
    return -EINVAL;
  const uint64_t address = tw.aperture_base + offset;
  /* With an old size of 0, a shared mapping is duplicated. */
  void *mapped = mremap((void *)(uintptr_t)(tw.aperture_base + source), 0, bytes,
                        MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)address);
  if (mapped == MAP_FAILED) return -errno;
  add(at, address, bytes);
  return 0;
}

/* Remove a mapping from the table: running copies end first; later ones are refused. */
static int drop(uint64_t address, uint64_t bytes) {
  const uint32_t at = first_behind(address);
  if (tw.aperture_base == 0 || at == chunk_count || chunks[at].address != address ||
      chunks[at].bytes != bytes)
    return -ENOENT;
  pthread_rwlock_wrlock(&lock);
  chunk_count--;
  memmove(&chunks[at], &chunks[at + 1], (chunk_count - at) * sizeof chunks[0]);
  tw_chunks_unlock();
  return 0;
}

static int make_inaccessible(uint64_t address, uint64_t bytes) {
  void *emptied = mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return emptied == MAP_FAILED ? -errno : 0;
}

int tessera_worker_unmap_chunk(uint64_t offset, uint64_t bytes) {
  const uint64_t address = tw.aperture_base + offset;
  const int refused = drop(address, bytes);
  if (refused) return refused;
  /* The client may keep its descriptor, so release the pages now, not when the last descriptor
   * is closed. */
  if (madvise((void *)(uintptr_t)address, bytes, MADV_REMOVE) != 0) return -errno;
  return make_inaccessible(address, bytes);
}

int tessera_worker_unmap_view(uint64_t offset, uint64_t bytes) {
  const uint64_t address = tw.aperture_base + offset;
  const int refused = drop(address, bytes);
  return refused ? refused : make_inaccessible(address, bytes);
}

int tessera_worker_reserve(uint64_t aperture_base) {
  /* Including the image in which misaligned accesses end up. */
  uint64_t bytes = TESSERA_GUARD_BEFORE_BYTES + TESSERA_MISALIGNED_OFFSET_BYTES +
                   TESSERA_APERTURE_BYTES + TESSERA_GUARD_AFTER_BYTES;
  if (tw.aperture_base != 0 || aperture_base < TESSERA_GUARD_BEFORE_BYTES ||
      aperture_base % TESSERA_CHUNK_ALIGN_BYTES != 0)
    return -EINVAL;
  void *wanted = (void *)(uintptr_t)(aperture_base - TESSERA_GUARD_BEFORE_BYTES);
  void *got = mmap(wanted, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return -errno;
  if (got != wanted) { /* a kernel without MAP_FIXED_NOREPLACE */
    munmap(got, bytes);
    return -EEXIST;
  }
  tw.aperture_base = aperture_base;
  return 0;
}
