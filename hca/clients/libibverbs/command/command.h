/* Requests to hcad. */
#ifndef TSR_COMMAND_H
#define TSR_COMMAND_H

#include "objects.h"

/* Open a connection to the function that TESSERA_TOKEN names, on the socket that TESSERA_HCA
 * names. Fills in `info` and two descriptors (the client's page, the doorbell). 0 or an errno
 * value; ENODEV where there is no HCA. Repeats the request for up to TESSERA_WAIT_S seconds while
 * hcad answers EAGAIN. */
int tsr_hca_open(const char *path, tessera_hca_device *info, int *socket, int fds[2]);

/* Send a request and wait for its reply: 0 or an errno value; EIO: hcad has gone. On success,
 * `answer` receives exactly `answer_bytes`, and `fd`, unless it is NULL, receives a descriptor. */
int tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
            void *answer, uint32_t answer_bytes, int *fd);
/* One of several requests, which are sent in one message if hcad supports batches, else one by
 * one until one fails. */
struct tsr_part {
  uint16_t type;
  const void *payload;
  uint32_t bytes;
  void *answer; /* the reply; a created object's handle comes first */
  uint32_t answer_bytes;
  int *fd; /* NULL: the reply has no descriptor */
  /* Which payload fields receive the handle that an earlier part creates, and the number of that
   * part; NULL: none. */
  struct tsr_naming {
    uint32_t *where;
    unsigned part;
  } names[2];
  int error; /* ECANCELED: an earlier part failed */
};
/* Send the parts. Returns the first error, or 0; after an error the caller removes what the
 * earlier parts created. */
int tsr_ask_all(struct tsr_context *context, struct tsr_part *parts, unsigned count);

/* The same for one request that removes an object: also 0 where hcad, and with it the object,
 * has gone. */
int tsr_ask_handle(struct tsr_context *context, uint16_t type, uint32_t handle);

/* Record that hcad has closed the connection; the first call logs it. */
void tsr_mark_lost(struct tsr_context *context);

/* Whether hcad has closed the connection. */
bool tsr_is_dead(struct tsr_context *context);

/* lost.c, once hcad has gone. Complete outstanding requests in their completion queue; true
 * where there were any. The caller holds `polling`. */
bool tsr_flush_lost(struct tsr_cq *cq);
/* Find an armed queue of the channel that has flushed completions, and count an event for it;
 * NULL if there is none. */
struct tsr_cq *tsr_lost_event(struct ibv_comp_channel *channel);

/* Map a page received from hcad and close its descriptor; NULL with errno set. */
void *tsr_map(int fd, uint64_t bytes);
/* The same at a fixed address. */
void *tsr_map_at(void *address, int fd, uint64_t bytes);

/* ring.c. Notify hcad that a queue pair has requests. */
void tsr_ring(struct tsr_context *context, uint32_t index);

/* The same for a shared receive queue. */
void tsr_ring_srq(struct tsr_context *context, uint32_t index);

/* The same for a completion queue that was armed while it had entries. */
void tsr_ring_armed(struct tsr_context *context);

#endif
