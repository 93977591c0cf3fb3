/* Doorbells: how client programs notify the engine of work. They cost the engine time only for
 * programs that request work.
 *
 * A program sets a bit in its page, then reads `sleeping`; if it is set, the program rings: it
 * writes a byte into its pipe. Initially every page says `sleeping`, so the engine need not poll
 * it; epoll reports the functions whose programs have rung. In the function's turn, and charged
 * to it, the engine drains their pipes and marks their pages as due. It then clears `sleeping`
 * and polls the program's page until the program has requested nothing for HCA_POLL_NS; it polls
 * at most HCA_POLLED pages of a function.
 *
 * No request is missed, because of the order of steps in two cases:
 * - to stop polling: the engine sets `sleeping`, then reads the bits once more. The program
 * sets the bits first, then reads `sleeping`.
 * - to handle a ring: the engine drains the pipe, then takes the bits. The program sets the bits
 * first, then writes to the pipe.
 *
 * Each pair of a store and a load is sequentially consistent. All interleavings of both sides'
 * steps are tested by tests/unit/hca/engine/test_hca_doorbell_orders.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/internal.h"

enum { EVENTS = 16, WORDS = TESSERA_HCA_MAX_QPS / 64, SRQ_WORDS = TESSERA_HCA_MAX_SRQS / 64 };

static bool has_bits(const uint64_t *words, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (__atomic_load_n(&words[i], __ATOMIC_SEQ_CST) != 0) return true;
  return false;
}

/* Whether a program's page has a bit set: for a request or for an armed completion queue. */
static bool has_request(struct hca_client *client) {
  client->function->counts.looks++;
  return __atomic_load_n(&client->page->armed, __ATOMIC_SEQ_CST) != 0 ||
         has_bits(client->page->dirty, WORDS) || has_bits(client->page->dirty_srqs, SRQ_WORDS);
}

static void set_sleeping(struct hca_client *client, uint32_t value) {
  __atomic_store_n(&client->page->sleeping, value, __ATOMIC_SEQ_CST);
}

void hca_set_due(struct hca_client *client, enum hca_walk walk) {
  struct hca_bell *bell = &client->bell;
  struct hca_bells *bells = &client->function->bells;
  if (bell->due[walk]) return;
  bell->due[walk] = true;
  bell->next_due[walk] = NULL;
  bell->previous_due[walk] = bells->last_due[walk];
  *(bell->previous_due[walk] ? &bell->previous_due[walk]->bell.next_due[walk]
                             : &bells->first_due[walk]) = client;
  bells->last_due[walk] = client;
}

void hca_read_soon(struct hca_client *client) {
  for (enum hca_walk walk = 0; walk < HCA_WALKS; walk++) hca_set_due(client, walk);
}

void hca_clear_due(struct hca_client *client, enum hca_walk walk) {
  struct hca_bell *bell = &client->bell;
  struct hca_bells *bells = &client->function->bells;
  struct hca_client *next = bell->next_due[walk], *previous = bell->previous_due[walk];
  if (!bell->due[walk]) return;
  bell->due[walk] = false;
  *(previous ? &previous->bell.next_due[walk] : &bells->first_due[walk]) = next;
  *(next ? &next->bell.previous_due[walk] : &bells->last_due[walk]) = previous;
}

static void stop_polling(struct hca *hca, struct hca_client *client) {
  struct hca_bells *bells = &client->function->bells;
  for (unsigned i = 0; i < bells->polled_count; i++) {
    if (bells->polled[i] != client) continue;
    bells->polled[i] = bells->polled[--bells->polled_count];
    break;
  }
  client->bell.polled = false;
  hca->polled_count--;
}

static bool answer(struct hca_client *client) {
  if (!has_request(client)) return false;
  client->bell.until_ns = 0;
  hca_read_soon(client);
  return true;
}

/* Programs beyond the limit ring for each request. */
static void poll_it(struct hca *hca, struct hca_client *client) {
  struct hca_bells *bells = &client->function->bells;
  client->bell.until_ns = 0;
  if (client->bell.polled || bells->polled_count == HCA_POLLED) return;
  set_sleeping(client, 0);
  client->bell.polled = true;
  bells->polled[bells->polled_count++] = client;
  hca->polled_count++;
}

/* Look at a polled program's page: mark it as due if it has requests, else stop polling after
 * HCA_POLL_NS. */
static bool look(struct hca *hca, struct hca_client *client, uint64_t now_ns) {
  struct hca_bell *bell = &client->bell;
  if (answer(client)) return true;
  if (bell->until_ns == 0) bell->until_ns = now_ns + HCA_POLL_NS;
  if (now_ns < bell->until_ns) return false;
  set_sleeping(client, 1);
  if (answer(client)) { /* it may or may not have rung */
    set_sleeping(client, 0);
    return true;
  }
  stop_polling(hca, client);
  return false;
}

bool hca_has_rung(struct hca *hca, struct hca_function *function, uint64_t now_ns) {
  struct hca_bells *bells = &function->bells;
  bool any = bells->rang || bells->first_due[HCA_WALK_BITS] || bells->first_due[HCA_WALK_ARMED];
  for (unsigned i = bells->polled_count; i-- > 0;) any |= look(hca, bells->polled[i], now_ns);
  bells->looked = true;
  return any;
}

void hca_answer_bells(struct hca *hca, struct hca_function *function) {
  struct hca_bells *bells = &function->bells;
  for (unsigned i = 0; i < bells->polled_count && !bells->looked; i++) answer(bells->polled[i]);
  bells->looked = false;
  if (!bells->rang) return;
  bells->rang = false; /* epoll reports again whatever is not read now */
  struct epoll_event events[HCA_POLLED];
  hca_charge(hca, HCA_CALL_COST);
  const int count = epoll_wait(bells->epoll_fd, events, HCA_POLLED, 0);
  for (int i = 0; i < count; i++) {
    /* clients are added and removed with the lock held */
    struct hca_client *client = events[i].data.ptr;
    char scratch[256];
    hca_charge(hca, HCA_CALL_COST);
    if (read(client->doorbell_fd, scratch, sizeof scratch) < 0) continue;
    poll_it(hca, client);
    hca_read_soon(client);
  }
}

/* The function may have been removed since its bell rang. */
static void take(struct hca *hca, const struct epoll_event *events, int count) {
  for (int i = 0; i < count; i++) {
    const uint64_t which = events[i].data.u64;
    uint64_t rings;
    if (which == HCA_RANG_ENGINE && read(hca->wake_fd, &rings, sizeof rings) < 0) continue;
    struct hca_function *function =
        which > UINT32_MAX ? NULL : hca_table_get(&hca->numbered, (uint32_t)which);
    if (!function) continue;
    function->bells.rang = true;
    hca_make_ready(hca, function);
  }
}

void hca_look_for_bells(struct hca *hca, uint64_t now_ns) {
  if (hca->polled_count && now_ns - hca->bells_ns < HCA_BELLS_NS) return;
  hca->bells_ns = now_ns;
  struct epoll_event events[EVENTS];
  take(hca, events, epoll_wait(hca->epoll_fd, events, EVENTS, 0));
}

void hca_sleep(struct hca *hca, int limit_ms) {
  struct epoll_event events[EVENTS];
  hca_leave(hca);
  const int count = epoll_wait(hca->epoll_fd, events, EVENTS, limit_ms);
  hca_enter(hca);
  if (!hca->held) take(hca, events, count); /* the pipes may belong to the successor by now */
}

bool hca_bells_open(struct hca *hca, struct hca_function *function) {
  struct hca_bells *bells = &function->bells;
  bells->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (bells->epoll_fd < 0) return false;
  do bells->number = ++hca->last_number;
  while (bells->number == 0 || hca_table_get(&hca->numbered, bells->number));
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = bells->number};
  if (hca_table_put(&hca->numbered, bells->number, function)) {
    if (epoll_ctl(hca->epoll_fd, EPOLL_CTL_ADD, bells->epoll_fd, &event) == 0) return true;
    hca_table_remove(&hca->numbered, bells->number);
  }
  close(bells->epoll_fd);
  return false;
}

void hca_bells_close(struct hca *hca, struct hca_function *function) {
  hca_table_remove(&hca->numbered, function->bells.number);
  epoll_ctl(hca->epoll_fd, EPOLL_CTL_DEL, function->bells.epoll_fd, NULL);
  close(function->bells.epoll_fd);
}

bool hca_bell_open(struct hca_client *client) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
  set_sleeping(client, 1);
  return epoll_ctl(client->function->bells.epoll_fd, EPOLL_CTL_ADD, client->doorbell_fd, &event) ==
         0;
}

void hca_bell_close(struct hca_client *client) {
  for (enum hca_walk walk = 0; walk < HCA_WALKS; walk++) hca_clear_due(client, walk);
  if (client->bell.polled) stop_polling(client->hca, client);
  epoll_ctl(client->function->bells.epoll_fd, EPOLL_CTL_DEL, client->doorbell_fd, NULL);
}

void hca_read_all_soon(struct hca *hca) {
  for (struct hca_function *function = hca->functions; function; function = function->next) {
    for (struct hca_client *client = function->clients; client; client = client->next) {
      if (!client->bell.polled) set_sleeping(client, 1);
      hca_read_soon(client);
    }
  }
}
