#include "copies/sync_memops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *ids; /* an id is never used again, so those of freed memory stay */
static size_t capacity;
static _Atomic size_t count;

static size_t find_locked(uint64_t id) {
  size_t i = 0;
  while (i < count && ids[i] != id) i++;
  return i;
}

static bool add_locked(uint64_t id) {
  if (count == capacity) {
    const size_t wanted = capacity ? 2 * capacity : 16;
    uint64_t *grown = realloc(ids, wanted * sizeof *grown);
    if (!grown) return false;
    ids = grown;
    capacity = wanted;
  }
  ids[count] = id;
  atomic_fetch_add(&count, 1);
  return true;
}

bool tsr_sync_memops_set(uint64_t id, bool wanted) {
  bool done = true;
  pthread_mutex_lock(&lock);
  const size_t at = find_locked(id);
  if (wanted && at == count) {
    done = add_locked(id);
  } else if (!wanted && at < count) {
    ids[at] = ids[count - 1];
    atomic_fetch_sub(&count, 1);
  }
  pthread_mutex_unlock(&lock);
  return done;
}

bool tsr_sync_memops_has(uint64_t id) {
  pthread_mutex_lock(&lock);
  const bool has = find_locked(id) < count;
  pthread_mutex_unlock(&lock);
  return has;
}

bool tsr_sync_memops_are_used(void) {
  return atomic_load_explicit(&count, memory_order_relaxed) != 0;
}
