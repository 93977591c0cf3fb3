/* Messages on a slice socket (vgpu_sim/hal/messages.py). */
#ifndef TSR_TRANSPORT_H
#define TSR_TRANSPORT_H

#include "objects.h"

enum { TSR_MAX_FDS = 2 };

struct tsr_reply {
  CUresult status;
  uint32_t payload_bytes;
  int fds[TSR_MAX_FDS]; /* -1: none */
  _Alignas(8) uint8_t payload[TESSERA_MAX_MESSAGE_BYTES];
};

/* Returns a connected descriptor or -1. */
int tsr_connect(const char *path);

/* Says HELLO and waits `timeout_s` for the answer. NO_DEVICE: nobody answered. */
CUresult tsr_hello(int socket, uint16_t type, const tessera_hello *hello, int timeout_s,
                   struct tsr_reply *reply);

/* One request to the context's worker. A closed socket is the context's end. `pass_fd` or -1. */
CUresult tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
                 int pass_fd, struct tsr_reply *reply);

void tsr_reply_close(struct tsr_reply *reply);

#endif
