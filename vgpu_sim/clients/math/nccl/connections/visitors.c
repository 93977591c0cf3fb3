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

#define GREETING_NS UINT64_C(30000000000) /* the time for a greeting, whatever its bytes are */

enum { LOOK_MS = 100, MAX_ACCEPTED_AT_ONCE = 64 };

static void remove_at(struct tsr_visitors *visitors, size_t index) {
  visitors->count--;
  memmove(&visitors->each[index], &visitors->each[index + 1],
          (visitors->count - index) * sizeof visitors->each[0]);
}

static void dismiss(struct tsr_visitors *visitors, size_t index) {
  close(visitors->each[index].fd);
  remove_at(visitors, index);
}

/* Close the oldest connection of the address that has the most. */
static void dismiss_one(struct tsr_visitors *visitors) {
  size_t oldest = 0, largest = 0;
  for (size_t i = 0; i < visitors->count; i++) {
    size_t count = 0;
    for (size_t j = i; j < visitors->count; j++)
      count += memcmp(visitors->each[i].source, visitors->each[j].source, TSR_SOURCE_BYTES) == 0;
    if (count <= largest) continue;
    largest = count;
    oldest = i;
  }
  if (visitors->count) dismiss(visitors, oldest);
}

static void copy_source(const struct sockaddr_storage *address, uint8_t source[TSR_SOURCE_BYTES]) {
  memset(source, 0, TSR_SOURCE_BYTES);
  if (address->ss_family == AF_INET6)
    memcpy(source, &((const struct sockaddr_in6 *)address)->sin6_addr, TSR_SOURCE_BYTES);
  else
    memcpy(source, &((const struct sockaddr_in *)address)->sin_addr, sizeof(struct in_addr));
}

/* Accept the next connection, and send it a challenge. False: none is waiting. */
static bool accept_next(struct tsr_visitors *visitors) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  const int fd = accept4(visitors->listener, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE) dismiss_one(visitors);
    return false;
  }
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (visitors->count == TSR_MAX_VISITORS) dismiss_one(visitors);
  struct tsr_visitor *const visitor = &visitors->each[visitors->count];
  visitor->fd = fd;
  visitor->received = 0;
  visitor->deadline_ns = tsr_now_ns() + GREETING_NS;
  copy_source(&address, visitor->source);
  const ssize_t size = sizeof visitor->challenge;
  if (tsr_challenge_make(&visitor->challenge) &&
      send(fd, &visitor->challenge, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) == size)
    visitors->count++;
  else
    close(fd);
  return true;
}

enum state { INCOMPLETE, COMPLETE, ENDED };

static enum state receive_greeting(struct tsr_visitor *visitor) {
  const size_t size = sizeof visitor->greeting;
  char *const at = (char *)&visitor->greeting + visitor->received;
  const ssize_t count = recv(visitor->fd, at, size - visitor->received, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return INCOMPLETE;
  if (count <= 0) return ENDED;
  visitor->received += (size_t)count;
  return visitor->received == size ? COMPLETE : INCOMPLETE;
}

static bool is_as_expected(const struct tsr_visitor *visitor, const struct tsr_expectation *expectation) {
  return tsr_greeting_is_authentic(&visitor->greeting, &visitor->challenge, expectation->secret) &&
         visitor->greeting.acceptor == expectation->acceptor &&
         visitor->greeting.acceptor_rank == expectation->acceptor_rank;
}

bool tsr_visitors_next(struct tsr_visitors *visitors, const struct tsr_expectation *expectation,
                       struct tsr_greeting *greeting, struct tsr_channel *channel, uint64_t deadline_ns,
                       const volatile bool *aborted) {
  while (!*aborted && tsr_now_ns() < deadline_ns) {
    struct pollfd polled[TSR_MAX_VISITORS + 1];
    const size_t count = visitors->count;
    for (size_t i = 0; i < count; i++)
      polled[i] = (struct pollfd){.fd = visitors->each[i].fd, .events = POLLIN};
    polled[count] = (struct pollfd){.fd = visitors->listener, .events = POLLIN};
    if (poll(polled, (nfds_t)count + 1, LOOK_MS) < 0) continue;
    const uint64_t now_ns = tsr_now_ns();
    for (size_t i = count; i-- > 0;) {
      struct tsr_visitor *const visitor = &visitors->each[i];
      const enum state state = polled[i].revents ? receive_greeting(visitor) : INCOMPLETE;
      if (state == COMPLETE && is_as_expected(visitor, expectation)) {
        *channel = (struct tsr_channel){.fd = visitor->fd};
        *greeting = visitor->greeting;
        const struct tsr_challenge challenge = visitor->challenge;
        remove_at(visitors, i);
        if (tsr_greeting_accept(greeting, &challenge, expectation->secret, channel)) return true;
        tsr_channel_close(channel);
      } else if (state != INCOMPLETE || now_ns >= visitor->deadline_ns) {
        dismiss(visitors, i);
      }
    }
    int accepted = 0;
    while (polled[count].revents && accepted < MAX_ACCEPTED_AT_ONCE && accept_next(visitors)) accepted++;
  }
  return false;
}

void tsr_visitors_end(struct tsr_visitors *visitors) {
  while (visitors->count) dismiss(visitors, visitors->count - 1);
  if (visitors->listener >= 0) close(visitors->listener);
  visitors->listener = -1;
}
