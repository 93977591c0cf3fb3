/* Functions: clients with the same address are programs of one pod and share one turn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/internal.h"

enum { KNOWN_BY = 1, FIRST_TIMERS = 64 };

struct hca_function *hca_function_of(struct hca *hca, const uint8_t *gid) {
  for (struct hca_function *function = hca->functions; function; function = function->next)
    for (unsigned i = 0; i < TESSERA_HCA_GIDS; i++)
      if (memcmp(function->gids[i], gid, sizeof function->gids[i]) == 0) return function;
  return &hca->unowned;
}

bool hca_function_join(struct hca *hca, struct hca_client *client) {
  struct hca_function *function = hca->functions;
  const size_t bytes = sizeof function->gids[KNOWN_BY];
  while (function && memcmp(function->gids[KNOWN_BY], client->gids[KNOWN_BY], bytes) != 0)
    function = function->next;
  if (!function) {
    function = calloc(1, sizeof *function);
    if (!function) return false;
    memcpy(function->gids, client->gids, sizeof function->gids);
    if (!hca_bells_open(hca, function)) {
      free(function);
      return false;
    }
    function->next = hca->functions;
    hca->functions = function;
  }
  client->function = function;
  client->next = function->clients;
  if (client->next) client->next->previous = client;
  function->clients = client;
  if (hca_bell_open(client)) return true;
  const int error = errno;
  hca_function_leave(hca, client);
  errno = error;
  return false;
}

/* Remove a function from the list of ready functions. */
static void unlist(struct hca *hca, const struct hca_function *function) {
  struct hca_function *before = NULL;
  for (struct hca_function **link = &hca->first_ready; *link; link = &(*link)->next_ready) {
    if (*link == function) {
      *link = function->next_ready;
      if (hca->last_ready == function) hca->last_ready = before;
      return;
    }
    before = *link;
  }
}

void hca_function_leave(struct hca *hca, struct hca_client *client) {
  struct hca_function *function = client->function;
  hca_bell_close(client);
  *(client->previous ? &client->previous->next : &function->clients) = client->next;
  if (client->next) client->next->previous = client->previous;
  if (function->clients) return;
  for (struct hca_function **other = &hca->functions; *other; other = &(*other)->next) {
    if (*other != function) continue;
    *other = function->next;
    break;
  }
  if (function->ready) unlist(hca, function);
  hca_bells_close(hca, function);
  free(function->timers);
  free(function);
}

bool hca_function_grow(struct hca_function *function) {
  if (function->qp_count < function->timer_room) return true;
  const uint32_t room = function->timer_room ? function->timer_room * 2 : FIRST_TIMERS;
  struct hca_qp **timers = realloc(function->timers, room * sizeof *timers);
  if (!timers) return false;
  function->timers = timers;
  function->timer_room = room;
  return true;
}

void hca_work_read(struct hca *hca, const uint8_t *gid, tessera_hca_work_counts *counts) {
  hca_enter(hca);
  const struct hca_function *function = hca_function_of(hca, gid);
  *counts = function->counts;
  counts->most_pass = hca->most_pass;
  counts->waiting = function->timer_count;
  hca_leave(hca);
}

void hca_work_restart(struct hca *hca) {
  hca_enter(hca);
  hca->most_pass = 0;
  for (struct hca_function *function = hca->functions; function; function = function->next)
    function->counts = (tessera_hca_work_counts){0};
  hca_leave(hca);
}
