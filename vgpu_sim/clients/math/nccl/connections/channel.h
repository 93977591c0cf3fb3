/* Connections whose messages carry tags. On the wire, a message is a sequence of chunks; each is followed by a tag of
 * its bytes and of its number in this direction of the connection. So bytes that are changed, removed, repeated,
 * reordered or reflected are noticed before they are used. They are not encrypted. */
#ifndef TSR_NCCL_CHANNEL_H
#define TSR_NCCL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connections/siphash.h"
#include "nccl_types.h"

enum { TSR_CHUNK_BYTES = 64 << 10, TSR_TAG_BYTES = TSR_SIPHASH_BYTES, TSR_CHANNEL_KEY_BYTES = TSR_SIPHASH_BYTES };

/* One direction of a connection. */
struct tsr_flow {
  uint8_t key[TSR_CHANNEL_KEY_BYTES];
  uint64_t number; /* of the next chunk */
};

struct tsr_channel {
  int fd; /* -1: not connected */
  bool is_forged; /* a chunk with a wrong tag has come */
  struct tsr_flow out, in;
};

/* Store the tag of the next chunk that is sent. */
void tsr_channel_tag(struct tsr_channel *channel, const void *bytes, size_t size, uint8_t tag[TSR_TAG_BYTES]);

/* Whether the next chunk has the right tag; if not, the channel is forged. */
bool tsr_channel_check(struct tsr_channel *channel, const void *bytes, size_t size, const uint8_t tag[TSR_TAG_BYTES]);

/* Send or receive a whole message. Returns ncclSuccess; ncclRemoteError if the connection ended or is forged, or
 * `*aborted`. */
ncclResult_t tsr_channel_send(struct tsr_channel *channel, const void *bytes, size_t size,
                              const volatile bool *aborted);
ncclResult_t tsr_channel_receive(struct tsr_channel *channel, void *bytes, size_t size,
                                 const volatile bool *aborted);

/* Close the connection, and wipe its keys. */
void tsr_channel_close(struct tsr_channel *channel);

/* Send or receive bytes without a tag; false if the connection ends before, the time is over, or `*aborted`. */
bool tsr_send_all(int fd, const void *bytes, size_t size, uint64_t deadline_ns, const volatile bool *aborted);
bool tsr_receive_all(int fd, void *bytes, size_t size, uint64_t deadline_ns, const volatile bool *aborted);

#endif
