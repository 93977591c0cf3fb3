/* A client of the worker's runtime in the same process (or its parent): fills rings as the
 * client library does, or with arbitrary data. */
#ifndef HARNESS_CLIENT_H
#define HARNESS_CLIENT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tessera_worker.h"

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);   \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

typedef struct client {
  tessera_client_area *area;
  const tessera_worker_page *page;
  uint64_t values[TESSERA_MAX_STREAMS];
  uint32_t order; /* order of the next request */
} client;

/* How long a dying worker process may wait for its owner: until a time-out, until an answer, or
 * not at all. A process that waits longer exits with HARNESS_WAITED. */
enum dying { DYING_MAY_TIME_OUT, DYING_MAY_WAIT, DYING_MAY_NOT_WAIT };
enum { HARNESS_WAITED = 99 };
extern enum dying client_dying;

/* Maps the objects of tessera_worker_create_shared. */
void client_open(client *c);
/* Returns an empty request of a stream with the next value. */
tessera_slot client_slot(client *c, uint32_t stream, uint16_t opcode);
void client_wait_on(tessera_slot *slot, uint32_t stream, uint64_t value);
/* Rings the worker's doorbell. */
void client_ring(client *c);
/* Puts 256 bytes into the ring, waiting while it is full. */
void client_put(client *c, uint32_t stream, const void *slot);
uint64_t client_launch(client *c, uint32_t stream, tessera_slot slot, uint64_t kernel,
                       uint32_t blocks, const void *parameters, uint32_t parameter_bytes);
/* Sleeps as the client library does until the timeline reaches the value; returns the page's
   error. */
uint32_t client_wait(client *c, uint32_t stream, uint64_t value);

/* How many requests a worker runs at once; 0: as many as there are streams. */
extern uint32_t client_runners;

uint64_t kernel_add(const char *name, uint32_t parameter_bytes);
void worker_start(uint32_t threads, tessera_kernel_entry (*choose)(uint64_t kernel));

#endif
