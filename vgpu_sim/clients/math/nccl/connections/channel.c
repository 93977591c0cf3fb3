#define _GNU_SOURCE
#include "connections/channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "connections/secrets.h"

enum { LOOK_MS = 200 }; /* how often an abort or a deadline is noticed at the latest */

void tsr_channel_tag(struct tsr_channel *channel, const void *bytes, size_t size, uint8_t tag[TSR_TAG_BYTES]) {
  tsr_siphash(tag, channel->out.key, channel->out.number++, bytes, size);
}

bool tsr_channel_check(struct tsr_channel *channel, const void *bytes, size_t size,
                       const uint8_t tag[TSR_TAG_BYTES]) {
  uint8_t expected[TSR_TAG_BYTES];
  tsr_siphash(expected, channel->in.key, channel->in.number++, bytes, size);
  const bool is_right = tsr_is_equal(expected, tag, sizeof expected);
  /* The tag that would have been right must not stay in memory that a later message may show. */
  tsr_wipe(expected, sizeof expected);
  if (!is_right) channel->is_forged = true;
  return is_right;
}

/* Wait until bytes can be moved. False: the time is over, or the wait is aborted. */
static bool wait_for(int fd, short events, uint64_t deadline_ns, const volatile bool *aborted) {
  struct pollfd polled = {.fd = fd, .events = events};
  while (!*aborted && tsr_now_ns() < deadline_ns) {
    const int count = poll(&polled, 1, LOOK_MS);
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
  return false;
}

static bool is_temporary(int error) { return error == EINTR || error == EAGAIN || error == EWOULDBLOCK; }

bool tsr_send_all(int fd, const void *bytes, size_t size, uint64_t deadline_ns, const volatile bool *aborted) {
  for (const char *at = bytes; size;) {
    if (!wait_for(fd, POLLOUT, deadline_ns, aborted)) return false;
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_temporary(errno)) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= (size_t)sent;
  }
  return true;
}

bool tsr_receive_all(int fd, void *bytes, size_t size, uint64_t deadline_ns, const volatile bool *aborted) {
  for (char *at = bytes; size;) {
    if (!wait_for(fd, POLLIN, deadline_ns, aborted)) return false;
    const ssize_t received = recv(fd, at, size, MSG_DONTWAIT);
    if (received < 0 && is_temporary(errno)) continue;
    if (received <= 0) return false;
    at += received;
    size -= (size_t)received;
  }
  return true;
}

static size_t chunk_of(size_t size) { return size < TSR_CHUNK_BYTES ? size : TSR_CHUNK_BYTES; }

ncclResult_t tsr_channel_send(struct tsr_channel *channel, const void *bytes, size_t size,
                              const volatile bool *aborted) {
  uint8_t tag[TSR_TAG_BYTES];
  for (const char *at = bytes; size;) {
    const size_t chunk = chunk_of(size);
    tsr_channel_tag(channel, at, chunk, tag);
    if (!tsr_send_all(channel->fd, at, chunk, UINT64_MAX, aborted) ||
        !tsr_send_all(channel->fd, tag, sizeof tag, UINT64_MAX, aborted))
      return ncclRemoteError;
    at += chunk;
    size -= chunk;
  }
  return ncclSuccess;
}

ncclResult_t tsr_channel_receive(struct tsr_channel *channel, void *bytes, size_t size,
                                 const volatile bool *aborted) {
  uint8_t tag[TSR_TAG_BYTES];
  for (char *at = bytes; size;) {
    const size_t chunk = chunk_of(size);
    if (!tsr_receive_all(channel->fd, at, chunk, UINT64_MAX, aborted) ||
        !tsr_receive_all(channel->fd, tag, sizeof tag, UINT64_MAX, aborted) ||
        !tsr_channel_check(channel, at, chunk, tag))
      return ncclRemoteError;
    at += chunk;
    size -= chunk;
  }
  return ncclSuccess;
}

void tsr_channel_close(struct tsr_channel *channel) {
  if (channel->fd >= 0) close(channel->fd);
  tsr_wipe(channel, sizeof *channel);
  channel->fd = -1;
}
