#define _GNU_SOURCE
#include "connections/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "connections/secrets.h"

enum { LOOK_MS = 200 }; /* how often an abort is noticed at the latest */

/* How far a transfer has come with one peer in one direction. */
struct progress {
  size_t next, done; /* the first piece that is not complete, and the bytes of its complete chunks */
  size_t moved;      /* bytes of the next chunk and its tag */
  bool is_tagged;    /* `tag` is that of the chunk, which is being sent */
  uint8_t tag[TSR_TAG_BYTES];
};

/* One direction of a transfer. */
struct direction {
  const struct tsr_piece *pieces;
  size_t count;
  bool sends;
  struct progress *progress; /* by peer */
};

static size_t next_of(const struct direction *direction, int peer, size_t from) {
  while (from < direction->count && direction->pieces[from].peer != peer) from++;
  return from;
}

static bool is_over(const struct direction *direction, int ranks) {
  for (int peer = 0; peer < ranks; peer++)
    if (direction->progress[peer].next < direction->count) return false;
  return true;
}

/* Move what the socket takes or has of a chunk and its tag. Returns ncclInProgress when the socket is exhausted. */
static ncclResult_t move_chunk(int fd, bool sends, char *bytes, size_t size, struct progress *progress) {
  while (progress->moved < size + sizeof progress->tag) {
    const size_t data = progress->moved < size ? progress->moved : size, tag = progress->moved - data;
    struct iovec areas[] = {{.iov_base = bytes + data, .iov_len = size - data},
                            {.iov_base = progress->tag + tag, .iov_len = sizeof progress->tag - tag}};
    struct msghdr message = {.msg_iov = areas, .msg_iovlen = 2};
    const ssize_t count =
        sends ? sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) : recvmsg(fd, &message, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return ncclInProgress;
    if (count <= 0) return ncclRemoteError;
    progress->moved += (size_t)count;
  }
  return ncclSuccess;
}

/* Move a chunk, with its tag. What was received is not used before its tag was compared. */
static ncclResult_t move_tagged(struct tsr_channel *channel, bool sends, char *bytes, size_t size,
                                struct progress *progress) {
  if (sends && !progress->is_tagged) tsr_channel_tag(channel, bytes, size, progress->tag);
  progress->is_tagged = true;
  const ncclResult_t result = move_chunk(channel->fd, sends, bytes, size, progress);
  if (result != ncclSuccess) return result;
  if (!sends && !tsr_channel_check(channel, bytes, size, progress->tag)) return ncclRemoteError;
  progress->moved = 0;
  progress->is_tagged = false;
  progress->done += size;
  return ncclSuccess;
}

/* Move what the socket takes or has. Returns ncclInProgress when it is exhausted. */
static ncclResult_t move(const struct direction *direction, int peer, struct tsr_channel *channel,
                         const struct tsr_piece **culprit) {
  struct progress *const progress = &direction->progress[peer];
  while (progress->next < direction->count) {
    const struct tsr_piece *piece = &direction->pieces[progress->next];
    while (progress->done < piece->size) {
      const size_t remaining = piece->size - progress->done;
      const ncclResult_t result =
          move_tagged(channel, direction->sends, (char *)piece->bytes + progress->done,
                      remaining < TSR_CHUNK_BYTES ? remaining : TSR_CHUNK_BYTES, progress);
      if (result != ncclSuccess) return result;
    }
    if (piece->expected && memcmp(piece->bytes, piece->expected, piece->size) != 0) {
      *culprit = piece;
      return ncclInvalidUsage;
    }
    progress->done = 0;
    progress->next = next_of(direction, peer, progress->next + 1);
  }
  return ncclSuccess;
}

static ncclResult_t transfer(struct tsr_mesh *mesh, const struct direction *out, const struct direction *in,
                             struct pollfd *polled, const struct tsr_piece **culprit) {
  while (!is_over(out, mesh->ranks) || !is_over(in, mesh->ranks)) {
    if (mesh->aborted) return ncclRemoteError;
    for (int peer = 0; peer < mesh->ranks; peer++) {
      const bool sends = out->progress[peer].next < out->count, receives = in->progress[peer].next < in->count;
      polled[peer].fd = sends || receives ? mesh->channels[peer].fd : -1;
      polled[peer].events = (short)((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
      polled[peer].revents = 0;
    }
    if (poll(polled, (nfds_t)mesh->ranks, LOOK_MS) < 0 && errno != EINTR) return ncclSystemError;
    for (int peer = 0; peer < mesh->ranks; peer++) {
      if (polled[peer].fd < 0 || !polled[peer].revents) continue;
      /* First what others need to find the same mistake. */
      ncclResult_t result = move(out, peer, &mesh->channels[peer], culprit);
      if (result == ncclSuccess || result == ncclInProgress)
        result = move(in, peer, &mesh->channels[peer], culprit);
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t tsr_mesh_transfer(struct tsr_mesh *mesh, const struct tsr_piece *out, size_t outs,
                               const struct tsr_piece *in, size_t ins, const struct tsr_piece **culprit) {
  const size_t ranks = (size_t)mesh->ranks;
  struct progress *progress = calloc(2 * ranks, sizeof *progress);
  struct pollfd *polled = calloc(ranks, sizeof *polled);
  ncclResult_t result = ncclSystemError;
  if (progress && polled) {
    const struct direction outgoing = {out, outs, true, progress};
    const struct direction incoming = {in, ins, false, progress + ranks};
    for (int peer = 0; peer < mesh->ranks; peer++) {
      outgoing.progress[peer].next = next_of(&outgoing, peer, 0);
      incoming.progress[peer].next = next_of(&incoming, peer, 0);
    }
    result = transfer(mesh, &outgoing, &incoming, polled, culprit);
  }
  free(polled);
  free(progress);
  return result;
}

bool tsr_mesh_prepare(struct tsr_mesh *mesh) {
  struct tsr_channel *channels = calloc((size_t)mesh->ranks, sizeof *channels);
  for (int peer = 0; channels && peer < mesh->ranks; peer++) channels[peer].fd = -1;
  mesh->channels = channels;
  return channels;
}

int tsr_mesh_forged_peer(const struct tsr_mesh *mesh) {
  for (int peer = 0; mesh->channels && peer < mesh->ranks; peer++)
    if (mesh->channels[peer].is_forged) return peer;
  return -1;
}

static void shut_down(const struct tsr_mesh *mesh, int how) {
  for (int peer = 0; mesh->channels && peer < mesh->ranks; peer++)
    if (mesh->channels[peer].fd >= 0) shutdown(mesh->channels[peer].fd, how);
}

void tsr_mesh_give_up(struct tsr_mesh *mesh) { shut_down(mesh, SHUT_WR); }

void tsr_mesh_abort(struct tsr_mesh *mesh) {
  mesh->aborted = true;
  shut_down(mesh, SHUT_RDWR);
}

void tsr_mesh_close(struct tsr_mesh *mesh) {
  for (int peer = 0; mesh->channels && peer < mesh->ranks; peer++) tsr_channel_close(&mesh->channels[peer]);
  free(mesh->channels);
  mesh->channels = NULL;
  tsr_wipe(mesh->split_key, sizeof mesh->split_key);
}
