/* Carries out runs under all schedules: a depth-first search over all decisions. A run repeats the
 * decisions of the one before up to the last that has an alternative. It ends where it reaches a
 * state that was seen before, because all that follows has been tried from there.
 *
 * A state is all that a run can read: the program's variables, and of each thread the used part of
 * its stack, its registers, its stores that are not yet visible, and what it waits for. A hash of
 * 64 bits stands for it. An access to a word is a step only if another thread writes the word, or
 * accesses what this one writes: other accesses commute with all that others do. Which words these
 * are is found on the way; whenever another one is found, the search begins again.
 *
 * Time is no part of a state: of two readings of the clock by one thread the
 * second is a second later, and a wait with a time limit may end at any moment. x86-64 only. */
#include "schedules_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DECISIONS = 1 << 16, STEPS_LIMIT = 1 << 20, PARTS = 8, WORDS = 1 << 12 };
enum { FIRST_ROOM = 1 << 12, MOST_ROOM = 1 << 28 }; /* of states: at most 2 GiB */
enum { REGISTERS_BYTES = 48 }; /* saved below the frame's address by a function that uses all */

#define m schedules_model

/* Allocated, so that it is not restored before each run. */
static struct search {
  struct {
    uint32_t chosen, count;
  } decisions[MOST_DECISIONS];
  uint32_t made, known;
  const char *live[FIBERS]; /* lowest address that a thread which does not run will read */
  bool late[FIBERS];        /* the clock's next reading is the later one */
  struct {
    const void *place;
    size_t bytes;
  } parts[PARTS]; /* of the memory that is zeroed: what the program uses */
  uint32_t part_count;
  struct word {
    const volatile void *place;
    uint64_t readers, writers; /* threads, as bits */
  } words[WORDS];
  bool begins_again;
  bool apart; /* each thread has a CPU */
  uint64_t switches, most_switches; /* from a thread that could have continued */
  uint64_t *seen, room, states, steps; /* seen: a hash table with open addressing */
} *search;

static void make_search(void) {
  if (search == NULL) search = calloc(1, sizeof *search);
}

void add_to_state(const void *place, size_t bytes) {
  make_search();
  if (search->part_count == PARTS) abort();
  search->parts[search->part_count].place = place;
  search->parts[search->part_count++].bytes = bytes;
}

/* ---- states ---- */

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
  return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const void *from, size_t bytes) {
  const uint64_t *words = from;
  for (size_t i = 0; i < bytes / 8; i++) hash = mix(hash, words[i]);
  return hash;
}

static uint64_t mix_fiber(uint64_t hash, uint32_t index, const char *live) {
  const fiber *f = &m->fibers[index];
  hash = mix(hash, (uint64_t)(uintptr_t)f->futex ^ (uint64_t)(f->until_ns != 0) << 62 ^
                       (uint64_t)f->alive << 61 ^ (uint64_t)f->begun << 60);
  hash = mix(hash, search->late[index] | (uint64_t)f->buffered << 8);
  for (uint32_t i = 0; i < f->buffered; i++) {
    const store *s = &f->stores[i];
    uint64_t value = 0;
    memcpy(&value, s->value, s->bytes);
    hash = mix(hash, (uint64_t)(uintptr_t)s->place);
    hash = mix(hash, value);
    hash = mix(hash, (uint64_t)(f->epoch - s->epoch) << 8 | (uint64_t)s->ordered << 1 | s->total);
  }
  if (!f->begun || !f->alive) return hash;
  return mix_bytes(hash, live, (size_t)(f->stack + STACK_BYTES - live));
}

static uint64_t hash_state(const char *live) {
  uint64_t hash = mix(m->running << 8 | m->count, search->switches);
  hash = mix_bytes(hash, __data_start, VARIABLE_BYTES);
  for (uint32_t i = 0; i < search->part_count; i++)
    hash = mix_bytes(hash, search->parts[i].place, search->parts[i].bytes);
  for (uint32_t i = 0; i < m->count; i++) {
    hash = mix_fiber(hash, i, i == m->running ? live : search->live[i]);
    if (i != m->running && m->fibers[i].begun)
      hash = mix_bytes(hash, m->fibers[i].kept, LOCAL_BYTES);
  }
  return hash | 1; /* 0: no state */
}

static uint64_t *place_of(uint64_t hash) {
  const uint64_t mask = search->room - 1;
  uint64_t at = hash >> 3 & mask;
  while (search->seen[at] != 0 && search->seen[at] != hash) at = (at + 1) & mask;
  return &search->seen[at];
}

static void make_room(void) {
  uint64_t *const before = search->seen;
  const uint64_t room = search->room;
  if (room == MOST_ROOM) {
    printf("more than %llu states\n", (unsigned long long)search->states);
    exit(2);
  }
  search->room = room == 0 ? FIRST_ROOM : 2 * room;
  search->seen = calloc(search->room, sizeof *search->seen);
  for (uint64_t i = 0; i < room; i++)
    if (before[i] != 0) *place_of(before[i]) = before[i];
  free(before);
}

/* Whether the state was seen before; from now on it was. */
static bool is_seen(uint64_t hash) {
  if (search->states >= search->room / 2) make_room();
  uint64_t *const place = place_of(hash);
  if (*place == hash) return true;
  *place = hash;
  search->states++;
  return false;
}

static void forget_states(void) {
  free(search->seen);
  search->seen = NULL;
  search->room = search->states = 0;
}

/* ---- decisions ---- */

static bool is_repeated(void) { return search->made < search->known; }

static uint32_t decide(uint32_t count) {
  if (count < 2) return 0;
  if (search->made == MOST_DECISIONS) abort();
  if (!is_repeated()) {
    search->decisions[search->known].chosen = 0;
    search->decisions[search->known++].count = count;
  }
  return search->decisions[search->made++].chosen;
}

uint64_t draw(uint64_t below) { return decide((uint32_t)below); }

static bool may_run(const fiber *f) {
  return f->alive && (f->futex == NULL || f->until_ns != 0);
}

static void resume(uint32_t next, const char *live) {
  search->live[m->running] = live;
  m->fibers[next].futex = NULL;
  resume_fiber(next);
}

/* Decide what happens next: the running thread continues, another one does, or a store becomes
 * visible and the decision is repeated. A thread that cannot continue is no alternative. */
static void decide_next(const char *live, bool may_continue) {
  const bool may_switch = search->switches < search->most_switches;
  if (++search->steps == STEPS_LIMIT) end_run("it does not end");
  for (;;) {
    struct {
      uint32_t fiber, store;
    } others[FIBERS * (1 + BUFFER)];
    uint32_t count = 0;
    if (!is_repeated() && is_seen(hash_state(live))) end_run(NULL);
    for (uint32_t i = 0; i < m->count; i++) {
      const fiber *f = &m->fibers[i];
      if ((may_continue ? may_switch && i != m->running : true) && may_run(f)) {
        others[count].fiber = i;
        others[count++].store = BUFFER;
      }
      for (uint32_t k = 0; k < f->buffered; k++) {
        if (!may_drain(f, k)) continue;
        others[count].fiber = i;
        others[count++].store = k;
      }
    }
    if (count + may_continue == 0) end_run("all sleep");
    const uint32_t chosen = decide(count + may_continue);
    if (chosen == count) return;
    if (others[chosen].store == BUFFER) {
      search->switches += may_continue;
      return resume(others[chosen].fiber, live);
    }
    drain(&m->fibers[others[chosen].fiber], others[chosen].store);
  }
}

static struct word *find_word(const volatile void *place) {
  uint64_t at = mix(0, (uint64_t)(uintptr_t)place) % WORDS;
  while (search->words[at].place != place && search->words[at].place != NULL) at = (at + 1) % WORDS;
  search->words[at].place = place;
  return &search->words[at];
}

static bool is_shared(const struct word *word, uint64_t reader) {
  return (word->writers & ~reader) != 0 || ((word->writers & reader) && (word->readers & ~reader));
}

/* Whether any thread's accesses to the word are steps. */
static bool is_shared_word(const struct word *word) {
  for (uint64_t left = word->readers | word->writers; left; left &= left - 1)
    if (is_shared(word, left & -left)) return true;
  return false;
}

/* Note an access; the search begins again if accesses to this word were no steps before. */
static bool note_access(const volatile void *place, bool writes) {
  struct word *word = find_word(place);
  const uint64_t reader = UINT64_C(1) << m->running;
  const bool was = is_shared_word(word);
  *(writes ? &word->writers : &word->readers) |= reader;
  if (is_shared_word(word) && !was) {
    search->begins_again = true;
    end_run(NULL);
  }
  return is_shared_word(word);
}

/* The caller's registers are on the stack, directly below the frame's address. */
#define LIVE() \
  (__builtin_unwind_init(), (const char *)__builtin_frame_address(0) - REGISTERS_BYTES)

__attribute__((noinline)) void switch_to_another(void) {
  if (m->running == NO_FIBER) return resume_fiber(decide(m->count));
  decide_next(LIVE(), false);
}

__attribute__((noinline)) void schedules_step(void) {
  if (running_fiber() != NULL) decide_next(LIVE(), true);
}

void schedules_pause(void) {} /* a later step of another thread is tried, too */

bool step_at(const volatile void *place, bool writes) {
  if (running_fiber() == NULL) return false;
  if (place != NULL && !note_access(place, writes)) return false;
  schedules_step();
  return true;
}

int schedules_clock(struct timespec *time) {
  *time = (struct timespec){.tv_sec = running_fiber() != NULL && search->late[m->running]};
  if (running_fiber() != NULL) search->late[m->running] ^= true;
  return 0;
}

int schedules_cpu(void) { return running_fiber() != NULL && search->apart ? (int)m->running : 0; }

bool schedules_spurious(bool weak) { return weak && running_fiber() != NULL && draw(2); }

static bool next_schedule(void) {
  if (search->begins_again) {
    search->begins_again = false;
    search->known = 0;
    forget_states();
    return true;
  }
  while (search->known > 0 && search->decisions[search->known - 1].chosen + 1 ==
                                  search->decisions[search->known - 1].count)
    search->known--;
  if (search->known == 0) return false;
  search->decisions[search->known - 1].chosen++;
  return true;
}

int run_schedules(int argc, char **argv, uint64_t runs, void (*begin)(void)) {
  make_search();
  prepare_runs();
  m->weak = argc > 1 && strstr(argv[1], "arm") != NULL;
  const char *bound = argc > 1 ? strstr(argv[1], "switches=") : NULL;
  search->most_switches = bound ? strtoull(bound + strlen("switches="), NULL, 10) : UINT64_MAX;
  search->apart = argc > 1 && strstr(argv[1], "apart") != NULL;
  uint64_t carried_out = 0;
  do {
    search->made = 0;
    search->steps = search->switches = 0;
    memset(search->late, 0, sizeof search->late);
    const char *why = carry_out_run(begin);
    carried_out++;
    if (why == NULL) continue;
    printf("%s, in schedule %llu\n", why, (unsigned long long)carried_out);
    return 1;
  } while (next_schedule() && carried_out < runs);
  printf("ok: %llu states, %llu schedules\n", (unsigned long long)search->states,
         (unsigned long long)carried_out);
  return 0;
}
