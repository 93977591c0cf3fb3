/* Requests to hcad. */
#ifndef TSR_COMMAND_H
#define TSR_COMMAND_H

#include "objects.h"

/* Opens a connection to the function that TESSERA_TOKEN names, on the socket that TESSERA_HCA
 * names; fills in `info` and two descriptors (the client's page, the doorbell). 0 or an errno
 * value; ENODEV where there is no HCA. */
int tsr_hca_open(const char *path, tessera_hca_device *info, int *socket, int fds[2]);

/* Sends a request and waits for its reply: 0 or an errno value, EIO where hcad has gone. `answer`
 * of exactly `answer_bytes` is filled in on success, and `fd`, unless NULL, with a descriptor. */
int tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
            void *answer, uint32_t answer_bytes, int *fd);
/* Requests that are asked in one message where hcad knows that, and else in turn, until one is refused. */
struct tsr_part {
  uint16_t type;
  const void *payload;
  uint32_t bytes;
  void *answer; /* of whatever makes something it begins with the handle */
  uint32_t answer_bytes;
  int *fd; /* NULL: none comes */
  /* Where the payload is to name what parts before it have made, and which; NULL: nowhere. */
  struct tsr_naming {
    uint32_t *where;
    unsigned part;
  } names[2];
  int error; /* ECANCELED: one before it was refused */
};
/* The first error, or 0. Callers remove what was made before it. */
int tsr_ask_all(struct tsr_context *context, struct tsr_part *parts, unsigned count);

/* The same for requests that remove what a handle names: 0 where hcad has gone, and all with it. */
int tsr_ask_handle(struct tsr_context *context, uint16_t type, uint32_t handle);

/* Records that hcad has hung up, and prints it in the first call that notices. */
void tsr_mark_lost(struct tsr_context *context);

/* Whether hcad has hung up. */
bool tsr_is_dead(struct tsr_context *context);

/* lost.c, once hcad has gone. Puts what is left of the requests into their completion queue; true
 * where there was something. The caller holds `polling`. */
bool tsr_flush_lost(struct tsr_cq *cq);
/* A queue of the channel that is armed and has what was left, as an event that was given; or NULL. */
struct tsr_cq *tsr_lost_event(struct ibv_comp_channel *channel);

/* Maps a page of hcad's, and closes its descriptor; NULL with errno set. */
void *tsr_map(int fd, uint64_t bytes);
/* The same over what is mapped at an address. */
void *tsr_map_at(void *address, int fd, uint64_t bytes);

/* ring.c. Tells hcad that a queue pair has requests. */
void tsr_ring(struct tsr_context *context, uint32_t index);

/* The same of a shared receive queue. */
void tsr_ring_srq(struct tsr_context *context, uint32_t index);

/* The same of a completion queue that was armed while it had entries. */
void tsr_ring_armed(struct tsr_context *context);

#endif
