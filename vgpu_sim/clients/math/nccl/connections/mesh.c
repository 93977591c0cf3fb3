#define _GNU_SOURCE
#include "connections/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_MS = 200 }; /* how often an abort is noticed at the latest */

/* One direction of a transfer. `next` has for each peer the first piece that is not complete. */
struct direction {
  const struct tsr_piece *pieces;
  size_t count;
  size_t *next, *done; /* by peer; `done` counts the bytes of the next piece */
};

static size_t next_of(const struct direction *way, int peer, size_t from) {
  while (from < way->count && way->pieces[from].peer != peer) from++;
  return from;
}

static bool is_over(const struct direction *way, int ranks) {
  for (int peer = 0; peer < ranks; peer++)
    if (way->next[peer] < way->count) return false;
  return true;
}

/* Move what the socket takes or has. Returns ncclInProgress when it is exhausted. */
static ncclResult_t move(const struct direction *way, int peer, int fd, bool sends,
                         const struct tsr_piece **culprit) {
  while (way->next[peer] < way->count) {
    const struct tsr_piece *piece = &way->pieces[way->next[peer]];
    const size_t left = piece->size - way->done[peer];
    char *at = (char *)piece->bytes + way->done[peer];
    if (left) {
      const ssize_t moved =
          sends ? send(fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(fd, at, left, MSG_DONTWAIT);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return ncclInProgress;
      if (moved <= 0) return ncclRemoteError;
      way->done[peer] += (size_t)moved;
      if ((size_t)moved < left) continue;
    }
    if (piece->expected && memcmp(piece->bytes, piece->expected, piece->size) != 0) {
      *culprit = piece;
      return ncclInvalidUsage;
    }
    way->done[peer] = 0;
    way->next[peer] = next_of(way, peer, way->next[peer] + 1);
  }
  return ncclSuccess;
}

static ncclResult_t transfer(struct tsr_mesh *mesh, const struct direction *out, const struct direction *in,
                             struct pollfd *polled, const struct tsr_piece **culprit) {
  while (!is_over(out, mesh->ranks) || !is_over(in, mesh->ranks)) {
    if (mesh->aborted) return ncclRemoteError;
    for (int peer = 0; peer < mesh->ranks; peer++) {
      const bool sends = out->next[peer] < out->count, receives = in->next[peer] < in->count;
      polled[peer].fd = sends || receives ? mesh->sockets[peer] : -1;
      polled[peer].events = (short)((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
      polled[peer].revents = 0;
    }
    if (poll(polled, (nfds_t)mesh->ranks, LOOK_MS) < 0 && errno != EINTR) return ncclSystemError;
    for (int peer = 0; peer < mesh->ranks; peer++) {
      if (polled[peer].fd < 0 || !polled[peer].revents) continue;
      /* First what others need to find the same mistake. */
      ncclResult_t result = move(out, peer, polled[peer].fd, true, culprit);
      if (result == ncclSuccess || result == ncclInProgress)
        result = move(in, peer, polled[peer].fd, false, culprit);
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t tsr_mesh_transfer(struct tsr_mesh *mesh, const struct tsr_piece *out, size_t outs,
                               const struct tsr_piece *in, size_t ins, const struct tsr_piece **culprit) {
  const size_t ranks = (size_t)mesh->ranks;
  size_t *numbers = calloc(4 * ranks, sizeof *numbers);
  struct pollfd *polled = calloc(ranks, sizeof *polled);
  ncclResult_t result = ncclSystemError;
  if (numbers && polled) {
    const struct direction outgoing = {out, outs, numbers, numbers + ranks};
    const struct direction incoming = {in, ins, numbers + 2 * ranks, numbers + 3 * ranks};
    for (int peer = 0; peer < mesh->ranks; peer++) {
      outgoing.next[peer] = next_of(&outgoing, peer, 0);
      incoming.next[peer] = next_of(&incoming, peer, 0);
    }
    result = transfer(mesh, &outgoing, &incoming, polled, culprit);
  }
  free(polled);
  free(numbers);
  return result;
}

static void shut_down(const struct tsr_mesh *mesh, int how) {
  for (int peer = 0; mesh->sockets && peer < mesh->ranks; peer++)
    if (mesh->sockets[peer] >= 0) shutdown(mesh->sockets[peer], how);
}

void tsr_mesh_give_up(struct tsr_mesh *mesh) { shut_down(mesh, SHUT_WR); }

void tsr_mesh_abort(struct tsr_mesh *mesh) {
  mesh->aborted = true;
  shut_down(mesh, SHUT_RDWR);
}

void tsr_mesh_close(struct tsr_mesh *mesh) {
  for (int peer = 0; mesh->sockets && peer < mesh->ranks; peer++)
    if (mesh->sockets[peer] >= 0) close(mesh->sockets[peer]);
  free(mesh->sockets);
  mesh->sockets = NULL;
}
