/* Messages on a slice's socket (vgpu_sim/hal/messages.py). */
#ifndef TSR_TRANSPORT_H
#define TSR_TRANSPORT_H

#include <stdbool.h>

#include "tessera_abi.h"

enum { TSR_MAX_FDS = 5, TSR_CONNECT_TIMEOUT_S = 5 };

struct tsr_reply {
  int32_t status; /* 0: success; otherwise an error number of the requesting library */
  uint32_t payload_bytes;
  int fds[TSR_MAX_FDS]; /* -1: none */
  _Alignas(8) uint8_t payload[TESSERA_MAX_MESSAGE_BYTES];
};

/* Outcome of a request. Only TSR_RECEIVED leaves a reply to close, which may hold descriptors. */
enum tsr_outcome {
  TSR_RECEIVED,
  TSR_SILENT,
  TSR_CLOSED,
  TSR_MALFORMED,
  TSR_ABSENT, /* the folder exists, but the socket has no listener */
  TSR_UNREACHABLE, /* connecting is not possible, and waiting would not help */
};

/* Returns a connected descriptor or a negative errno. */
int tsr_connect(const char *path);

/* Whether a result of tsr_connect means that gpud is being restarted: `path` has no listener,
 * but its folder is still linked. A mount of a withdrawn slice shows a folder without links. */
bool tsr_is_absent(int connected, const char *path);

/* Whether a result of tsr_connect means that the listener has accepted no connection within
 * TSR_CONNECT_TIMEOUT_S, and that its backlog is full. */
bool tsr_is_silent(int connected);

/* Send HELLO and wait `timeout_s` for the reply. */
enum tsr_outcome tsr_hello(int socket, uint16_t type, const tessera_hello *hello, int timeout_s,
                           struct tsr_reply *reply);

/* Send one request; false if it cannot be delivered. `pass_fd` is sent with it; -1: none. */
bool tsr_send(int socket, uint16_t type, uint32_t request, const void *payload, uint32_t bytes,
              int pass_fd);

/* Wait for a reply, of any type and to any request. */
enum tsr_outcome tsr_receive(int socket, uint16_t *type, uint32_t *request,
                             struct tsr_reply *reply);

/* Close the descriptors that came with a reply. */
void tsr_reply_close(struct tsr_reply *reply);

#endif
