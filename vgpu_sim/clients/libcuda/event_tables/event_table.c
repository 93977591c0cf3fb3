#include "event_tables/event_table.h"

#include <stdlib.h>

#include "base/refuse.h"
#include "log.h"
#include "memory/memory.h"

struct table {
  struct table *next;
  struct tsr_context *context;
  tessera_event_table *content;
  uint64_t id;
  uint32_t participant;
  uint64_t number;                           /* of the participant; 0: this is its own table */
  uint64_t used[TESSERA_EVENT_STATES / 64 + 1]; /* bitmap of an own table's events */
};

/* Guards the list, and the tables' mappings. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* So that a context makes one table; before `lock`. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct table *tables;
static uint64_t next_id = 1;

static uint64_t load(const uint64_t *place) { return __atomic_load_n(place, __ATOMIC_SEQ_CST); }

static uint64_t number_of(const tessera_event_record *record) {
  return load(&record->claimed) >> TESSERA_EVENT_NUMBER_SHIFT;
}

static struct table *find(uint64_t address, uint64_t id) {
  struct table *one = tables;
  while (one && ((uint64_t)(uintptr_t)one->content != address || (id && one->id != id)))
    one = one->next;
  return one;
}

static struct table *find_own(const struct tsr_context *context) {
  struct table *one = tables;
  while (one && (one->context != context || one->number)) one = one->next;
  return one;
}

static CUresult add(struct tsr_context *context, uint64_t address, uint64_t number) {
  struct table *made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  made->content = (tessera_event_table *)(uintptr_t)address;
  made->number = number;
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  if (!tsr_object_lives(context)) result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (result == CUDA_SUCCESS && number) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 1; i < TESSERA_EVENT_PARTICIPANTS && result != CUDA_SUCCESS; i++) {
      uint64_t unused = 0;
      if (!__atomic_compare_exchange_n(&made->content->participants[i], &unused, number, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
      made->participant = i;
      result = CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS)
      tsr_log("at most %d contexts can open the interprocess events of one context",
              (int)TESSERA_EVENT_PARTICIPANTS - 1);
  }
  if (result == CUDA_SUCCESS) {
    made->id = next_id++;
    made->next = tables;
    tables = made;
  }
  pthread_mutex_unlock(&lock);
  if (result != CUDA_SUCCESS) free(made);
  return result;
}

static bool is_pending(const tessera_event_state *state) {
  for (uint32_t i = 0; i < TESSERA_EVENT_RECORDS; i++) {
    const uint64_t done = load(&state->records[i].done);
    if (done != number_of(&state->records[i]) && !(done & TESSERA_EVENT_LOST)) return true;
  }
  return false;
}

/* Under the lock. A place is not used again while requests will still write its records. */
static bool take_place(struct table *own, struct tsr_event_place *place) {
  for (uint32_t i = 0; i < TESSERA_EVENT_STATES; i++) {
    tessera_event_state *state = &own->content->states[i];
    if (own->used[i / 64] >> (i % 64) & 1 || is_pending(state)) continue;
    own->used[i / 64] |= UINT64_C(1) << (i % 64);
    __atomic_store_n(&state->latest, 0, __ATOMIC_SEQ_CST);
    *place = (struct tsr_event_place){.table = (uint64_t)(uintptr_t)own->content,
                                      .table_id = own->id,
                                      .index = i,
                                      .generation = 1 + __atomic_fetch_add(&state->generation, 1,
                                                                           __ATOMIC_SEQ_CST)};
    return true;
  }
  tsr_log("a context has at most %d interprocess events", (int)TESSERA_EVENT_STATES);
  return false;
}

static CUresult make_table(struct tsr_context *context) {
  uint64_t address;
  const struct tsr_sort sort = {.use = TSR_USE_EVENTS};
  CUresult result =
      tsr_memory_allocate(context, sort, sizeof(tessera_event_table), &address);
  if (result != CUDA_SUCCESS) return result;
  result = add(context, address, 0);
  if (result != CUDA_SUCCESS) tsr_memory_release(address, TSR_USE_EVENTS);
  return result;
}

CUresult tsr_event_place_new(struct tsr_context *context, struct tsr_event_place *place) {
  if (!(context->page->features & TESSERA_FEATURE_EVENTS))
    TSR_REFUSE("an interprocess event with a worker of an older version");
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&making);
  pthread_mutex_lock(&lock);
  struct table *own = find_own(context);
  pthread_mutex_unlock(&lock);
  if (!own) result = make_table(context);
  pthread_mutex_unlock(&making);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&lock);
  own = find_own(context);
  if (!own)
    result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  else if (!take_place(own, place))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&lock);
  return result;
}

void tsr_event_place_give(const struct tsr_event_place *place) {
  pthread_mutex_lock(&lock);
  struct table *own = find(place->table, place->table_id);
  if (own && !own->number) {
    __atomic_fetch_add(&own->content->states[place->index].generation, 1, __ATOMIC_SEQ_CST);
    own->used[place->index / 64] &= ~(UINT64_C(1) << (place->index % 64));
  }
  pthread_mutex_unlock(&lock);
}

CUresult tsr_event_table_enter(struct tsr_context *context, uint64_t address,
                               uint64_t participant) {
  return add(context, address, participant);
}

static void remove_matching(uint64_t address, const struct tsr_context *context) {
  pthread_mutex_lock(&lock);
  for (struct table **link = &tables; *link;) {
    struct table *one = *link;
    if (context ? one->context != context : (uint64_t)(uintptr_t)one->content != address) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    free(one);
  }
  pthread_mutex_unlock(&lock);
}

void tsr_event_table_leave(uint64_t address) { remove_matching(address, NULL); }

void tsr_event_tables_drop(const struct tsr_context *context) { remove_matching(0, context); }

/* Find an event's state, under the lock. */
static CUresult state_of(const struct tsr_event_place *place, struct table **table,
                         tessera_event_state **state) {
  *table = find(place->table, place->table_id);
  if (!*table) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *state = &(*table)->content->states[place->index];
  return load(&(*state)->generation) == place->generation ? CUDA_SUCCESS
                                                          : CUDA_ERROR_INVALID_HANDLE;
}

CUresult tsr_event_place_at(uint64_t address, uint32_t index, uint64_t generation,
                            struct tsr_event_place *place) {
  if (index >= TESSERA_EVENT_STATES) return CUDA_ERROR_INVALID_HANDLE;
  struct tsr_event_place found = {.table = address, .index = index, .generation = generation};
  struct table *table;
  tessera_event_state *state;
  pthread_mutex_lock(&lock);
  const CUresult result = state_of(&found, &table, &state);
  if (result == CUDA_SUCCESS) {
    found.table_id = table->id;
    *place = found;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

/* Whether this context may record: neither it nor the table's maker counts as ended. */
static bool takes_part(const struct table *table) {
  return !load(&table->content->ended) &&
         (!table->number || load(&table->content->participants[table->participant]) == table->number);
}

static uint64_t done_address(const tessera_event_record *record) {
  return (uint64_t)(uintptr_t)&record->done;
}

static CUresult claim(const struct table *table, tessera_event_state *state,
                      const struct tsr_event_record *again, struct tsr_event_record *record) {
  for (uint32_t i = 0; i < TESSERA_EVENT_RECORDS; i++) {
    tessera_event_record *one = &state->records[i];
    uint64_t claimed = load(&one->claimed);
    const uint64_t number = claimed >> TESSERA_EVENT_NUMBER_SHIFT;
    const bool mine = again && again->done == done_address(one) && again->number == number;
    if (load(&one->done) != number && !mine) continue;
    const uint64_t next = ((number + 1) << TESSERA_EVENT_NUMBER_SHIFT) | table->participant;
    if (!__atomic_compare_exchange_n(&one->claimed, &claimed, next, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
      continue;
    *record = (struct tsr_event_record){
        .word = ((number + 1) << TESSERA_EVENT_NUMBER_SHIFT) | (i + 1),
        .done = done_address(one),
        .number = number + 1};
    if (takes_part(table)) return CUDA_SUCCESS;
    __atomic_fetch_or(&one->done, TESSERA_EVENT_LOST, __ATOMIC_SEQ_CST);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  tsr_log("an interprocess event has at most %d records that are not done",
          (int)TESSERA_EVENT_RECORDS);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_event_claim(const struct tsr_event_place *place, const struct tsr_event_record *again,
                         struct tsr_event_record *record) {
  struct table *table;
  tessera_event_state *state;
  pthread_mutex_lock(&lock);
  CUresult result = state_of(place, &table, &state);
  if (result == CUDA_SUCCESS) result = claim(table, state, again, record);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_event_publish(const struct tsr_event_place *place,
                           const struct tsr_event_record *record) {
  struct table *table;
  tessera_event_state *state;
  pthread_mutex_lock(&lock);
  const CUresult result = state_of(place, &table, &state);
  if (result == CUDA_SUCCESS) __atomic_store_n(&state->latest, record->word, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&lock);
  return result;
}

static enum tsr_record_state stand(const struct table *table,
                                   const struct tsr_event_record *record) {
  const bool ended = load(&table->content->ended) != 0; /* read first */
  const uint64_t done = load((const uint64_t *)(uintptr_t)record->done);
  if ((int64_t)((done & ~TESSERA_EVENT_LOST) - record->number) >= 0) return TSR_RECORD_DONE;
  return ended || done & TESSERA_EVENT_LOST ? TSR_RECORD_NEVER : TSR_RECORD_PENDING;
}

CUresult tsr_event_look(const struct tsr_event_place *place, struct tsr_event_record *record,
                        enum tsr_record_state *how) {
  struct table *table;
  tessera_event_state *state;
  pthread_mutex_lock(&lock);
  const CUresult result = state_of(place, &table, &state);
  if (result == CUDA_SUCCESS) {
    *record = (struct tsr_event_record){.word = load(&state->latest)};
    *how = TSR_RECORD_DONE;
    const uint64_t index = record->word & ((1u << TESSERA_EVENT_NUMBER_SHIFT) - 1);
    if (index > 0 && index <= TESSERA_EVENT_RECORDS) {
      record->number = record->word >> TESSERA_EVENT_NUMBER_SHIFT;
      record->done = done_address(&state->records[index - 1]);
      *how = stand(table, record);
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_event_look_again(const struct tsr_event_place *place,
                              const struct tsr_event_record *record,
                              enum tsr_record_state *how) {
  struct table *table;
  tessera_event_state *state;
  pthread_mutex_lock(&lock);
  CUresult result = state_of(place, &table, &state);
  if (result == CUDA_ERROR_INVALID_HANDLE) result = CUDA_SUCCESS; /* its records remain */
  if (result == CUDA_SUCCESS) *how = stand(table, record);
  pthread_mutex_unlock(&lock);
  return result;
}
