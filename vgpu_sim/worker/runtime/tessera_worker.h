/* The worker's native runtime as Python (vgpu_sim.worker.runtime.binding) and the C tests see it.
 *
 * One process is one context, so there is one runtime per process and no handle. Functions that
 * return int answer 0 or a negative errno. Ordering rules: docs/launch-protocol.md. */
#ifndef TESSERA_WORKER_H
#define TESSERA_WORKER_H

#include "tessera_abi.h"

#define TESSERA_EXPORT __attribute__((visibility("default")))

#define TESSERA_WORKER_EXIT_STATUS 70 /* of a process whose context faulted */

/* What a thread that runs a launch asks its owner: for native kernels "which code runs this block
 * shape", for interpreted ones "run it". Several threads ask at once, of one kernel too. The callee
 * answers by clearing fault_kind, which is INTERNAL when it is called. */
typedef struct tessera_worker_call {
  uint64_t kernel;
  uint32_t grid[3];
  uint32_t block[3];
  const uint8_t *parameters;
  uint64_t parameter_bytes;
  uint64_t entry;       /* result, native: where the code is; the others say how it is called */
  uint32_t groups;      /* of a block that wait for each other: entry is a tessera_group_entry;
                           0: nothing waits, it is a tessera_kernel_entry */
  uint32_t stack_bytes; /* that a group needs */
  uint32_t counts;      /* lanes of a group, where such call tessera_thread_state.meet; or 0 */
  uint32_t fault_kind;
  uint32_t error; /* CUresult */
  uint32_t ptx_line;
  uint32_t shared_bytes; /* that the launch asks for */
  uint32_t polls; /* result: whether they wait for other blocks, too, by tessera_thread_state.stop */
  uint64_t thread_stack_bytes; /* of local memory, where calls need some */
  uint32_t provisional; /* result: better code will be given to tessera_worker_replace_code */
  uint64_t address;
  uint64_t faulting_block;
  char message[TESSERA_MESSAGE_BYTES];
  tessera_fault_detail detail;
} tessera_worker_call;

typedef void (*tessera_worker_callback)(tessera_worker_call *call);

/* Is called for every request before it runs, on the thread that runs it, and for a launch once more
 * when it has ended; answers the time in ns that the context's own clock has then. `parameters` are a
 * launch's. Several threads call it at once. */
typedef uint64_t (*tessera_worker_observer)(uint32_t stream, const tessera_slot *slot,
                                            const uint8_t *parameters, uint32_t ended);

typedef struct tessera_worker_config {
  uint64_t aperture_base;
  uint32_t threads; /* that run blocks, the scheduler's included */
  uint32_t max_threads_per_block;
  uint32_t multiprocessors; /* as kernels are told */
  uint32_t runners;         /* requests that may run at once; 0: as many as there are streams */
  int32_t client_socket; /* shut down when the context dies; -1: none */
  int32_t fault_event;   /* eventfd written when a fault needs its owner; -1: none */
  tessera_worker_callback callback;
  /* Of one multiprocessor, for occupancy; 0: not known. Each block takes `sm_reserved_bytes` more
   * shared memory than it asks for. */
  uint32_t sm_threads, sm_blocks, sm_shared_bytes, sm_reserved_bytes;
  tessera_worker_observer observer; /* NULL: nobody, and timestamps are CLOCK_MONOTONIC */
} tessera_worker_config;

/* Shares of a kernel's instructions, of TESSERA_WORKER_ALL. */
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
  uint32_t interpreted;
  uint32_t shared_bytes; /* of a block, before what a launch asks for */
  uint32_t local_bytes;  /* of a thread, before a stack */
  uint64_t has_stack;    /* 1: each thread has as much more as a launch gives it */
  uint64_t parameter_image; /* where a launch copies its parameters, in the segment; 0: nowhere */
  uint32_t registers;       /* of a thread */
  uint32_t pipes[TESSERA_WORKER_PIPES];
  char name[128];
} tessera_worker_kernel;

typedef struct tessera_worker_kernel_usage {
  uint64_t launches;
  uint64_t busy_ns;
} tessera_worker_kernel_usage;

/* Times are CLOCK_MONOTONIC. Launches are those that have ended; busy is the time in which at least
 * one ran, up to now, with what was compiled for it. */
typedef struct tessera_worker_stats {
  uint64_t launches;
  uint64_t first_launch_ns;
  uint64_t last_launch_ns;
  uint64_t busy_ns;
  uint64_t running_kernel; /* that has run for the longest; 0: none runs (compiling is not running) */
  uint64_t running_since_ns;
  char running_name[128];
  uint64_t computed_ns; /* as busy, without what is compiled for a launch */
  /* Of launches that have ended. */
  uint64_t blocks, threads;
  /* Time of launches, those that run included, by share: of the multiprocessors that had a block, of
   * their places for warps, and of the former by the kernel's pipes. */
  uint64_t sm_active_ns, sm_occupancy_ns, pipe_ns[TESSERA_WORKER_PIPES];
  /* What worker and client have copied and filled; time of the larger copies and fills. */
  uint64_t host_to_device_bytes, device_to_host_bytes, device_to_device_bytes, set_bytes, copy_ns;
} tessera_worker_stats;

/* Reserves aperture and guards, inaccessible. -EEXIST: something lies there. */
TESSERA_EXPORT int tessera_worker_reserve(uint64_t aperture_base);

/* Creates client area and page, sealed; the caller sends both descriptors and closes them. */
TESSERA_EXPORT int tessera_worker_create_shared(int *client_area_fd, int *worker_page_fd);

/* Installs fault handlers and starts scheduler and pool. The caller becomes the owner thread. */
TESSERA_EXPORT int tessera_worker_start(const tessera_worker_config *config);

/* Ends scheduler and pool and joins them; for tests, a worker just exits. */
TESSERA_EXPORT void tessera_worker_stop(void);

/* Maps `fd` at aperture base + offset and makes it valid for copies. -EEXIST: overlap. */
TESSERA_EXPORT int tessera_worker_map_chunk(uint64_t offset, uint64_t bytes, int fd);

/* Gives the pages back to the system and makes the range inaccessible. -ENOENT: no such chunk. */
TESSERA_EXPORT int tessera_worker_unmap_chunk(uint64_t offset, uint64_t bytes);

/* Returns a handle that is never used again after its removal; 0: too many kernels. */
TESSERA_EXPORT uint64_t tessera_worker_add_kernel(const tessera_worker_kernel *kernel);

/* Lets no further launch find it. -ENOENT: not a live kernel. Its code must stay while it runs. */
TESSERA_EXPORT int tessera_worker_remove_kernel(uint64_t handle);
TESSERA_EXPORT int tessera_worker_kernel_runs(uint64_t handle);

/* Better code for a kernel (0: none that lives) and a block; `better` is as if answered. Launches that
 * run in provisional code go on in it, from the next blocks on: returns how many. On any thread. The
 * code that it replaces must stay as long as the kernel. */
TESSERA_EXPORT int tessera_worker_replace_code(const tessera_worker_call *better);

/* How often a kernel has run and for how long, compilation aside. Owner thread; of a removed kernel
 * until the next one is added. */
TESSERA_EXPORT void tessera_worker_get_kernel_usage(uint64_t handle,
                                                    tessera_worker_kernel_usage *usage);

/* Ends the context from outside a kernel, which is named where it is the reason (0: none is).
 * Returns 1, or 0 when the context was dead already. */
TESSERA_EXPORT int tessera_worker_fail(uint32_t kind, uint32_t error, uint64_t kernel,
                                       const char *message);

/* What the record of a native kernel's fault leaves out. `parameters` stays readable. */
typedef struct tessera_worker_fault_origin {
  const uint8_t *parameters;
  uint64_t word;         /* a trap's instruction, plus 1; 0: not a trap */
  uint64_t shared_bytes; /* of a block of the launch */
  uint64_t shared;       /* 1: the address is one of shared memory */
  uint64_t local;        /* 1: the access was one to local memory; its address is lost */
  const tessera_launch_context *launch; /* stays readable; NULL: not known */
} tessera_worker_fault_origin;

/* Owner thread, after fault_event: the record, what it found out, and that it has reported it. */
TESSERA_EXPORT const tessera_fault_record *tessera_worker_fault(void);
TESSERA_EXPORT const tessera_worker_fault_origin *tessera_worker_get_fault_origin(void);
TESSERA_EXPORT void tessera_worker_resolve_fault(uint32_t ptx_line, uint64_t address,
                                                 const char *message,
                                                 const tessera_fault_detail *detail);
TESSERA_EXPORT void tessera_worker_fault_reported(void);

TESSERA_EXPORT void tessera_worker_get_stats(tessera_worker_stats *stats);

#endif
