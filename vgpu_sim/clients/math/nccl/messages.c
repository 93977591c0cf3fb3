/* Sends and receives of a group, which are transferred at the same time. */
#include <stdlib.h>
#include <string.h>

#include "agreement.h"
#include "operations.h"
#include "reductions.h"

/* A message's bytes, and the header that is sent before them. */
struct letter {
  struct tsr_agreement header, received;
  uint8_t *bytes;
  size_t size;
};

static void address(const struct tsr_message *message, struct letter *letter, struct tsr_piece *pieces) {
  letter->header = (struct tsr_agreement){.magic = TSR_AGREEMENT_MAGIC, .kind = TSR_MESSAGES, .count = message->count,
                                      .datatype = message->datatype};
  pieces[0] = (struct tsr_piece){.peer = message->peer, .size = sizeof letter->header,
                                 .bytes = message->sends ? &letter->header : &letter->received,
                                 .expected = message->sends ? NULL : &letter->header};
  pieces[1] = (struct tsr_piece){.peer = message->peer, .size = letter->size, .bytes = letter->bytes};
}

static ncclResult_t explain(struct tsr_communicator *comm, ncclResult_t result, const struct tsr_piece *culprit) {
  if (result == ncclInvalidUsage && culprit) {
    const struct tsr_agreement *sent = culprit->bytes, *wanted = culprit->expected;
    return tsr_fail(comm, result,
                    "ncclRecv of %llu elements of type %d from rank %d, which calls %s of %llu elements of type %d",
                    (unsigned long long)wanted->count, wanted->datatype, culprit->peer, tsr_agreement_name(sent),
                    (unsigned long long)sent->count, sent->datatype);
  }
  return tsr_fail_transfer(comm, result, "during", tsr_kind_name(TSR_MESSAGES));
}

/* Copy the messages of this rank to itself, in their order. */
static ncclResult_t pass_to_self(struct tsr_communicator *comm, const struct tsr_operation *operation,
                                 struct letter *letters) {
  size_t receiver = 0;
  for (size_t i = 0; i < operation->message_count; i++) {
    const struct tsr_message *sent = &operation->messages[i];
    if (!sent->sends || sent->peer != comm->mesh.rank) continue;
    while (receiver < operation->message_count &&
           (operation->messages[receiver].sends || operation->messages[receiver].peer != comm->mesh.rank))
      receiver++;
    if (receiver == operation->message_count || letters[receiver].size != letters[i].size ||
        operation->messages[receiver].datatype != sent->datatype)
      return tsr_fail(comm, ncclInvalidUsage, "ncclSend to the own rank, without an equal ncclRecv in its group");
    memcpy(letters[receiver++].bytes, letters[i].bytes, letters[i].size);
  }
  return ncclSuccess;
}

static ncclResult_t perform_messages(struct tsr_communicator *comm, const struct tsr_operation *operation,
                                     struct letter *letters, struct tsr_piece *out, struct tsr_piece *in) {
  size_t outs = 0, ins = 0;
  int status = 0;
  for (size_t i = 0; i < operation->message_count; i++) {
    const struct tsr_message *message = &operation->messages[i];
    struct letter *letter = &letters[i];
    letter->size = message->count * tsr_element_bytes(message->datatype);
    letter->bytes = malloc(letter->size ? letter->size : 1);
    if (!letter->bytes) return tsr_fail(comm, ncclSystemError, "no memory for a message of %zu bytes", letter->size);
    if (message->sends && letter->size)
      status |= cuMemcpyDtoHAsync_v2(letter->bytes, message->address, letter->size, comm->engine.stream);
    if (message->peer == comm->mesh.rank) continue;
    address(message, letter, message->sends ? &out[outs] : &in[ins]);
    *(message->sends ? &outs : &ins) += 2;
  }
  status |= cuStreamSynchronize(comm->engine.stream);
  if (status) return tsr_fail(comm, ncclUnhandledCudaError, "CUDA refuses to copy the operand of ncclSend");
  const struct tsr_piece *culprit = NULL;
  ncclResult_t result = pass_to_self(comm, operation, letters);
  if (result != ncclSuccess) return result;
  result = tsr_mesh_transfer(&comm->mesh, out, outs, in, ins, &culprit);
  if (result != ncclSuccess) return explain(comm, result, culprit);
  for (size_t i = 0; i < operation->message_count; i++)
    if (!operation->messages[i].sends && letters[i].size)
      status |= cuMemcpyHtoDAsync_v2(operation->messages[i].address, letters[i].bytes, letters[i].size,
                                     comm->engine.stream);
  status |= cuStreamSynchronize(comm->engine.stream);
  return status ? tsr_fail(comm, ncclUnhandledCudaError, "CUDA refuses to copy the operand of ncclRecv") : ncclSuccess;
}

ncclResult_t tsr_perform_messages(struct tsr_communicator *comm, const struct tsr_operation *operation) {
  const size_t count = operation->message_count;
  struct letter *letters = calloc(count, sizeof *letters);
  struct tsr_piece *pieces = calloc(4 * count, sizeof *pieces);
  const ncclResult_t result =
      letters && pieces ? perform_messages(comm, operation, letters, pieces, pieces + 2 * count) : ncclSystemError;
  for (size_t i = 0; letters && i < count; i++) free(letters[i].bytes);
  free(letters);
  free(pieces);
  return result;
}
