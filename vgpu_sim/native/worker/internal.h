/* State and functions shared by the runtime's files. */
#ifndef TESSERA_WORKER_INTERNAL_H
#define TESSERA_WORKER_INTERNAL_H

#include <stdbool.h>

#include "cta.h"
#include "fiber.h"
#include "tessera_worker.h"

enum {
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_LAUNCH_FAILED = 719
};

typedef enum { ACTIVITY_NONE, ACTIVITY_KERNEL, ACTIVITY_CALLBACK, ACTIVITY_COPY } activity;

/* What this thread does, for the fault handler. */
typedef struct thread_activity {
  volatile activity kind;
  volatile uint64_t kernel;
  const uint8_t *volatile parameters; /* of a native kernel: TESSERA_MAX_PARAMETER_BYTES */
  const tw_stacks *volatile stacks;   /* while the groups of a block run; else NULL */
  volatile uint64_t shared_window;    /* base of this thread's shared memory; 0: none yet */
  volatile uint64_t shared_bytes;     /* of a block of the launch that last had some */
  tessera_thread_state state;
} thread_activity;

/* A slot after it was copied: nothing in it changes any more. */
typedef struct request {
  tessera_slot slot;
  _Alignas(64) uint8_t parameters[TESSERA_MAX_PARAMETER_BYTES];
} request;

/* One stream as the scheduler sees it. */
typedef struct stream {
  uint64_t tail;       /* slots copied out of the ring */
  uint64_t last_value; /* value of the last request copied */
  uint64_t awaited;    /* head that must be reached before the request is whole; 0: it is */
  bool pending;        /* `next` holds a request that has not run */
  request next;
} stream;

/* Process-wide state. Written before the threads start, but for what says otherwise. */
typedef struct worker {
  tessera_worker_config config;
  const tessera_client_area *client;
  tessera_worker_page *page;
  uint64_t aperture_base;
  uint32_t stopping; /* atomic */
} worker;

extern worker tw;
extern __thread thread_activity tw_current __attribute__((tls_model("initial-exec")));

/* ring.c: true when `s->next` is a whole, valid request. Does not return on a protocol error. */
bool tw_ring_fetch(uint32_t index, stream *s);
bool tw_ring_has_news(uint32_t index, const stream *s);

/* timeline.c */
void tw_publish(uint32_t stream_index, uint64_t value);
/* Keeps timelines still from now on; from any thread but inside tw_publish. */
void tw_freeze_timelines(void);
bool tw_timelines_frozen(void);

/* stats.c */
void tw_account_launch(uint64_t begin_ns, uint64_t end_ns);
/* Around what a kernel computes, without what is compiled for it; scheduler's thread. */
void tw_kernel_begins(uint64_t handle);
void tw_kernel_ends(void);

/* scheduler.c */
void *tw_scheduler_main(void *unused);

/* execute.c: runs a request to its end. */
void tw_execute(request *r);

/* kernels.c. A kernel stays where it is between acquire and release, which only the scheduler's
 * thread calls, for one kernel at a time. */
const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle);
void tw_kernel_release(void);
const tw_code *tw_variant_find(uint64_t handle, const uint32_t block[3]);
const tw_code *tw_variant_add(uint64_t handle, const uint32_t block[3], const tw_code *code);
/* Scheduler's thread: a launch of the kernel has ended. */
void tw_kernel_account(uint64_t handle, uint64_t busy_ns);
/* Name of a kernel that is being run, for the fault record. */
void tw_kernel_name(uint64_t handle, char *name, uint64_t size);

/* chunks.c: the lock keeps chunks mapped while a copy runs. */
void tw_chunks_lock(void);
void tw_chunks_unlock(void);
bool tw_chunks_cover_locked(uint64_t address, uint64_t bytes);

/* pool.c */
int tw_pool_start(uint32_t helpers);
void tw_pool_stop(void);
void tw_pool_run(tessera_kernel_entry entry, const tessera_launch_context *launch,
                 const uint8_t *parameters, uint64_t blocks);

/* fault.c */
typedef struct fault {
  uint32_t kind;
  uint32_t error;
  uint32_t ptx_line;
  uint32_t word; /* of a native trap: its instruction's number, plus 1 */
  uint64_t kernel;
  uint64_t pc;
  uint64_t address;
  uint64_t block;
  bool shared; /* `address` is one of shared memory */
  const char *message;
} fault;
int tw_fault_install(void);
/* An alternate stack for the calling thread; the handler must work after a stack overflow. */
int tw_fault_prepare_thread(void);
void tw_die(const fault *f) __attribute__((noreturn));
/* What the running kernel needs of memory is not there. */
static inline __attribute__((noreturn)) void tw_die_out_of_memory(const char *message) {
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_OUT_OF_MEMORY,
                  .error = CUDA_ERROR_OUT_OF_MEMORY,
                  .kernel = tw_current.kernel,
                  .message = message});
}
/* `code` is an address within the code of the kernel whose trap is in `state`; `message` says what
 * else it was (NULL: a trap). */
void tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                    const char *message) __attribute__((noreturn));
bool tw_dead(void);

#endif
