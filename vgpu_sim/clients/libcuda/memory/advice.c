#include "memory/advice.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct part {
  uint64_t begin, end;
  struct tsr_advice advice;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the fields below */
static struct part *parts; /* with advice, by address */
static size_t count, capacity;

static bool make_room(size_t more) {
  if (count + more <= capacity) return true;
  const size_t wanted = 2 * (count + more);
  struct part *grown = realloc(parts, wanted * sizeof *grown);
  if (!grown) return false;
  parts = grown;
  capacity = wanted;
  return true;
}

static void insert(size_t at, struct part part) {
  memmove(&parts[at + 1], &parts[at], (count - at) * sizeof *parts);
  parts[at] = part;
  count++;
}

/* Make a part begin at `place`, if one contains it; there is room. */
static void split(uint64_t place) {
  for (size_t i = 0; i < count; i++) {
    if (parts[i].begin >= place || parts[i].end <= place) continue;
    struct part second = parts[i];
    second.begin = place;
    parts[i].end = place;
    insert(i + 1, second);
    return;
  }
}

/* Return the index of the first part at or after a place. */
static size_t first_from(uint64_t place) {
  size_t i = 0;
  while (i < count && parts[i].begin < place) i++;
  return i;
}

bool tsr_advice_change(uint64_t begin, uint64_t bytes,
                       void (*change)(struct tsr_advice *, const void *), const void *state) {
  const uint64_t end = begin + bytes;
  pthread_mutex_lock(&lock);
  /* Two splits, and at most one gap before each part and at the end. */
  const bool room = make_room(count + 4);
  if (room) {
    split(begin);
    split(end);
    for (size_t i = first_from(begin); begin < end; i++) {
      const uint64_t next = i < count && parts[i].begin < end ? parts[i].begin : end;
      if (next > begin) insert(i, (struct part){.begin = begin, .end = next});
      change(&parts[i].advice, state);
      begin = parts[i].end;
    }
  }
  pthread_mutex_unlock(&lock);
  return room;
}

static bool is_same(CUmemLocation a, CUmemLocation b) { return a.type == b.type && a.id == b.id; }

struct tsr_advice tsr_advice_of(uint64_t begin, uint64_t bytes) {
  const uint64_t end = begin + bytes;
  struct tsr_advice all = {.read_mostly = true, .accessed_by = UINT32_MAX};
  bool first = true;
  pthread_mutex_lock(&lock);
  size_t i = 0;
  while (i < count && parts[i].end <= begin) i++;
  while (begin < end) {
    const bool inside = i < count && parts[i].begin <= begin;
    const struct tsr_advice one = inside ? parts[i].advice : (struct tsr_advice){0};
    if (first) {
      all.preferred = one.preferred;
      all.prefetched = one.prefetched;
    }
    first = false;
    all.read_mostly = all.read_mostly && one.read_mostly;
    all.accessed_by &= one.accessed_by;
    if (!is_same(all.preferred, one.preferred)) all.preferred = (CUmemLocation){0};
    if (!is_same(all.prefetched, one.prefetched)) all.prefetched = (CUmemLocation){0};
    if (inside)
      begin = parts[i++].end;
    else
      begin = i < count ? parts[i].begin : end;
  }
  pthread_mutex_unlock(&lock);
  return all;
}

void tsr_advice_forget(uint64_t begin, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  if (count && make_room(2)) {
    split(begin);
    split(begin + bytes);
    const size_t from = first_from(begin), to = first_from(begin + bytes);
    memmove(&parts[from], &parts[to], (count - to) * sizeof *parts);
    count -= to - from;
  }
  pthread_mutex_unlock(&lock);
}
