/* API of the worker's native runtime, for Python (vgpu_sim.worker.runtime.binding) and C tests.
 *
 * One process is one context, so there is one runtime per process and no handle. Functions that
 * return int return 0 or a negative errno. Ordering rules: docs/launch-protocol.md. */
#ifndef TESSERA_WORKER_H
#define TESSERA_WORKER_H

#include "tessera_abi.h"

#define TESSERA_EXPORT __attribute__((visibility("default")))

#define TESSERA_WORKER_EXIT_STATUS 70 /* exit status of a process whose context faulted */

/* A launch's request to the owner: for the code for this block shape, if the kernel is native;
 * to run the launch, if it is interpreted. Several threads call at once, even for the same
 * kernel. On success the callee clears fault_kind, which is INTERNAL when it is called. */
typedef struct tessera_worker_call {
  uint64_t kernel;
  uint32_t grid[3];
  uint32_t block[3];
  const uint8_t *parameters;
  uint64_t parameter_bytes;
  uint64_t entry;       /* result, native: the code; the other results describe how to call it */
  /* result: number of groups per block that wait for each other; then entry is a
   * tessera_group_entry. 0: nothing waits, and entry is a tessera_kernel_entry */
  uint32_t groups;
  uint32_t stack_bytes; /* result: size of the stack that a group needs */
  /* result: number of lanes in a group, if groups call tessera_thread_state.meet; else 0 */
  uint32_t counts;
  uint32_t fault_kind;
  uint32_t error; /* CUresult */
  uint32_t ptx_line;
  uint32_t shared_bytes; /* dynamic shared memory of the launch */
  /* result: whether groups also wait for other blocks, through tessera_thread_state.stop */
  uint32_t polls;
  uint64_t thread_stack_bytes; /* part of local memory, if calls need a stack */
  uint32_t provisional; /* result: better code may be passed to tessera_worker_replace_code */
  uint32_t multiprocessors; /* that the launch may use; 0: all */
  uint32_t cluster;         /* tessera_launch_body.cluster */
  uint32_t depth;           /* of the grid: how many grids launched one another before it */
  uint64_t address;
  uint64_t faulting_block;
  char message[TESSERA_MESSAGE_BYTES];
  tessera_fault_detail detail;
} tessera_worker_call;

typedef void (*tessera_worker_callback)(tessera_worker_call *call);

/* Called for every request before it runs, on the thread that runs it, and once more when a
 * launch has ended; returns the context's time in ns. `parameters` belong to a launch. Several
 * threads call it at once. */
typedef uint64_t (*tessera_worker_observer)(uint32_t stream, const tessera_slot *slot,
                                            const uint8_t *parameters, uint32_t ended);

typedef struct tessera_worker_config {
  uint64_t aperture_base;
  uint32_t threads; /* threads that run blocks, the scheduler's included */
  uint32_t max_threads_per_block;
  uint32_t multiprocessors; /* the number that kernels read */
  uint32_t runners;         /* requests that may run at once; 0: as many as there are streams */
  int32_t client_socket; /* shut down when the context ends; -1: none */
  int32_t fault_event;   /* eventfd written when a fault needs the owner; -1: none */
  tessera_worker_callback callback;
  /* Of one multiprocessor, to compute occupancy; 0: unknown. Each block uses `sm_reserved_bytes`
   * of shared memory in addition to its own. */
  uint32_t sm_threads, sm_blocks, sm_shared_bytes, sm_reserved_bytes;
  tessera_worker_observer observer; /* NULL: none, and timestamps are CLOCK_MONOTONIC */
} tessera_worker_config;

/* Fractions of a kernel's instructions, in units of 1 / TESSERA_WORKER_ALL. */
enum { TESSERA_WORKER_ALL = 1 << 16 };
typedef enum tessera_worker_pipe {
  TESSERA_WORKER_TENSOR,
  TESSERA_WORKER_FP64,
  TESSERA_WORKER_FP32,
  TESSERA_WORKER_FP16,
  TESSERA_WORKER_MEMORY, /* accesses to global memory */
  TESSERA_WORKER_PIPES
} tessera_worker_pipe;

typedef struct tessera_worker_kernel {
  uint64_t segment_base;
  uint32_t parameter_bytes;
  uint32_t max_threads;       /* .maxntid; 0: the device's limit */
  uint32_t required_block[3]; /* .reqntid; 0: none */
  uint32_t required_cluster[3]; /* .reqnctapercluster; 0: none, or of any size */
  uint32_t interpreted;
  uint32_t shared_bytes; /* per block, without a launch's dynamic shared memory */
  uint32_t local_bytes;  /* per thread, without a stack */
  uint64_t has_stack;    /* 1: each thread also has the stack that the launch specifies */
  uint64_t parameter_image; /* where in the segment a launch's parameters are copied; 0: nowhere */
  uint64_t launch_buffer; /* where in the segment the address of the launch buffer is; 0: nowhere */
  uint32_t registers;       /* per thread */
  uint32_t tensor_memory;   /* 1: blocks have tensor memory */
  uint32_t pipes[TESSERA_WORKER_PIPES];
  char name[128];
} tessera_worker_kernel;

typedef struct tessera_worker_kernel_usage {
  uint64_t launches;
  uint64_t busy_ns;
} tessera_worker_kernel_usage;

/* Times are CLOCK_MONOTONIC. Only launches that have ended are counted. `busy_ns` is the time,
 * until now, in which at least one launch ran, including its compilation. */
typedef struct tessera_worker_stats {
  uint64_t launches;
  uint64_t first_launch_ns;
  uint64_t last_launch_ns;
  uint64_t busy_ns;
  /* the kernel that has been running for the longest time; 0: none runs (compiling does not
   * count) */
  uint64_t running_kernel;
  uint64_t running_since_ns;
  char running_name[128];
  uint64_t computed_ns; /* like busy_ns, but without compilation */
  /* Of launches that have ended. */
  uint64_t blocks, threads;
  /* Time of launches, including running ones, weighted by the share of multiprocessors with a
   * block, and by the share of warp slots in use; pipe_ns: active time weighted by the shares of
   * the kernel's pipes. */
  uint64_t sm_active_ns, sm_occupancy_ns, pipe_ns[TESSERA_WORKER_PIPES];
  /* Bytes that worker and client have copied and filled; time of the larger copies and fills. */
  uint64_t host_to_device_bytes, device_to_host_bytes, device_to_device_bytes, set_bytes, copy_ns;
} tessera_worker_stats;

/* Reserve the aperture and its guards, as inaccessible memory. -EEXIST: the range is in use. */
TESSERA_EXPORT int tessera_worker_reserve(uint64_t aperture_base);

/* Create the client area and the page, sealed; the caller sends both descriptors and closes
 * them. */
TESSERA_EXPORT int tessera_worker_create_shared(int *client_area_fd, int *worker_page_fd);

/* Install fault handlers and start scheduler and pool. The caller becomes the owner thread. */
TESSERA_EXPORT int tessera_worker_start(const tessera_worker_config *config);

/* Stop scheduler and pool and join them. For tests: a worker just exits. */
TESSERA_EXPORT void tessera_worker_stop(void);

/* Map `fd` at aperture base + offset and allow copies there. -EEXIST: overlap. */
TESSERA_EXPORT int tessera_worker_map_chunk(uint64_t offset, uint64_t bytes, int fd);

/* Release the pages and make the range inaccessible. -ENOENT: no such chunk. */
TESSERA_EXPORT int tessera_worker_unmap_chunk(uint64_t offset, uint64_t bytes);

/* Map a part of a mapped chunk, which begins at `source`, at a second offset as well. The caller
 * has checked that one chunk contains the part. */
TESSERA_EXPORT int tessera_worker_map_view(uint64_t offset, uint64_t source, uint64_t bytes);
TESSERA_EXPORT int tessera_worker_unmap_view(uint64_t offset, uint64_t bytes);

/* Note in the table of events at `offset` that the context that made it has ended, or that a
 * participant has: its records that are not done are lost. -ENOENT: no such chunk. */
TESSERA_EXPORT int tessera_worker_end_events(uint64_t offset);
TESSERA_EXPORT int tessera_worker_end_participant(uint64_t offset, uint64_t participant);

/* Add a kernel. Returns its handle, which is not reused after its removal; 0: too many kernels. */
TESSERA_EXPORT uint64_t tessera_worker_add_kernel(const tessera_worker_kernel *kernel);

/* Hide a kernel from further launches. -ENOENT: no such kernel. Its code must not be freed while
 * it runs. */
TESSERA_EXPORT int tessera_worker_remove_kernel(uint64_t handle);
TESSERA_EXPORT int tessera_worker_kernel_runs(uint64_t handle);

/* Replace a kernel's code for a block shape (kernel 0 does not exist); `better` is a call with
 * its results. Launches that run in provisional code use the new code for the blocks that they
 * start from then on. Returns how many such launches there are. On any thread. The replaced code
 * must not be freed before the kernel. */
TESSERA_EXPORT int tessera_worker_replace_code(const tessera_worker_call *better);

/* Read how many launches of a kernel have ended, and their time without compilation. Owner
 * thread only. A removed kernel can be read until the next one is added. */
TESSERA_EXPORT void tessera_worker_get_kernel_usage(uint64_t handle,
                                                    tessera_worker_kernel_usage *usage);

/* End the context from outside a kernel; `kernel` is the responsible one (0: none). Returns 1,
 * or 0 if the context had already ended. */
TESSERA_EXPORT int tessera_worker_fail(uint32_t kind, uint32_t error, uint64_t kernel,
                                       const char *message);

/* Facts about a native kernel's fault that the fault record omits. `parameters` stays readable. */
typedef struct tessera_worker_fault_origin {
  const uint8_t *parameters;
  uint64_t word;         /* the number of the trap's instruction, plus 1; 0: not a trap */
  uint64_t shared_bytes; /* shared memory of a block of the launch */
  uint64_t shared;       /* 1: the address is a shared address */
  uint64_t local;        /* 1: a local access, whose address is lost */
  const tessera_launch_context *launch; /* stays readable; NULL: unknown */
} tessera_worker_fault_origin;

/* For the owner thread, after fault_event: read the record, store the results of its analysis,
 * and confirm that the fault was reported. */
TESSERA_EXPORT const tessera_fault_record *tessera_worker_fault(void);
TESSERA_EXPORT const tessera_worker_fault_origin *tessera_worker_get_fault_origin(void);
TESSERA_EXPORT void tessera_worker_resolve_fault(uint32_t ptx_line, uint64_t address,
                                                 const char *message,
                                                 const tessera_fault_detail *detail);
TESSERA_EXPORT void tessera_worker_fault_reported(void);

TESSERA_EXPORT void tessera_worker_get_stats(tessera_worker_stats *stats);

#endif
