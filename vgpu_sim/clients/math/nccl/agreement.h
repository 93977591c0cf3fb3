/* What ranks must agree about before they transfer an operation's data. */
#ifndef TSR_NCCL_AGREEMENT_H
#define TSR_NCCL_AGREEMENT_H

#include "operations.h"

enum { TSR_AGREEMENT_MAGIC = 0x4343434e };

/* Messages have only a count and a type. */
struct tsr_agreement {
  uint32_t magic, kind;
  uint64_t number, count;
  int32_t datatype, op, root, unused;
};

static inline const char *tsr_kind_name(enum tsr_kind kind) {
  switch (kind) {
    case TSR_ALL_REDUCE: return "ncclAllReduce";
    case TSR_REDUCE: return "ncclReduce";
    case TSR_REDUCE_SCATTER: return "ncclReduceScatter";
    case TSR_BROADCAST: return "ncclBroadcast";
    case TSR_ALL_GATHER: return "ncclAllGather";
    case TSR_ALL_TO_ALL: return "ncclAlltoAll";
    case TSR_GATHER: return "ncclGather";
    case TSR_SCATTER: return "ncclScatter";
    case TSR_MESSAGES: return "ncclSend or ncclRecv";
  }
  return "an unknown function";
}

/* Return the name of the function that another rank calls. */
static inline const char *tsr_agreement_name(const struct tsr_agreement *other) {
  return tsr_kind_name(other->magic == TSR_AGREEMENT_MAGIC ? (enum tsr_kind)other->kind : (enum tsr_kind) - 1);
}

#endif
