#include "objects.h"

#include <pthread.h>
#include <stdlib.h>

enum { BUCKETS = 4096, ALIGNMENT = 16 };

struct object {
  struct object *next;
  uint32_t kind;
  _Alignas(ALIGNMENT) unsigned char payload[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *buckets[BUCKETS]; /* with lock */
static uint32_t count;                  /* with lock */

static struct object **bucket_of(const void *handle) {
  return &buckets[((uintptr_t)handle / ALIGNMENT * UINT64_C(0x9E3779B97F4A7C15)) >> 52];
}

/* Return the place that points to the object, or NULL. The caller holds the lock. */
static struct object **find(const void *handle, uint32_t kind) {
  for (struct object **place = bucket_of(handle); *place; place = &(*place)->next)
    if ((*place)->payload == handle) return (*place)->kind == kind ? place : NULL;
  return NULL;
}

void *tsr_object_new(uint32_t kind, size_t bytes) {
  struct object *made = calloc(1, sizeof *made + bytes);
  if (!made) return NULL;
  made->kind = kind;
  pthread_mutex_lock(&lock);
  const bool fits = count < TSR_MAX_OBJECTS;
  if (fits) {
    struct object **bucket = bucket_of(made->payload);
    made->next = *bucket;
    *bucket = made;
    ++count;
  }
  pthread_mutex_unlock(&lock);
  if (fits) return made->payload;
  free(made);
  return NULL;
}

void *tsr_object_find(const void *handle, uint32_t kind) {
  pthread_mutex_lock(&lock);
  struct object **place = find(handle, kind);
  void *found = place ? (*place)->payload : NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

bool tsr_object_free(const void *handle, uint32_t kind) {
  pthread_mutex_lock(&lock);
  struct object **place = find(handle, kind);
  struct object *gone = place ? *place : NULL;
  if (gone) {
    *place = gone->next;
    --count;
  }
  pthread_mutex_unlock(&lock);
  free(gone);
  return gone;
}
