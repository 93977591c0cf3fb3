/* All programs of two streams and two events, and all orders in which a worker may carry out their
 * requests: what the protocol orders (docs/launch-protocol.md, "What happens before what") is never
 * reversed, and what it does not order may run in either order.
 *
 * An operation is work, the record of an event, or a wait for one. Arguments: operations per
 * stream; the streams: `bb` two blocking ones, `lb` the legacy stream and a blocking one, `ln` the
 * legacy stream and a non-blocking one. The rings are the client library's (ring.c, wait.c); the
 * worker is as free as the protocol lets it be, and may run at any point of the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/ring.h"
#include "exchange/wait.h"

enum { STREAMS = 2, EVENTS = 2, KINDS = 1 + 2 * EVENTS, MOST = 8, MOST_STATES = 1 << 12 };
enum { WORK = 0 }; /* then records of each event, then waits for each */

static struct {
  struct tsr_context context;
  tessera_worker_page page;
  tessera_wait events[EVENTS];             /* value 0: not recorded */
  uint32_t made, tails[STREAMS];           /* operations enqueued; requests carried out */
  uint8_t order_of[STREAMS][MOST + 1];     /* the operation of each request */
  uint16_t done;                           /* operations, as bits */
} now;
static tessera_client_area *area;

static struct operation {
  uint8_t stream, kind;
} program[MOST];
static uint32_t count, index_of[STREAMS]; /* of the streams, in the context */
static uint16_t earlier[MOST];           /* operations that must be done before this one */
static uint16_t reversed[MOST];          /* later operations that were done before this one */
static uint64_t seen[MOST_STATES];
static unsigned long programs, states;

static bool is_record(const struct operation *o) { return o->kind > WORK && o->kind <= EVENTS; }
static bool is_wait(const struct operation *o) { return o->kind > EVENTS; }
static uint32_t event_of(const struct operation *o) { return (o->kind - 1u) % EVENTS; }

static void fail(const char *why) {
  printf("%s:", why);
  for (uint32_t i = 0; i < count; i++) {
    const char *kind = program[i].kind == WORK ? "work" : is_wait(&program[i]) ? "wait" : "record";
    printf(" %u.%s", program[i].stream, kind);
    if (program[i].kind != WORK) printf("(%u)", event_of(&program[i]));
  }
  printf("\n");
  exit(1);
}

/* ---- what the protocol says ---- */

static void order_operations(void) {
  const bool legacy = index_of[0] == TSR_LEGACY_STREAM &&
                      tsr_is_blocking(&now.context, index_of[1]);
  for (uint32_t i = 0; i < count; i++) {
    earlier[i] = reversed[i] = 0;
    for (uint32_t j = 0; j < i; j++)
      if (legacy || program[i].stream == program[j].stream)
        earlier[i] |= (uint16_t)(1 << j | earlier[j]);
    if (!is_wait(&program[i])) continue;
    for (uint32_t j = i; j-- > 0;) {
      if (!is_record(&program[j]) || event_of(&program[j]) != event_of(&program[i])) continue;
      earlier[i] |= (uint16_t)(1 << j | earlier[j]);
      break; /* the last record before the wait counts */
    }
  }
}

/* ---- the program and the worker ---- */

static void enqueue(uint32_t i) {
  const struct operation *o = &program[i];
  const uint32_t stream = index_of[o->stream];
  tessera_wait *event = &now.events[event_of(o)];
  if (is_wait(o)) { /* as cuStreamWaitEvent does */
    if (event->value == 0 || tsr_reached(&now.context, event->stream, event->value)) {
      now.done |= (uint16_t)(1 << i); /* there is nothing to wait for, and no request */
      return;
    }
    tsr_ring_wait(&now.context, stream, event, event->stream != stream);
  } else {
    struct tsr_request request;
    tsr_ring_lock(&request, &now.context, stream);
    tsr_ring_begin(&request, TESSERA_OPCODE_NOP, 0, NULL);
    const uint64_t value = tsr_ring_commit(&request);
    if (is_record(o)) *event = (tessera_wait){.stream = stream, .value = value};
  }
  const uint64_t last = tsr_ring_last(&now.context, stream);
  if (last > MOST) fail("more requests than operations");
  now.order_of[o->stream][last - 1] = (uint8_t)i;
}

static const tessera_slot *next_slot(uint32_t s) {
  if (now.tails[s] == tsr_ring_last(&now.context, index_of[s])) return NULL;
  return &area->rings[index_of[s]].slots[now.tails[s] % TESSERA_SLOTS_PER_STREAM];
}

static bool may_start(const tessera_slot *slot) {
  if (!slot) return false;
  for (uint32_t i = 0; i < slot->wait_count; i++)
    if (now.page.timeline[slot->waits[i].stream] < slot->waits[i].value) return false;
  return true;
}

static void carry_out(uint32_t s) {
  const uint32_t i = now.order_of[s][now.tails[s]];
  for (uint32_t j = i + 1; j < count; j++)
    if (now.done >> j & 1) reversed[i] |= (uint16_t)(1 << j);
  if (earlier[i] & ~now.done) fail("a request runs before one that it follows");
  now.tails[s]++;
  now.page.tail[index_of[s]] = now.tails[s];
  now.page.timeline[index_of[s]] = now.tails[s];
  now.done |= (uint16_t)(1 << i);
}

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash + word + 1) * UINT64_C(0x9fb21c651e98df25);
  return hash ^ hash >> 32;
}

/* Whether this state of the program was reached before. The waits of requests that are not carried
 * out are part of it, because the client leaves out those that are reached. */
static bool is_seen(void) {
  uint64_t hash = mix(0, now.made);
  for (uint32_t s = 0; s < STREAMS; s++) {
    hash = mix(hash, now.tails[s]);
    for (uint64_t at = now.tails[s]; at < tsr_ring_last(&now.context, index_of[s]); at++) {
      const tessera_slot *slot = &area->rings[index_of[s]].slots[at % TESSERA_SLOTS_PER_STREAM];
      for (uint32_t i = 0; i < slot->wait_count; i++)
        if (now.page.timeline[slot->waits[i].stream] < slot->waits[i].value)
          hash = mix(hash, at << 32 ^ slot->waits[i].stream << 16 ^ slot->waits[i].value);
    }
  }
  hash |= 1;
  uint32_t place = (uint32_t)(hash >> 20) % MOST_STATES;
  for (; seen[place]; place = (place + 1) % MOST_STATES)
    if (seen[place] == hash) return true;
  seen[place] = hash;
  states++;
  return false;
}

static void explore(void) {
  if (is_seen()) return;
  const __typeof__(now) before = now;
  bool any = false;
  for (uint32_t s = 0; s < STREAMS; s++) {
    if (!may_start(next_slot(s))) continue;
    carry_out(s);
    explore();
    now = before;
    any = true;
  }
  if (now.made < count) {
    tessera_slot kept[STREAMS]; /* the client writes one slot of one ring */
    for (uint32_t s = 0; s < STREAMS; s++)
      kept[s] = area->rings[index_of[s]].slots[tsr_ring_last(&now.context, index_of[s]) %
                                               TESSERA_SLOTS_PER_STREAM];
    enqueue(now.made++);
    explore();
    now = before;
    for (uint32_t s = 0; s < STREAMS; s++)
      area->rings[index_of[s]].slots[tsr_ring_last(&now.context, index_of[s]) %
                                     TESSERA_SLOTS_PER_STREAM] = kept[s];
    any = true;
  }
  if (!any && now.done != (1 << count) - 1) fail("requests wait for one another");
}

static void check_program(void) {
  memset(&now, 0, sizeof now);
  memset(area, 0, offsetof(tessera_client_area, rings));
  memset(seen, 0, sizeof seen);
  now.context.area = area;
  now.context.page = &now.page;
  tsr_ring_setup(&now.context);
  area->stream_limit = 4;
  atomic_store(&now.context.blocking[0], 6); /* streams 1 and 2 */
  order_operations();
  explore();
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t j = i + 1; j < count; j++) {
      /* A wait for nothing is no request. */
      const bool free = !(earlier[j] >> i & 1) && !is_wait(&program[i]) && !is_wait(&program[j]);
      if (free && !(reversed[i] >> j & 1)) fail("requests that are not ordered run in one order");
    }
  programs++;
}

/* Append all operations; the first event that a program names is event 0. */
static void append(uint32_t left[STREAMS], uint32_t named) {
  if (left[0] + left[1] == 0) return check_program();
  for (uint8_t s = 0; s < STREAMS; s++) {
    if (left[s] == 0) continue;
    left[s]--;
    for (uint8_t kind = 0; kind < KINDS; kind++) {
      program[count] = (struct operation){s, kind};
      const uint32_t event = event_of(&program[count]);
      if (kind != WORK && event > named) continue;
      count++;
      append(left, kind != WORK && event == named && named < EVENTS - 1 ? named + 1 : named);
      count--;
    }
    left[s]++;
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const uint32_t each = (uint32_t)atoi(argv[1]);
  if (each == 0 || STREAMS * each > MOST) return 2;
  index_of[0] = argv[2][0] == 'l' ? TSR_LEGACY_STREAM : 1;
  index_of[1] = argv[2][1] == 'n' ? 3 : 2;
  area = calloc(1, sizeof *area);
  append((uint32_t[STREAMS]){each, each}, 0);
  printf("ok: %lu programs, %lu states\n", programs, states);
  return 0;
}
