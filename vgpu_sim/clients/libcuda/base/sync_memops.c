#include "base/sync_memops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static uint64_t *ids; /* in ascending order */
static size_t capacity;
static _Atomic size_t count; /* read without the lock, because it is 0 in most programs */

bool tsr_sync_memops_any(void) {
  return atomic_load_explicit(&count, memory_order_relaxed) != 0;
}

/* Return the place of the first id that is not below `id`. */
static size_t first_from_locked(uint64_t id) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (ids[middle] < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool make_room_locked(void) {
  if (count < capacity) return true;
  const size_t wanted = capacity ? 2 * capacity : 16;
  uint64_t *grown = realloc(ids, wanted * sizeof *grown);
  if (!grown) return false;
  ids = grown;
  capacity = wanted;
  return true;
}

bool tsr_sync_memops_set(uint64_t id) {
  pthread_mutex_lock(&lock);
  const size_t at = first_from_locked(id);
  const bool is_set = at < count && ids[at] == id;
  const bool done = is_set || make_room_locked();
  if (done && !is_set) {
    memmove(&ids[at + 1], &ids[at], (count - at) * sizeof *ids);
    ids[at] = id;
    atomic_fetch_add(&count, 1);
  }
  pthread_mutex_unlock(&lock);
  return done;
}

void tsr_sync_memops_clear(uint64_t first, uint64_t last) {
  if (!tsr_sync_memops_any()) return;
  pthread_mutex_lock(&lock);
  const size_t begin = first_from_locked(first);
  size_t end = begin;
  while (end < count && ids[end] <= last) end++;
  if (end > begin) {
    memmove(&ids[begin], &ids[end], (count - end) * sizeof *ids);
    atomic_fetch_sub(&count, end - begin);
  }
  pthread_mutex_unlock(&lock);
}

bool tsr_sync_memops_has(uint64_t id) {
  if (!tsr_sync_memops_any()) return false;
  pthread_mutex_lock(&lock);
  const size_t at = first_from_locked(id);
  const bool has = at < count && ids[at] == id;
  pthread_mutex_unlock(&lock);
  return has;
}
