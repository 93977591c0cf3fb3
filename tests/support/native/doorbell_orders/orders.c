/* Executes the engine's thread and a program's threads, which ring its doorbell, in all orders
 * of their visible steps: a load or a store of a word of the program's page, its pipe, a poll
 * for doorbells. Each thread is a coroutine. An order is a list of choices; the next one differs
 * in the last choice that has an alternative.
 *
 * Everything except these steps is the engine's (engine.c, doorbell.c, collect.c, share.c) and
 * the library's (ring.c) own code, and the kernel's pipes and epoll. Exits with status 1 if the
 * engine sleeps although the program has sent a request. Arguments: threads; each one's requests
 * (q, s or a); nanoseconds between two readings of the clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "command/command.h"
#include "base/internal.h"

enum { RINGERS = 2, ACTORS = RINGERS + 1, ENGINE = RINGERS, MOST_CHOICES = 4096, STACK = 1 << 18 };

static struct actor {
  ucontext_t context;
  bool done, blocked;
  char stack[STACK];
} actors[ACTORS];
static ucontext_t scheduler;
static struct actor *running;
static struct {
  unsigned char chosen, count;
} choices[MOST_CHOICES];
static unsigned made, known;
static struct tsr_context program;
static const char *requests;
static uint64_t now_ns, pace_ns;
static void *(*run_engine)(void *);
static void *engine;
static unsigned long steps;

void model_step(void) {
  steps++;
  if (running) swapcontext(&running->context, &scheduler);
}

/* Accesses to words that carry no request are not steps: neither side writes to these words. */
void model_access(const volatile void *address) {
  const tessera_hca_client_page *page = program.page;
  if (address == &page->sleeping || (address == &page->dirty[0] && strchr(requests, 'q')) ||
      (address == &page->dirty_srqs[0] && strchr(requests, 's')) ||
      (address == &page->armed && strchr(requests, 'a')))
    model_step();
}

int model_epoll_wait(int fd, struct epoll_event *events, int room, int limit_ms) {
  model_step();
  for (;;) {
    const int count = epoll_wait(fd, events, room, 0);
    if (count != 0 || limit_ms == 0) return count;
    running->blocked = true;
    swapcontext(&running->context, &scheduler);
  }
}

int model_clock(struct timespec *now) {
  now_ns += pace_ns;
  *now = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
  return 0;
}

int model_thread(void *(*run)(void *), void *argument) {
  run_engine = run;
  engine = argument;
  return 0;
}

int model_mask(void) { return -1; }

bool hca_wire_poll(struct hca *hca) {
  (void)hca;
  return false;
}
bool hca_turn(struct hca *hca, struct hca_qp *qp) {
  (void)hca;
  (void)qp;
  abort(); /* there is no queue pair: the engine only takes bits */
}
void hca_memory_guard(void) {}
int hca_absent_open(void) { return -1; }
void tsr_log(const char *format, ...) { (void)format; }
void tsr_mark_lost(struct tsr_context *context) {
  (void)context;
  abort(); /* the engine's end of the pipe stays open in every order */
}

static void act(int which) {
  if (which == ENGINE) run_engine(engine);
  for (unsigned i = (unsigned)which; i < strlen(requests); i += RINGERS) {
    if (requests[i] == 'q') tsr_ring(&program, 0);
    if (requests[i] == 's') tsr_ring_srq(&program, 0);
    if (requests[i] == 'a') tsr_ring_armed(&program);
  }
  actors[which].done = true;
  swapcontext(&actors[which].context, &scheduler);
}

static void begin(int which) {
  struct actor *actor = &actors[which];
  actor->done = actor->blocked = false;
  getcontext(&actor->context);
  actor->context.uc_stack.ss_sp = actor->stack;
  actor->context.uc_stack.ss_size = STACK;
  makecontext(&actor->context, (void (*)(void))act, 1, which);
}

static bool can_run(struct actor *actor) {
  struct epoll_event event;
  if (actor->done) return false;
  if (actor->blocked && epoll_wait(((struct hca *)engine)->epoll_fd, &event, 1, 0) == 1)
    actor->blocked = false;
  return !actor->blocked;
}

/* Executes one order until neither side can continue. */
static void carry_out(void) {
  made = 0;
  for (;;) {
    struct actor *able[ACTORS];
    unsigned count = 0;
    for (int i = 0; i < ACTORS; i++)
      if (can_run(&actors[i])) able[count++] = &actors[i];
    if (count == 0) return;
    unsigned chosen = 0;
    if (count > 1) {
      if (made == MOST_CHOICES) abort();
      if (made == known) choices[known++].chosen = 0;
      choices[made].count = (unsigned char)count;
      chosen = choices[made++].chosen;
    }
    running = able[chosen];
    swapcontext(&scheduler, &running->context);
    running = NULL;
  }
}

/* Selects the next order; returns false after the last one. */
static bool next_order(void) {
  while (known && choices[known - 1].chosen + 1 == choices[known - 1].count) known--;
  if (known == 0) return false;
  choices[known - 1].chosen++;
  return true;
}

static bool is_lost(const struct hca *hca) {
  const tessera_hca_client_page *page = program.page;
  return page->dirty[0] || page->dirty_srqs[0] || page->armed || !page->sleeping ||
         hca->polled_count || hca->first_ready;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  requests = arguments[1];
  pace_ns = strtoul(arguments[2], NULL, 10);
  int bell[2];
  const int page = memfd_create("page", 0);
  if (page < 0 || ftruncate(page, TESSERA_HCA_PAGE_BYTES) != 0 || pipe2(bell, O_NONBLOCK) != 0)
    return 2;
  struct hca *hca = hca_new();
  const uint8_t gids[TESSERA_HCA_GIDS][16] = {{1}, {2}};
  struct hca_client *client = hca ? hca_client_new(hca, page, bell[0], page, gids[0]) : NULL;
  if (!client) return 2;
  program.page = client->page; /* each word has only one address: see model_access() */
  program.doorbell_fd = bell[1];
  for (int i = 0; i < RINGERS; i++) actors[i].done = true;
  begin(ENGINE);
  carry_out(); /* until the engine sleeps, as it does before each order */
  unsigned long orders = 0;
  known = 0;
  do {
    for (int i = 0; i < RINGERS; i++) begin(i);
    carry_out();
    orders++;
    if (is_lost(hca)) {
      printf("lost after %lu orders\n", orders);
      return 1;
    }
  } while (next_order());
  printf("%lu orders, %lu steps\n", orders, steps);
  return 0;
}
