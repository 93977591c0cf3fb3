/* Communicators: ranks, their connections, and the operations that are not complete. */
#ifndef TSR_NCCL_COMMUNICATORS_H
#define TSR_NCCL_COMMUNICATORS_H

#include <pthread.h>
#include <stdbool.h>

#include "driver.h"
#include "connections/mesh.h"
#include "nccl_types.h"

enum { TSR_MAX_SCALARS = 256, TSR_ERROR_BYTES = 256, TSR_SCALAR_BYTES = 8 };

/* The operand of an operation of ncclRedOpCreatePreMulSum. */
struct tsr_scalar {
  bool used;
  int datatype;
  uint64_t device_address; /* 0: `bytes` has the value */
  uint8_t bytes[TSR_SCALAR_BYTES];
};

struct tsr_operation;

/* Performs a communicator's operations one after the other on a thread of its own. A stream in which an
 * operation was put waits until `done`, in device memory, has the operation's number. */
struct tsr_engine {
  pthread_t thread;
  /* Held while an operation is put into a stream, which may take until the stream has room. `lock` is never held
   * for long, so that another thread can abort the communicator meanwhile. */
  pthread_mutex_t order;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct tsr_operation *first, **end; /* with the lock; as the following */
  bool started, stopping, failed;
  uint64_t issued, completed, first_number;
  uint64_t done;
  cudaStream_t stream;
  uint8_t *staging; /* two halves of TSR_STAGING_BYTES */
};

struct tsr_communicator {
  int device;
  bool retained; /* the device's primary context, by ncclCommInitAll */
  bool is_over;  /* finalized */
  tsr_context_t context;
  struct tsr_mesh mesh;
  struct tsr_engine engine;
  struct tsr_scalar scalars[TSR_MAX_SCALARS];
  volatile ncclResult_t async_error;
  char error[TSR_ERROR_BYTES];
};

/* Return the communicator that a handle names, or NULL. */
struct tsr_communicator *tsr_communicator_find(ncclComm_t comm);

/* Record why operations cannot continue; the first error stays. */
__attribute__((format(printf, 3, 4))) ncclResult_t tsr_fail(struct tsr_communicator *comm, ncclResult_t result,
                                                            const char *format, ...);

/* As above, for a transfer that failed before or during, which is `when`, the function `name`. */
ncclResult_t tsr_fail_transfer(struct tsr_communicator *comm, ncclResult_t result, const char *when, const char *name);

#endif
