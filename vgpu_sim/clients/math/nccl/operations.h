/* Operations of a communicator, in the order in which all ranks perform them. */
#ifndef TSR_NCCL_OPERATIONS_H
#define TSR_NCCL_OPERATIONS_H

#include "communicators.h"

enum tsr_kind {
  TSR_ALL_REDUCE,
  TSR_REDUCE,
  TSR_REDUCE_SCATTER,
  TSR_BROADCAST,
  TSR_ALL_GATHER,
  TSR_ALL_TO_ALL,
  TSR_GATHER,
  TSR_SCATTER,
  TSR_MESSAGES, /* sends and receives */
};

enum { TSR_STAGING_BYTES = 4 << 20 };

struct tsr_message {
  bool sends;
  int peer, datatype;
  uint64_t address;
  size_t count;
  cudaStream_t stream;
  tsr_event_t ready;
};

struct tsr_operation {
  struct tsr_operation *next;
  uint64_t number;
  enum tsr_kind kind;
  uint64_t send, receive; /* addresses */
  size_t count;           /* elements, as the function's parameter */
  int datatype, op, root;
  struct tsr_scalar scalar; /* of a premultiplied sum */
  tsr_event_t ready;        /* what the stream did before is complete */
  size_t message_count;
  struct tsr_message messages[];
};

/* Put a copy of an operation into a stream: those after it wait for its end. For messages, each message has its
 * stream. */
ncclResult_t tsr_engine_put(struct tsr_communicator *comm, const struct tsr_operation *operation,
                            const struct tsr_message *messages, cudaStream_t stream);

/* Wait until all operations are complete, or one has failed. */
ncclResult_t tsr_engine_drain(struct tsr_communicator *comm);

/* Complete all operations, unless one has failed or fails, and end the thread. The streams that wait for an
 * operation that cannot complete continue. */
void tsr_engine_stop(struct tsr_communicator *comm);

/* Perform an operation on the engine's thread. */
ncclResult_t tsr_perform(struct tsr_communicator *comm, const struct tsr_operation *operation);
ncclResult_t tsr_perform_messages(struct tsr_communicator *comm, const struct tsr_operation *operation);

#endif
