#define _GNU_SOURCE
#include "connections/visitors.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"

enum { LOOK_MS = 100 };

static void remove_at(struct tsr_visitors *visitors, size_t index) {
  visitors->count--;
  memmove(&visitors->each[index], &visitors->each[index + 1],
          (visitors->count - index) * sizeof visitors->each[0]);
}

static void accept_one(struct tsr_visitors *visitors) {
  const int fd = accept4(visitors->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (visitors->count == TSR_MAX_VISITORS) {
    close(visitors->each[0].fd);
    remove_at(visitors, 0);
  }
  visitors->each[visitors->count].fd = fd;
  visitors->each[visitors->count++].got = 0;
}

/* Read a part of a greeting. Returns 1 if it is complete, 0 if not yet, and -1 if it is wrong. */
static int read_greeting(struct tsr_visitors *visitors, size_t index, const uint8_t *secret, size_t bytes) {
  const size_t got = visitors->each[index].got;
  uint8_t *const greeting = visitors->each[index].greeting;
  const ssize_t more = recv(visitors->each[index].fd, greeting + got, bytes - got, MSG_DONTWAIT);
  if (more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  if (more <= 0) return -1;
  visitors->each[index].got += (size_t)more;
  const size_t compared = got + (size_t)more < TSR_SECRET_BYTES ? got + (size_t)more : TSR_SECRET_BYTES;
  uint8_t differences = 0; /* the time does not depend on where they are */
  for (size_t i = 0; i < compared; i++) differences |= greeting[i] ^ secret[i];
  if (differences) return -1;
  return visitors->each[index].got == bytes;
}

int tsr_visitors_next(struct tsr_visitors *visitors, const uint8_t *secret, void *greeting, size_t bytes,
                      uint64_t deadline_ns, const volatile bool *aborted) {
  while (!*aborted && tsr_now_ns() < deadline_ns) {
    struct pollfd polled[TSR_MAX_VISITORS + 1];
    const size_t count = visitors->count;
    for (size_t i = 0; i < count; i++)
      polled[i] = (struct pollfd){.fd = visitors->each[i].fd, .events = POLLIN};
    polled[count] = (struct pollfd){.fd = visitors->listener, .events = POLLIN};
    if (poll(polled, (nfds_t)count + 1, LOOK_MS) <= 0) continue;
    for (size_t i = count; i-- > 0;) {
      const int state = polled[i].revents ? read_greeting(visitors, i, secret, bytes) : 0;
      if (state == 0) continue;
      const int fd = visitors->each[i].fd;
      memcpy(greeting, visitors->each[i].greeting, bytes);
      remove_at(visitors, i);
      if (state > 0) return fd;
      close(fd);
    }
    if (polled[count].revents) accept_one(visitors);
  }
  return -1;
}

void tsr_visitors_end(struct tsr_visitors *visitors) {
  for (size_t i = 0; i < visitors->count; i++) close(visitors->each[i].fd);
  close(visitors->listener);
}

bool tsr_send_all(int fd, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= (size_t)sent;
  }
  return true;
}

bool tsr_receive_all(int fd, void *bytes, size_t size) {
  char *at = bytes;
  while (size) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= (size_t)got;
  }
  return true;
}
