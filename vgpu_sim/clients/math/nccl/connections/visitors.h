/* Connections to a listening socket that have not identified themselves. */
#ifndef TSR_NCCL_VISITORS_H
#define TSR_NCCL_VISITORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connections/handshake.h"

enum { TSR_MAX_VISITORS = 256, TSR_SOURCE_BYTES = 16 };

struct tsr_visitor {
  int fd;
  size_t received; /* bytes of the greeting */
  uint64_t deadline_ns;
  uint8_t source[TSR_SOURCE_BYTES]; /* its address, without the port */
  struct tsr_challenge challenge;
  struct tsr_greeting greeting;
};

/* What a greeting must state, besides having the right tag. */
struct tsr_expectation {
  const uint8_t *secret;
  enum tsr_acceptor acceptor;
  uint32_t acceptor_rank;
};

/* Connections whose greeting is not complete. No byte of it is examined until it is, so that a stranger observes
 * nothing of the tag but that all of it is right or not. If there are too many, the oldest of the address with the most
 * is closed, so that strangers cannot keep ranks out. */
struct tsr_visitors {
  int listener;
  size_t count;
  struct tsr_visitor each[TSR_MAX_VISITORS];
};

/* Fill in the channel to the next process that has greeted as expected, and its greeting. False: none did before
 * `deadline_ns` of the monotonic clock, or `*aborted`. */
bool tsr_visitors_next(struct tsr_visitors *visitors, const struct tsr_expectation *expectation,
                       struct tsr_greeting *greeting, struct tsr_channel *channel, uint64_t deadline_ns,
                       const volatile bool *aborted);

/* Close the listening socket and all connections that have not identified themselves. */
void tsr_visitors_end(struct tsr_visitors *visitors);

#endif
