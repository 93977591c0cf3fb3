/* User objects: data of the program that lives as long as the graphs that hold it. */
#include <stdlib.h>

#include "base/try_lock.h"
#include "callbacks/later.h"
#include "nodes/graph.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool due; /* something may have to be released */
static struct tsr_user_object *dead; /* guarded by the lock */

void tsr_graphs_lock(void) { pthread_mutex_lock(&lock); }

void tsr_graphs_wait(pthread_cond_t *changed) { pthread_cond_wait(changed, &lock); }

static void unlock(void) {
  atomic_store(&due, false);
  tsr_later_sweep();
  struct tsr_user_object *list = dead;
  dead = NULL;
  pthread_mutex_unlock(&lock);
  while (list) {
    struct tsr_user_object *object = list;
    list = object->next_dead;
    object->destroy(object->data);
    tsr_object_free(TSR_USER_OBJECT, object);
  }
}

void tsr_graphs_unlock(void) {
  do unlock();
  while (atomic_load(&due) && tsr_try_lock(&lock));
}

/* A thread that holds the lock now looks for releases when it unlocks. */
void tsr_graphs_sweep(void) {
  atomic_store(&due, true);
  if (tsr_try_lock(&lock)) tsr_graphs_unlock();
}

CUresult tsr_user_object_release(struct tsr_user_object *object, uint64_t count) {
  if (count == 0 || count > object->references) return CUDA_ERROR_INVALID_VALUE;
  object->references -= count;
  if (object->references > 0) return CUDA_SUCCESS;
  tsr_object_retire(TSR_USER_OBJECT, tsr_object_handle(TSR_USER_OBJECT, object));
  object->next_dead = dead;
  dead = object;
  return CUDA_SUCCESS;
}

static struct tsr_held_object *find(struct tsr_graph *graph, const struct tsr_user_object *object) {
  for (uint32_t i = 0; i < graph->held_count; i++)
    if (graph->held[i].object == object) return &graph->held[i];
  return NULL;
}

CUresult tsr_graph_hold(struct tsr_graph *graph, struct tsr_user_object *object, uint32_t count) {
  struct tsr_held_object *held = find(graph, object);
  if (!held) {
    if (graph->held_count == graph->held_room) {
      const uint32_t room = graph->held_room ? 2 * graph->held_room : 4;
      struct tsr_held_object *list = realloc(graph->held, room * sizeof *list);
      if (!list) return CUDA_ERROR_OUT_OF_MEMORY;
      graph->held = list;
      graph->held_room = room;
    }
    held = &graph->held[graph->held_count++];
    *held = (struct tsr_held_object){.object = object};
  }
  held->references += count;
  return CUDA_SUCCESS;
}

CUresult tsr_graph_unhold(struct tsr_graph *graph, struct tsr_user_object *object,
                          uint32_t count) {
  struct tsr_held_object *held = find(graph, object);
  if (!held || held->references < count) return CUDA_ERROR_INVALID_VALUE;
  held->references -= count;
  if (held->references == 0) *held = graph->held[--graph->held_count];
  return tsr_user_object_release(object, count);
}
