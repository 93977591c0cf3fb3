#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "context.h"

int tsr_connect(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int directory = -1;
  if (strlen(path) < sizeof address.sun_path) {
    memcpy(address.sun_path, path, strlen(path) + 1);
  } else { /* too long for an address: go through the directory's descriptor */
    const char *slash = strrchr(path, '/');
    char parent[512];
    if (!slash || (size_t)(slash - path) >= sizeof parent) return -1;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    directory = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d%s", directory, slash);
  }
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int failed = fd < 0;
  if (!failed) {
    /* A full backlog must not hang the caller. */
    const struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    failed = connect(fd, (struct sockaddr *)&address, sizeof address) != 0;
  }
  if (directory >= 0) close(directory);
  if (failed && fd >= 0) close(fd);
  return failed ? -1 : fd;
}

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(TSR_MAX_FDS * sizeof(int))];
};

static bool send_message(int socket, uint16_t type, uint32_t request, const void *payload,
                         uint32_t bytes, int pass_fd) {
  tessera_header header = {.magic = TESSERA_MAGIC,
                           .version = TESSERA_PROTOCOL_VERSION,
                           .type = type,
                           .request = request,
                           .payload_bytes = bytes};
  struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)payload, bytes}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes ? 2 : 1};
  union control control;
  if (pass_fd >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &pass_fd, sizeof pass_fd);
  }
  ssize_t sent;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)(sizeof header + bytes);
}

static void take_fds(struct msghdr *message, struct tsr_reply *reply) {
  unsigned taken = 0;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (taken < TSR_MAX_FDS)
        reply->fds[taken++] = fd;
      else
        close(fd);
    }
  }
}

enum outcome { RECEIVED, SILENT, CLOSED, MALFORMED };

static enum outcome receive_message(int socket, uint16_t type, uint32_t request,
                                    struct tsr_reply *reply) {
  tessera_header header;
  union control control;
  struct iovec parts[2] = {{&header, sizeof header}, {reply->payload, sizeof reply->payload}};
  struct msghdr message = {.msg_iov = parts,
                           .msg_iovlen = 2,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  for (unsigned i = 0; i < TSR_MAX_FDS; i++) reply->fds[i] = -1;
  ssize_t got;
  do got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? SILENT : CLOSED;
  take_fds(&message, reply);
  if (got == 0) return CLOSED;
  const bool whole = (size_t)got >= sizeof header &&
                     !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  const bool sound = whole && header.magic == TESSERA_MAGIC && header.type == type &&
                     header.request == request &&
                     header.payload_bytes == (size_t)got - sizeof header && header.status >= 0;
  if (!sound) {
    tsr_reply_close(reply);
    return MALFORMED;
  }
  reply->status = (CUresult)header.status;
  reply->payload_bytes = header.payload_bytes;
  return RECEIVED;
}

CUresult tsr_hello(int socket, uint16_t type, const tessera_hello *hello, int timeout_s,
                   struct tsr_reply *reply) {
  const struct timeval limit = {.tv_sec = timeout_s}, none = {0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (!send_message(socket, type, 1, hello, sizeof *hello, -1)) return CUDA_ERROR_NO_DEVICE;
  const enum outcome outcome = receive_message(socket, type + 1, 1, reply);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  if (outcome == RECEIVED) return reply->status;
  return outcome == MALFORMED ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
}

CUresult tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
                 int pass_fd, struct tsr_reply *reply) {
  for (unsigned i = 0; i < TSR_MAX_FDS; i++) reply->fds[i] = -1;
  pthread_mutex_lock(&context->request_lock);
  CUresult result = tsr_context_error(context);
  if (result == CUDA_SUCCESS) {
    const uint32_t request = ++context->request;
    enum outcome outcome = CLOSED;
    if (send_message(context->socket, type, request, payload, bytes, pass_fd))
      outcome = receive_message(context->socket, type + 1, request, reply);
    result = outcome == RECEIVED ? reply->status : tsr_context_lose(context);
  }
  pthread_mutex_unlock(&context->request_lock);
  return result;
}

void tsr_reply_close(struct tsr_reply *reply) {
  for (unsigned i = 0; i < TSR_MAX_FDS; i++) {
    if (reply->fds[i] >= 0) close(reply->fds[i]);
    reply->fds[i] = -1;
  }
}
