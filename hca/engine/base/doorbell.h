/* Doorbells: which programs the engine looks at, and which pages it has yet to read (doorbell.c). */
#ifndef HCA_DOORBELL_H
#define HCA_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

struct hca;
struct hca_client;
struct hca_function;

enum {
  HCA_POLLED = 16,    /* programs of a function that the engine looks at */
  HCA_POLL_NS = 8000, /* for so long after what they asked for last */
  HCA_BELLS_NS = 4000, /* between two looks for bells, while it polls any */
};

/* What rang, as epoll reports it; any other value is a function's number. */
enum { HCA_RANG_ENGINE = 0 };
#define HCA_RANG_WIRE UINT64_MAX

/* Walks of a turn over pages: bits that are set, and completion queues that are armed. */
enum hca_walk { HCA_WALK_BITS, HCA_WALK_ARMED, HCA_WALKS };

/* A client's. */
struct hca_bell {
  bool polled;
  uint64_t until_ns; /* polled until then; 0: no look has been in vain since its last request */
  bool due[HCA_WALKS];
  struct hca_client *next_due[HCA_WALKS], *previous_due[HCA_WALKS];
};

/* A function's. */
struct hca_bells {
  uint32_t number; /* no other function's for as long as any event may name it */
  int epoll_fd;    /* its programs' bells; -1: it has no programs */
  bool rang;
  bool looked; /* at those that are polled, since its last turn began */
  unsigned polled_count;
  struct hca_client *polled[HCA_POLLED];
  struct hca_client *first_due[HCA_WALKS], *last_due[HCA_WALKS]; /* whose pages a walk is to read */
};

/* Of a function that is new, or goes with its last program. False with errno set. */
bool hca_bells_open(struct hca *hca, struct hca_function *function);
void hca_bells_close(struct hca *hca, struct hca_function *function);
/* Of a client that is part of its function. False with errno set. */
bool hca_bell_open(struct hca_client *client);
void hca_bell_close(struct hca_client *client);
/* Whether a function's programs have asked for anything. Lets those sleep that have not for a while. */
bool hca_has_rung(struct hca *hca, struct hca_function *function, uint64_t now_ns);
/* Begins a turn: the pages of programs that have asked for something are due. */
void hca_answer_bells(struct hca *hca, struct hca_function *function);
/* Finds out whose bells have rung, and makes these functions ready. */
void hca_look_for_bells(struct hca *hca, uint64_t now_ns);
/* The same, but sleeps until there is one, or so long; nothing is polled. */
void hca_sleep(struct hca *hca, int limit_ms);
/* Has a client's page read in its function's next turns, by one walk or by all. */
void hca_set_due(struct hca_client *client, enum hca_walk walk);
void hca_clear_due(struct hca_client *client, enum hca_walk walk);
void hca_read_soon(struct hca_client *client);
/* The same for all clients: another engine may have read their bells and pages. */
void hca_read_all_soon(struct hca *hca);

#endif
