/* The first messages on a connection. Its acceptor sends a challenge; the connector greets, with a tag of the challenge
 * and the greeting by the communicator's secret; the acceptor proves that it has the secret, too. The secret is never
 * sent. Tags include both ends' random numbers and what the ends are, so that no message fits another connection or the
 * other direction. */
#ifndef TSR_NCCL_HANDSHAKE_H
#define TSR_NCCL_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "connections/addresses.h"
#include "connections/channel.h"
#include "connections/sha256.h"
#include "driver.h"

enum { TSR_SECRET_BYTES = 16, TSR_NONCE_BYTES = 32 };

/* What accepts a connection. */
enum tsr_acceptor { TSR_ACCEPTOR_ROOT = 1, TSR_ACCEPTOR_RANK = 2 };

/* Where a rank runs. */
struct tsr_place {
  uint8_t uuid[TSR_UUID_BYTES]; /* of its GPU */
  uint64_t host;
};

struct tsr_challenge {
  uint64_t magic;
  uint8_t nonce[TSR_NONCE_BYTES];
};

struct tsr_greeting {
  uint8_t nonce[TSR_NONCE_BYTES];
  uint32_t acceptor, acceptor_rank; /* the second is 0 for the root */
  uint32_t rank, ranks;             /* of the connector */
  struct tsr_address address;       /* the following for the root */
  struct tsr_place place;
  uint8_t tag[TSR_SHA256_BYTES];
};

struct tsr_proof {
  uint8_t tag[TSR_SHA256_BYTES];
};

/* Fill in a new challenge; false: there are no random numbers. */
bool tsr_challenge_make(struct tsr_challenge *challenge);

/* Whether a whole greeting comes from a process that has the secret; the time does not depend on its bytes. */
bool tsr_greeting_is_authentic(const struct tsr_greeting *greeting, const struct tsr_challenge *challenge,
                               const uint8_t *secret);

/* Prove to the sender of an authentic greeting that the acceptor has the secret, and fill in the channel's keys. */
bool tsr_greeting_accept(const struct tsr_greeting *greeting, const struct tsr_challenge *challenge,
                         const uint8_t *secret, struct tsr_channel *channel);

/* Connect and greet; `nonce` and `tag` of the greeting are filled in. If the acceptor closes the connection, which it
 * does when too many others come, another attempt is made. Returns NULL, or why there is no connection. */
const char *tsr_handshake_connect(const struct tsr_address *address, struct tsr_greeting *greeting,
                                  const uint8_t *secret, const volatile bool *aborted, struct tsr_channel *channel);

/* Derive a key or a secret from another one. `label` is a different one for each use. */
void tsr_derive(uint8_t derived[TSR_SHA256_BYTES], const void *key, size_t key_bytes, const char *label,
                const void *bytes, size_t size);

#endif
