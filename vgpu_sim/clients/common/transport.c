#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_REQUEST = 1, MAX_PATH_BYTES = 512 };

/* Open the folder of a socket; false where the path is too long. */
static bool parent_of(const char *path, char *parent, size_t room) {
  const char *slash = strrchr(path, '/');
  if (!slash || (size_t)(slash - path) >= room) return false;
  memcpy(parent, path, (size_t)(slash - path));
  parent[slash - path] = 0;
  return true;
}

static int connect_to(const struct sockaddr_un *address) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  /* A full backlog must not block the caller. */
  const struct timeval limit = {.tv_sec = TSR_CONNECT_TIMEOUT_S};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) return fd;
  const int error = errno;
  close(fd);
  return -error;
}

int tsr_connect(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) < sizeof address.sun_path) {
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect_to(&address);
  }
  /* The path is too long for a socket address, so connect through the folder's descriptor. */
  char parent[MAX_PATH_BYTES];
  if (!parent_of(path, parent, sizeof parent)) return -ENAMETOOLONG;
  const int directory = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return -errno;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d%s", directory,
           strrchr(path, '/'));
  const int connected = connect_to(&address);
  close(directory);
  return connected;
}

bool tsr_is_silent(int connected) { return connected == -EAGAIN; }

bool tsr_is_absent(int connected, const char *path) {
  char parent[MAX_PATH_BYTES];
  if (connected != -ECONNREFUSED && connected != -ENOENT) return false;
  struct stat folder;
  /* The system call, because glibc has exported stat() as its own symbol only since 2.33. */
  return parent_of(path, parent, sizeof parent) &&
         syscall(SYS_newfstatat, AT_FDCWD, parent, &folder, 0) == 0 && folder.st_nlink > 0;
}

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(TSR_MAX_FDS * sizeof(int))];
};

bool tsr_send(int socket, uint16_t type, uint32_t request, const void *payload, uint32_t bytes,
              int pass_fd) {
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

static void clear(struct tsr_reply *reply) {
  for (unsigned i = 0; i < TSR_MAX_FDS; i++) reply->fds[i] = -1;
}

enum tsr_outcome tsr_receive(int socket, uint16_t *type, uint32_t *request,
                             struct tsr_reply *reply) {
  clear(reply);
  tessera_header header;
  union control control;
  struct iovec parts[2] = {{&header, sizeof header}, {reply->payload, sizeof reply->payload}};
  struct msghdr message = {.msg_iov = parts,
                           .msg_iovlen = 2,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  ssize_t got;
  do got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? TSR_SILENT : TSR_CLOSED;
  take_fds(&message, reply);
  if (got == 0) return TSR_CLOSED;
  const bool whole = (size_t)got >= sizeof header &&
                     !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  const bool sound = whole && header.magic == TESSERA_MAGIC &&
                     header.payload_bytes == (size_t)got - sizeof header && header.status >= 0;
  if (!sound) {
    tsr_reply_close(reply);
    return TSR_MALFORMED;
  }
  *type = header.type;
  *request = header.request;
  reply->status = header.status;
  reply->payload_bytes = header.payload_bytes;
  return TSR_RECEIVED;
}

static enum tsr_outcome exchange(int socket, uint16_t type, uint32_t request, const void *payload,
                                 uint32_t bytes, struct tsr_reply *reply) {
  clear(reply);
  if (!tsr_send(socket, type, request, payload, bytes, -1)) return TSR_CLOSED;
  uint16_t answered_type = 0;
  uint32_t answered = 0;
  const enum tsr_outcome outcome = tsr_receive(socket, &answered_type, &answered, reply);
  if (outcome != TSR_RECEIVED || (answered_type == type + 1 && answered == request)) return outcome;
  tsr_reply_close(reply);
  return TSR_MALFORMED;
}

enum tsr_outcome tsr_hello(int socket, uint16_t type, const tessera_hello *hello, int timeout_s,
                           struct tsr_reply *reply) {
  const struct timeval limit = {.tv_sec = timeout_s}, none = {0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const enum tsr_outcome outcome =
      exchange(socket, type, FIRST_REQUEST, hello, sizeof *hello, reply);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  return outcome;
}

void tsr_reply_close(struct tsr_reply *reply) {
  for (unsigned i = 0; i < TSR_MAX_FDS; i++)
    if (reply->fds[i] >= 0) close(reply->fds[i]);
  clear(reply);
}
