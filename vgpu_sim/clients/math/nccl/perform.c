/* Each operation, in parts that fit in the staging memory: copies from the device, transfers between ranks,
 * reductions on this processor, copies to the device. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "agreement.h"
#include "operations.h"
#include "reductions.h"

/* A part of an operation. `first` and `second` are the halves of the staging memory. */
struct part {
  struct tsr_communicator *comm;
  const struct tsr_operation *operation;
  size_t offset, count, element; /* the first two in elements, the last in bytes */
  uint8_t *first, *second;
  struct tsr_piece *out, *in; /* room for one of each rank */
  size_t outs, ins;
  bool failed; /* a copy was refused */
};

static size_t bytes_of(const struct part *part) { return part->count * part->element; }

/* Return the address of this part of a rank's block in an array of blocks, or of the array itself. */
static uint64_t place_of(const struct part *part, uint64_t array, int block) {
  return array + ((size_t)block * part->operation->count + part->offset) * part->element;
}

static void load(struct part *part, uint8_t *host, int block) {
  const uint64_t from = place_of(part, part->operation->send, block);
  part->failed |= cuMemcpyDtoHAsync_v2(host, from, bytes_of(part), part->comm->engine.stream) != 0;
}

static void store(struct part *part, const uint8_t *host, int block) {
  const uint64_t to = place_of(part, part->operation->receive, block);
  part->failed |= cuMemcpyHtoDAsync_v2(to, host, bytes_of(part), part->comm->engine.stream) != 0;
}

static ncclResult_t finish_copies(struct part *part) {
  part->failed |= cuStreamSynchronize(part->comm->engine.stream) != 0;
  return part->failed ? tsr_fail(part->comm, ncclUnhandledCudaError, "CUDA refuses to copy the operands of %s",
                                 tsr_kind_name(part->operation->kind))
                      : ncclSuccess;
}

static void send_to(struct part *part, int peer, void *bytes, size_t size) {
  part->out[part->outs++] = (struct tsr_piece){.peer = peer, .bytes = bytes, .size = size};
}

static void receive_from(struct part *part, int peer, void *bytes, size_t size) {
  part->in[part->ins++] = (struct tsr_piece){.peer = peer, .bytes = bytes, .size = size};
}

static ncclResult_t transfer(struct part *part) {
  const struct tsr_piece *culprit = NULL;
  struct tsr_mesh *mesh = &part->comm->mesh;
  ncclResult_t result = tsr_mesh_transfer(mesh, part->out, part->outs, part->in, part->ins, &culprit);
  part->outs = part->ins = 0;
  return result == ncclSuccess ? result
                               : tsr_fail_transfer(part->comm, result, "during", tsr_kind_name(part->operation->kind));
}

/* Multiply values by this rank's operand of a premultiplied sum. */
static void scale(const struct part *part, uint8_t *values, size_t count) {
  if (part->operation->op == TSR_PREMULTIPLIED_SUM)
    tsr_scale(values, count, part->operation->datatype, part->operation->scalar.bytes);
}

/* Reduce this rank's elements at `mine` with the other ranks' at `others`, in the order of ranks, into `mine`. */
static void reduce(const struct part *part, uint8_t *mine, uint8_t *others, size_t count) {
  const struct tsr_mesh *mesh = &part->comm->mesh;
  const void *parts[mesh->ranks];
  for (int rank = 0; rank < mesh->ranks; rank++) {
    const int index = rank - (rank > mesh->rank);
    parts[rank] = rank == mesh->rank ? mine : others + (size_t)index * count * part->element;
  }
  tsr_reduce(mine, parts, mesh->ranks, count, part->operation->datatype, part->operation->op);
}

/* Each rank reduces one slice of the part, and sends the result to the others. */
static ncclResult_t all_reduce(struct part *part) {
  const struct tsr_mesh *mesh = &part->comm->mesh;
  const size_t ranks = (size_t)mesh->ranks, element = part->element;
#define SLICE(rank) (part->count * (size_t)(rank) / ranks)
  const size_t begin = SLICE(mesh->rank), mine = SLICE(mesh->rank + 1) - begin;
  load(part, part->first, 0);
  ncclResult_t result = finish_copies(part);
  if (result != ncclSuccess) return result;
  scale(part, part->first, part->count);
  uint8_t *others = part->second;
  for (int peer = 0; peer < mesh->ranks; peer++) {
    if (peer == mesh->rank) continue;
    send_to(part, peer, part->first + SLICE(peer) * element, (SLICE(peer + 1) - SLICE(peer)) * element);
    receive_from(part, peer, others, mine * element);
    others += mine * element;
  }
  if ((result = transfer(part)) != ncclSuccess) return result;
  uint8_t *const reduced = part->first + begin * element;
  reduce(part, reduced, part->second, mine);
  for (int peer = 0; peer < mesh->ranks; peer++) {
    if (peer == mesh->rank) continue;
    send_to(part, peer, reduced, mine * element);
    receive_from(part, peer, part->first + SLICE(peer) * element, (SLICE(peer + 1) - SLICE(peer)) * element);
  }
  if ((result = transfer(part)) != ncclSuccess) return result;
  store(part, part->first, 0);
  return finish_copies(part);
#undef SLICE
}

/* Every rank has one block. It goes to the root, or to all ranks; those reduce the blocks, or store them. */
static ncclResult_t collect(struct part *part, bool at_all, bool reduces) {
  const struct tsr_mesh *mesh = &part->comm->mesh;
  const size_t bytes = bytes_of(part);
  const bool receives = at_all || mesh->rank == part->operation->root;
  load(part, part->first, 0);
  ncclResult_t result = finish_copies(part);
  if (result != ncclSuccess) return result;
  scale(part, part->first, part->count);
  for (int peer = 0, index = 0; peer < mesh->ranks; peer++) {
    if (peer == mesh->rank) continue;
    if (at_all || peer == part->operation->root) send_to(part, peer, part->first, bytes);
    if (receives) receive_from(part, peer, part->second + bytes * (size_t)index++, bytes);
  }
  if ((result = transfer(part)) != ncclSuccess || !receives) return result;
  if (reduces) {
    reduce(part, part->first, part->second, part->count);
    store(part, part->first, 0);
  } else {
    for (int peer = 0; peer < mesh->ranks; peer++) {
      const size_t index = (size_t)(peer - (peer > mesh->rank));
      store(part, peer == mesh->rank ? part->first : part->second + bytes * index, peer);
    }
  }
  return finish_copies(part);
}

/* The root, or each rank, has a block for each rank. Those are stored, or reduced into one. */
static ncclResult_t distribute(struct part *part, bool from_all, bool reduces) {
  const struct tsr_mesh *mesh = &part->comm->mesh;
  const size_t bytes = bytes_of(part);
  const bool sends = from_all || mesh->rank == part->operation->root;
  for (int peer = 0; sends && peer < mesh->ranks; peer++) load(part, part->first + bytes * (size_t)peer, peer);
  ncclResult_t result = finish_copies(part);
  if (result != ncclSuccess) return result;
  uint8_t *const mine = part->first + bytes * (size_t)mesh->rank;
  if (sends) scale(part, part->first, part->count * (size_t)mesh->ranks);
  for (int peer = 0, index = 0; peer < mesh->ranks; peer++) {
    if (peer == mesh->rank) continue;
    if (sends) send_to(part, peer, part->first + bytes * (size_t)peer, bytes);
    if (from_all || peer == part->operation->root)
      receive_from(part, peer, from_all ? part->second + bytes * (size_t)index++ : mine, bytes);
  }
  if ((result = transfer(part)) != ncclSuccess) return result;
  if (reduces) reduce(part, mine, part->second, part->count);
  store(part, mine, from_all && !reduces ? mesh->rank : 0);
  for (int peer = 0, index = 0; from_all && !reduces && peer < mesh->ranks; peer++)
    if (peer != mesh->rank) store(part, part->second + bytes * (size_t)index++, peer);
  return finish_copies(part);
}

static ncclResult_t broadcast(struct part *part) {
  const struct tsr_mesh *mesh = &part->comm->mesh;
  const int root = part->operation->root;
  ncclResult_t result = ncclSuccess;
  if (mesh->rank == root) load(part, part->first, 0);
  if ((result = finish_copies(part)) != ncclSuccess) return result;
  for (int peer = 0; mesh->rank == root && peer < mesh->ranks; peer++)
    if (peer != root) send_to(part, peer, part->first, bytes_of(part));
  if (mesh->rank != root) receive_from(part, root, part->first, bytes_of(part));
  if ((result = transfer(part)) != ncclSuccess) return result;
  store(part, part->first, 0);
  return finish_copies(part);
}

static ncclResult_t perform_part(struct part *part) {
  switch (part->operation->kind) {
    case TSR_ALL_REDUCE: return all_reduce(part);
    case TSR_REDUCE: return collect(part, false, true);
    case TSR_ALL_GATHER: return collect(part, true, false);
    case TSR_GATHER: return collect(part, false, false);
    case TSR_REDUCE_SCATTER: return distribute(part, true, true);
    case TSR_ALL_TO_ALL: return distribute(part, true, false);
    case TSR_SCATTER: return distribute(part, false, false);
    case TSR_BROADCAST: return broadcast(part);
    case TSR_MESSAGES: break;
  }
  return ncclInternalError;
}

/* Return how many elements of each block a part has. */
static size_t part_elements(const struct tsr_operation *operation, size_t element, size_t ranks) {
  const bool one_block = operation->kind == TSR_ALL_REDUCE || operation->kind == TSR_BROADCAST;
  return TSR_STAGING_BYTES / element / (one_block ? 1 : ranks);
}

/* Compare what the ranks are about to do. */
static ncclResult_t agree(struct part *part) {
  struct tsr_communicator *comm = part->comm;
  const struct tsr_operation *operation = part->operation;
  struct tsr_agreement mine = {.magic = TSR_AGREEMENT_MAGIC, .kind = operation->kind, .number = operation->number - comm->engine.first_number,
                           .count = operation->count, .datatype = operation->datatype,
                           .op = operation->op, .root = operation->root};
  struct tsr_agreement *others = calloc((size_t)comm->mesh.ranks, sizeof *others);
  if (!others) return ncclSystemError;
  for (int peer = 0; peer < comm->mesh.ranks; peer++) {
    if (peer == comm->mesh.rank) continue;
    send_to(part, peer, &mine, sizeof mine);
    receive_from(part, peer, &others[peer], sizeof mine);
    part->in[part->ins - 1].expected = &mine;
  }
  const struct tsr_piece *culprit = NULL;
  ncclResult_t result = tsr_mesh_transfer(&comm->mesh, part->out, part->outs, part->in, part->ins, &culprit);
  part->outs = part->ins = 0;
  if (result == ncclInvalidUsage && culprit) {
    const struct tsr_agreement *other = culprit->bytes;
    tsr_fail(comm, result,
             "as operation %llu this rank calls %s (count %llu, type %d, operation %d, root %d), and rank %d calls"
             " %s (count %llu, type %d, operation %d, root %d)",
             (unsigned long long)mine.number, tsr_kind_name(operation->kind), (unsigned long long)mine.count, mine.datatype,
             mine.op, mine.root, culprit->peer, tsr_agreement_name(other), (unsigned long long)other->count, other->datatype, other->op,
             other->root);
  } else if (result != ncclSuccess) {
    tsr_fail_transfer(comm, result, "before", tsr_kind_name(operation->kind));
  }
  free(others);
  return result;
}

static ncclResult_t perform_collective(struct tsr_communicator *comm, const struct tsr_operation *operation) {
  const size_t ranks = (size_t)comm->mesh.ranks;
  struct tsr_operation own = *operation; /* with a scalar in host memory */
  struct tsr_piece *pieces = calloc(2 * ranks, sizeof *pieces);
  if (!pieces) return ncclSystemError;
  struct part part = {.comm = comm, .operation = &own, .element = tsr_element_bytes(operation->datatype),
                      .first = comm->engine.staging, .second = comm->engine.staging + TSR_STAGING_BYTES,
                      .out = pieces, .in = pieces + ranks};
  if (operation->scalar.used && operation->scalar.device_address)
    part.failed = cuMemcpyDtoHAsync_v2(own.scalar.bytes, operation->scalar.device_address, part.element,
                                       comm->engine.stream) != 0;
  ncclResult_t result = finish_copies(&part);
  if (result == ncclSuccess) result = agree(&part);
  const size_t most = part_elements(operation, part.element, ranks);
  for (size_t done = 0; done < operation->count && result == ncclSuccess; done += part.count) {
    part.offset = done;
    part.count = operation->count - done < most ? operation->count - done : most;
    result = perform_part(&part);
  }
  free(pieces);
  return result;
}

ncclResult_t tsr_perform(struct tsr_communicator *comm, const struct tsr_operation *operation) {
  return operation->kind == TSR_MESSAGES ? tsr_perform_messages(comm, operation) : perform_collective(comm, operation);
}
