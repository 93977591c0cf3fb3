/* Doorbells: which programs' pages the engine polls, and which pages it must read next
 * (doorbell.c). */
#ifndef HCA_DOORBELL_H
#define HCA_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

struct hca;
struct hca_client;
struct hca_function;

enum {
  HCA_POLLED = 16,    /* programs of a function that the engine polls */
  HCA_POLL_NS = 8000, /* how long polling continues after the last request */
  HCA_BELLS_NS = 4000, /* between two checks for rings, while the engine polls any program */
};

/* epoll data of events other than a ring; any other value is a function's number */
enum { HCA_RANG_ENGINE = 0 };
#define HCA_RANG_WIRE UINT64_MAX

/* A turn's walks over the due pages: one for request bits, one for armed completion queues. */
enum hca_walk { HCA_WALK_BITS, HCA_WALK_ARMED, HCA_WALKS };

/* A client's doorbell. */
struct hca_bell {
  bool polled;
  uint64_t until_ns; /* polling ends then; set by the first poll that finds no request, else 0 */
  bool due[HCA_WALKS];
  struct hca_client *next_due[HCA_WALKS], *previous_due[HCA_WALKS];
};

/* A function's doorbells. */
struct hca_bells {
  uint32_t number; /* not reused while a pending event may contain it */
  int epoll_fd;    /* epoll of its programs' pipes; -1: it has no programs */
  bool rang;
  bool looked; /* its polled pages have been read since its last turn began */
  unsigned polled_count;
  struct hca_client *polled[HCA_POLLED];
  /* clients whose pages each walk has to read */
  struct hca_client *first_due[HCA_WALKS], *last_due[HCA_WALKS];
};

/* Create the doorbells of a new function, or close those of one without programs. False with
 * errno set. */
bool hca_bells_open(struct hca *hca, struct hca_function *function);
void hca_bells_close(struct hca *hca, struct hca_function *function);
/* Add the doorbell of a client that is part of its function. False with errno set. */
bool hca_bell_open(struct hca_client *client);
void hca_bell_close(struct hca_client *client);
/* Poll a function's programs; returns whether any has requests. Polling stops for programs that
 * have had none for a while. */
bool hca_has_rung(struct hca *hca, struct hca_function *function, uint64_t now_ns);
/* Begin a turn: mark the pages of programs that have requests as due. */
void hca_answer_bells(struct hca *hca, struct hca_function *function);
/* Detect which doorbells have rung, and make their functions ready. */
void hca_look_for_bells(struct hca *hca, uint64_t now_ns);
/* The same, but sleep until a doorbell rings or the time is up; no page is polled. */
void hca_sleep(struct hca *hca, int limit_ms);
/* Mark a client's page as due in its function's next turns: hca_set_due() for one walk,
 * hca_read_soon() for both. */
void hca_set_due(struct hca_client *client, enum hca_walk walk);
void hca_clear_due(struct hca_client *client, enum hca_walk walk);
void hca_read_soon(struct hca_client *client);
/* Mark all pages as due, because a predecessor may have drained the pipes and taken the bits. */
void hca_read_all_soon(struct hca *hca);

#endif
