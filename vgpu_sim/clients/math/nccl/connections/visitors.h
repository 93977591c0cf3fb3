/* Connections to a listening socket that identify themselves by a first message. */
#ifndef TSR_NCCL_VISITORS_H
#define TSR_NCCL_VISITORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR_MAX_VISITORS = 64, TSR_MAX_GREETING = 128, TSR_SECRET_BYTES = 16 };

/* Connections whose first message is not complete. One that sends something else is closed; if there are too
 * many, the oldest is. So strangers cannot keep ranks out. */
struct tsr_visitors {
  int listener;
  struct {
    int fd;
    size_t got;
    uint8_t greeting[TSR_MAX_GREETING];
  } each[TSR_MAX_VISITORS];
  size_t count;
};

/* Return the socket of the next connection that has sent `bytes` beginning with the secret; they are in
 * `greeting`. -1: none came before `deadline_ns` of the monotonic clock, or `*aborted`. */
int tsr_visitors_next(struct tsr_visitors *visitors, const uint8_t *secret, void *greeting, size_t bytes,
                      uint64_t deadline_ns, const volatile bool *aborted);

void tsr_visitors_end(struct tsr_visitors *visitors);

/* Send or receive all bytes on a blocking socket; false if the connection ends before. */
bool tsr_send_all(int fd, const void *bytes, size_t size);
bool tsr_receive_all(int fd, void *bytes, size_t size);

#endif
