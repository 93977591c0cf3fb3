#define _GNU_SOURCE
#include "connections/handshake.h"

#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "connections/secrets.h"

#define MAGIC UINT64_C(0x324c43434e525354) /* this version of the protocol */
#define PATIENCE_NS UINT64_C(600000000000)

enum { MAX_ATTEMPTS = 100, LEAST_PAUSE_NS = 1000000, LONGEST_PAUSE_NS = 100000000 };

/* The messages have no padding, whose bytes a tag would include. */
_Static_assert(sizeof(struct tsr_challenge) == 8 + TSR_NONCE_BYTES, "no padding");
_Static_assert(sizeof(struct tsr_greeting) == TSR_NONCE_BYTES + 16 + 24 + 24 + TSR_SHA256_BYTES, "no padding");

static const char CONNECTOR[] = "tessera nccl connector", ACCEPTOR[] = "tessera nccl acceptor",
                  KEYS[] = "tessera nccl keys";

/* Compute what only a process with the secret can compute for a challenge and the beginning of a greeting. The label,
 * with its NUL, differs for each use. */
static void compute(uint8_t value[TSR_SHA256_BYTES], const uint8_t *secret, const char *label,
                    const struct tsr_challenge *challenge, const struct tsr_greeting *greeting, size_t greeting_bytes) {
  struct tsr_hmac hmac;
  tsr_hmac_begin(&hmac, secret, TSR_SECRET_BYTES);
  tsr_hmac_add(&hmac, label, strlen(label) + 1);
  tsr_hmac_add(&hmac, challenge, sizeof *challenge);
  tsr_hmac_add(&hmac, greeting, greeting_bytes);
  tsr_hmac_end(&hmac, value);
}

void tsr_derive(uint8_t derived[TSR_SHA256_BYTES], const void *key, size_t key_bytes, const char *label,
                const void *bytes, size_t size) {
  struct tsr_hmac hmac;
  tsr_hmac_begin(&hmac, key, key_bytes);
  tsr_hmac_add(&hmac, label, strlen(label) + 1);
  tsr_hmac_add(&hmac, bytes, size);
  tsr_hmac_end(&hmac, derived);
}

/* Each direction has a key, so that a reflected chunk has a wrong tag. */
static void fill_keys(struct tsr_channel *channel, const uint8_t *secret, const struct tsr_challenge *challenge,
                      const struct tsr_greeting *greeting, bool connects) {
  uint8_t keys[TSR_SHA256_BYTES];
  _Static_assert(sizeof keys == 2 * TSR_CHANNEL_KEY_BYTES, "one for each direction");
  compute(keys, secret, KEYS, challenge, greeting, sizeof *greeting);
  memcpy(channel->out.key, keys + (connects ? 0 : TSR_CHANNEL_KEY_BYTES), TSR_CHANNEL_KEY_BYTES);
  memcpy(channel->in.key, keys + (connects ? TSR_CHANNEL_KEY_BYTES : 0), TSR_CHANNEL_KEY_BYTES);
  channel->out.number = channel->in.number = 0;
  channel->is_forged = false;
  tsr_wipe(keys, sizeof keys);
}

bool tsr_challenge_make(struct tsr_challenge *challenge) {
  challenge->magic = MAGIC;
  return tsr_fill_random(challenge->nonce, sizeof challenge->nonce);
}

bool tsr_greeting_is_authentic(const struct tsr_greeting *greeting, const struct tsr_challenge *challenge,
                               const uint8_t *secret) {
  uint8_t expected[TSR_SHA256_BYTES];
  compute(expected, secret, CONNECTOR, challenge, greeting, offsetof(struct tsr_greeting, tag));
  const bool is_right = tsr_is_equal(expected, greeting->tag, sizeof expected);
  tsr_wipe(expected, sizeof expected);
  return is_right;
}

bool tsr_greeting_accept(const struct tsr_greeting *greeting, const struct tsr_challenge *challenge,
                         const uint8_t *secret, struct tsr_channel *channel) {
  static const volatile bool NEVER;
  struct tsr_proof proof;
  compute(proof.tag, secret, ACCEPTOR, challenge, greeting, sizeof *greeting);
  fill_keys(channel, secret, challenge, greeting, false);
  return tsr_send_all(channel->fd, &proof, sizeof proof, tsr_now_ns() + PATIENCE_NS, &NEVER);
}

enum outcome { CONNECTED, ENDED, WRONG };

static enum outcome greet(int fd, struct tsr_greeting *greeting, const uint8_t *secret, const volatile bool *aborted,
                          struct tsr_channel *channel) {
  const uint64_t deadline_ns = tsr_now_ns() + PATIENCE_NS;
  struct tsr_challenge challenge;
  struct tsr_proof proof, expected;
  if (!tsr_receive_all(fd, &challenge, sizeof challenge, deadline_ns, aborted)) return ENDED;
  if (challenge.magic != MAGIC || !tsr_fill_random(greeting->nonce, sizeof greeting->nonce)) return WRONG;
  compute(greeting->tag, secret, CONNECTOR, &challenge, greeting, offsetof(struct tsr_greeting, tag));
  if (!tsr_send_all(fd, greeting, sizeof *greeting, deadline_ns, aborted) ||
      !tsr_receive_all(fd, &proof, sizeof proof, deadline_ns, aborted))
    return ENDED;
  compute(expected.tag, secret, ACCEPTOR, &challenge, greeting, sizeof *greeting);
  const bool is_right = tsr_is_equal(expected.tag, proof.tag, sizeof expected.tag);
  tsr_wipe(&expected, sizeof expected);
  if (!is_right) return WRONG;
  channel->fd = fd;
  fill_keys(channel, secret, &challenge, greeting, true);
  return CONNECTED;
}

const char *tsr_handshake_connect(const struct tsr_address *address, struct tsr_greeting *greeting,
                                  const uint8_t *secret, const volatile bool *aborted, struct tsr_channel *channel) {
  struct timespec pause = {.tv_nsec = LEAST_PAUSE_NS};
  for (int attempt = 0; attempt < MAX_ATTEMPTS && !*aborted; attempt++) {
    const int fd = tsr_connect(address);
    if (fd < 0) return "no process accepts connections there";
    const enum outcome outcome = greet(fd, greeting, secret, aborted, channel);
    if (outcome == CONNECTED) return NULL;
    close(fd);
    if (outcome == WRONG) return "the process there does not have the id's secret";
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < LONGEST_PAUSE_NS) pause.tv_nsec *= 2;
  }
  return *aborted ? "the communicator was aborted" : "the process there closes the connections";
}
