/* Messages on a slice's socket (vgpu_sim/hal/messages.py). */
#ifndef TSR_TRANSPORT_H
#define TSR_TRANSPORT_H

#include <stdbool.h>

#include "tessera_abi.h"

enum { TSR_MAX_FDS = 5 };

struct tsr_reply {
  int32_t status; /* 0: success; otherwise the number of the error, of the library that asked */
  uint32_t payload_bytes;
  int fds[TSR_MAX_FDS]; /* -1: none */
  _Alignas(8) uint8_t payload[TESSERA_MAX_MESSAGE_BYTES];
};

/* What became of a request. Only TSR_RECEIVED leaves a reply, which may hold descriptors. */
enum tsr_outcome {
  TSR_RECEIVED,
  TSR_SILENT,
  TSR_CLOSED,
  TSR_MALFORMED,
  TSR_ABSENT, /* the socket has no listener, in a folder that is there */
  TSR_UNREACHABLE, /* it cannot be connected, and time will not cure that */
};

/* Returns a connected descriptor or a negative errno. */
int tsr_connect(const char *path);

/* Whether a result of tsr_connect says that `path` has no listener, in a folder that is still linked:
 * gpud is being restarted. The mount of a slice that was withdrawn shows a folder without links. */
bool tsr_is_absent(int connected, const char *path);

/* Sends HELLO and waits `timeout_s` for the answer. */
enum tsr_outcome tsr_hello(int socket, uint16_t type, const tessera_hello *hello, int timeout_s,
                           struct tsr_reply *reply);

/* Sends one request; false where nobody can get it. `pass_fd` travels with it; -1: none. */
bool tsr_send(int socket, uint16_t type, uint32_t request, const void *payload, uint32_t bytes,
              int pass_fd);

/* Waits for a reply, of whatever type and to whatever request. */
enum tsr_outcome tsr_receive(int socket, uint16_t *type, uint32_t *request,
                             struct tsr_reply *reply);

/* Closes the descriptors that came with a reply. */
void tsr_reply_close(struct tsr_reply *reply);

#endif
