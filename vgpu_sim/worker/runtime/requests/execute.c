/* Execution of one request to its end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "base/internal.h"
#include "base/platform.h"

/* Requests longer than this run concurrently with other streams' requests. */
static const uint64_t SHORT_NS = 50000;
enum { SHORT_COPY_BYTES = 1 << 18 };

static void begin_copy(void) {
  tw_chunks_lock();
  tw_current.kind = ACTIVITY_COPY;
}

static void end_copy(void) {
  tw_current.kind = ACTIVITY_NONE;
  tw_chunks_unlock();
}

static void require_covered(uint64_t address, uint64_t bytes, const char *why) {
  if (tw_chunks_cover_locked(address, bytes)) return;
  tw_chunks_unlock();
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                  .error = CUDA_ERROR_LAUNCH_FAILED,
                  .address = address,
                  .message = why});
}

static void copy(const tessera_copy_body *body) {
  begin_copy();
  require_covered(body->destination, body->bytes, "a copy's destination is not in live memory");
  require_covered(body->source, body->bytes, "a copy's source is not in live memory");
  const uint64_t since_ns = tw_copy_begins(body->bytes);
  memmove((void *)(uintptr_t)body->destination, (const void *)(uintptr_t)body->source, body->bytes);
  end_copy();
  tw_count_copy(body->destination, body->source, body->bytes);
  tw_copy_ends(since_ns);
}

/* Fill by copying the filled part, which doubles each time up to the size of a cache; whole
 * elements only. */
static void fill(uint8_t *destination, uint64_t bytes, uint32_t pattern, uint32_t width_bytes) {
  enum { SPAN_BYTES = 1 << 15 };
  uint64_t filled = width_bytes < bytes ? width_bytes : bytes;
  memcpy(destination, &pattern, filled);
  while (filled < bytes) {
    uint64_t span = filled < SPAN_BYTES ? filled : SPAN_BYTES;
    if (span > bytes - filled) span = bytes - filled;
    memcpy(destination + filled, destination, span);
    filled += span;
  }
}

static void set(const tessera_set_body *body) {
  uint64_t bytes = body->count * body->width_bytes;
  begin_copy();
  require_covered(body->destination, bytes, "a fill's destination is not in live memory");
  uint8_t *destination = (uint8_t *)(uintptr_t)body->destination;
  const uint64_t since_ns = tw_copy_begins(bytes);
  if (body->width_bytes == 1)
    memset(destination, (int)(body->pattern & 0xff), bytes);
  else if (bytes != 0)
    fill(destination, bytes, body->pattern, body->width_bytes);
  end_copy();
  tw_count_set(bytes);
  tw_copy_ends(since_ns);
}

static void check_value(const tessera_value_body *body) {
  begin_copy();
  require_covered(body->address, body->width_bytes, "an awaited value is not in live memory");
  const bool never = tw_event_never(body);
  end_copy();
  if (!never) return;
  tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                  .error = CUDA_ERROR_LAUNCH_FAILED,
                  .message = "a stream waits for an interprocess event, but the context that"
                             " recorded or made the event has ended"});
}

static void write_value(const tessera_value_body *body) {
  begin_copy();
  require_covered(body->address, body->width_bytes, "a value's place is not in live memory");
  tw_value_store(body);
  end_copy();
}

static uint64_t stack_of(const tessera_launch_body *body) {
  enum { UNIT_BYTES = 16 };
  return body->stack_bytes & ~(uint64_t)(UNIT_BYTES - 1);
}

/* Return a thread's local memory, including its stack, limited to the maximum. */
static uint64_t local_bytes_of(const tessera_worker_kernel *kernel, const tessera_launch_body *body) {
  if (!kernel->has_stack) return kernel->local_bytes;
  const uint64_t bytes = kernel->local_bytes + stack_of(body);
  return bytes < TESSERA_MAX_LOCAL_BYTES_PER_THREAD ? bytes : TESSERA_MAX_LOCAL_BYTES_PER_THREAD;
}

static void call_owner(tessera_worker_call *call, const request *r) {
  tw_lead_pass(); /* the callback is Python code and may compile */
  const tessera_launch_body *body = &r->slot.body.launch;
  *call = (tessera_worker_call){.kernel = body->kernel,
                                .parameters = r->parameters,
                                .parameter_bytes = body->parameter_bytes,
                                .shared_bytes = body->shared_bytes,
                                .thread_stack_bytes = stack_of(body),
                                .multiprocessors = body->multiprocessors,
                                .cluster = body->cluster,
                                .depth = r->depth,
                                .fault_kind = TESSERA_FAULT_KIND_INTERNAL,
                                .error = CUDA_ERROR_LAUNCH_FAILED};
  memcpy(call->grid, body->grid, sizeof call->grid);
  memcpy(call->block, body->block, sizeof call->block);
  tw_current.kernel = body->kernel;
  tw_current.kind = ACTIVITY_CALLBACK;
  tw.config.callback(call);
  tw_current.kind = ACTIVITY_NONE;
  if (call->fault_kind == TESSERA_FAULT_KIND_NONE) return;
  call->message[sizeof call->message - 1] = 0;
  tw_die(&(fault){.kind = call->fault_kind,
                  .error = call->error,
                  .ptx_line = call->ptx_line,
                  .kernel = body->kernel,
                  .address = call->address,
                  .block = call->faulting_block,
                  .message = call->message,
                  .detail = &call->detail});
}

static tw_code request_code(const request *r) {
  const tessera_launch_body *body = &r->slot.body.launch;
  tessera_worker_call call;
  call_owner(&call, r);
  if (call.entry == 0)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_INTERNAL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .kernel = body->kernel,
                    .message = "the backend returned no code"});
  return tw_code_of(&call);
}

static uint64_t blocks_of(const tessera_launch_body *body) {
  return (uint64_t)body->grid[0] * body->grid[1] * body->grid[2];
}

/* The clock that kernels read: a linear function of the processor's counter. It is calibrated
 * only once, at the first launch, so that it never runs backwards; by then the worker has run
 * for at least some milliseconds. */
static struct {
  uint64_t begin_ns, begin_ticks;
  uint64_t ns, scale; /* of tessera_launch_context; scale 0: not calibrated yet */
} timer;

void tw_timer_begin(void) {
  timer.begin_ns = tw_now_ns();
  timer.begin_ticks = tw_ticks();
  timer.scale = 0;
}

static void fix_timer(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (__atomic_load_n(&timer.scale, __ATOMIC_ACQUIRE) != 0) return;
  pthread_mutex_lock(&lock);
  if (timer.scale == 0) {
    const uint64_t ticks = tw_ticks() - timer.begin_ticks;
    const uint64_t ns = tw_now_ns() - timer.begin_ns;
    const uint64_t scale = (uint64_t)(((unsigned __int128)ns << 32) / (ticks ? ticks : 1)) | 1;
    timer.ns = timer.begin_ns - (uint64_t)(((unsigned __int128)timer.begin_ticks * scale) >> 32);
    __atomic_store_n(&timer.scale, scale, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}

/* Return how many blocks may be started while others only wait: as many as fit on the device,
 * assuming the largest multiprocessors. */
static uint32_t room_for(const tw_launch *launch, const uint32_t block[3]) {
  enum { THREADS = 2048, BLOCKS = 32, SHARED_BYTES = 228 << 10 };
  uint32_t blocks = THREADS / (block[0] * block[1] * block[2]);
  if (blocks > BLOCKS) blocks = BLOCKS;
  if (launch->shared_bytes != 0 && blocks > SHARED_BYTES / launch->shared_bytes)
    blocks = SHARED_BYTES / launch->shared_bytes;
  const uint32_t multiprocessors = launch->context.multiprocessors, *size = launch->context.cluster;
  const uint32_t room = (multiprocessors != 0 ? multiprocessors : 1) * (blocks != 0 ? blocks : 1);
  const uint32_t clusters = room / (size[0] * size[1] * size[2]);
  return clusters != 0 ? clusters : 1;
}

/* Store the size of a launch's clusters: that which it states, or else that which the kernel requires. */
static void set_cluster(tessera_launch_context *context, const tessera_worker_kernel *kernel,
                        const tessera_launch_body *body) {
  const bool states = body->cluster != 0, requires = kernel->required_cluster[0] != 0;
  for (int axis = 0; axis < 3; axis++) {
    context->cluster[axis] = 1;
    if (states) context->cluster[axis] = (body->cluster >> 4 * axis & 15) + 1u;
    else if (requires) context->cluster[axis] = kernel->required_cluster[axis];
  }
  context->cluster_explicit = states || requires;
  const uint32_t *size = context->cluster;
  context->cluster_step = size[0] * size[1] * size[2] > 1 ? TESSERA_CLUSTER_STEP_BYTES : 0;
}

void tw_blocks_run(const tessera_launch_context *context, const uint8_t *parameters, uint64_t first,
                   uint64_t end, tessera_thread_state *thread) {
  tw_launch *launch = (tw_launch *)(uintptr_t)context;
  const tw_code *code = tw_code_now(launch);
  if (code->groups != 0)
    tw_cta_run(launch, code, parameters, first, end);
  else
    tw_shared_run(launch, code, parameters, first, end, thread);
}

static uint32_t multiprocessors_for(const tessera_launch_body *body) {
  return body->multiprocessors != 0 ? body->multiprocessors : tw.config.multiprocessors;
}

/* Return the number of threads that correspond to a launch's part of the multiprocessors; 0: all. */
static uint32_t threads_for(const tessera_launch_body *body) {
  if (body->multiprocessors == 0 || tw.config.multiprocessors == 0) return 0;
  const uint64_t threads =
      (uint64_t)tw.config.threads * body->multiprocessors / tw.config.multiprocessors;
  return threads > 1 ? (uint32_t)threads : 1;
}

/* Run a launch of a native kernel. Returns whether better code replaced its code while it ran, so
 * that its duration is not representative. */
static bool run_native(const request *r, const tessera_worker_kernel *kernel) {
  static uint64_t launches; /* atomic */
  const tessera_launch_body *body = &r->slot.body.launch;
  fix_timer();
  tw_launch launch = {.context = {.aperture_base = tw.aperture_base,
                                  .aperture_limit = TESSERA_APERTURE_BYTES,
                                  .segment_base = kernel->segment_base,
                                  .kernel = body->kernel,
                                  .grid_id = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) |
                                             (uint64_t)r->depth << TESSERA_GRID_DEPTH_SHIFT,
                                  .multiprocessors = multiprocessors_for(body),
                                  .dynamic_shared_bytes = body->shared_bytes,
                                  .timer_ns = timer.ns,
                                  .timer_scale = timer.scale,
                                  .local_bytes = local_bytes_of(kernel, body)},
                      .shared_bytes = kernel->tensor_memory
                                          ? TESSERA_TENSOR_END_BYTE
                                          : kernel->shared_bytes + body->shared_bytes};
  set_cluster(&launch.context, kernel, body);
  launch.room = room_for(&launch, body->block);
  memcpy(launch.context.grid, body->grid, sizeof launch.context.grid);
  memcpy(launch.context.block, body->block, sizeof launch.context.block);
  if (tw_variant_find(&launch)) {
    tw_launch_begins(body->kernel);
  } else {
    tw_launch_begins(0);
    launch.code = request_code(r);
    tw_variant_add(&launch);
    tw_launch_computes(body->kernel);
  }
  if (kernel->parameter_image != 0)
    memcpy((void *)(uintptr_t)kernel->parameter_image, r->parameters, body->parameter_bytes);
  const bool provisional = launch.code.provisional != 0;
  const bool clustered = launch.context.cluster_step != 0;
  const uint32_t *size = launch.context.cluster;
  tw_pool_run(&(tw_work){.entry = clustered ? tw_clusters_run : tw_blocks_run,
                         .launch = &launch.context,
                         .parameters = r->parameters,
                         .blocks = blocks_of(body) / (size[0] * size[1] * size[2]),
                         .expected_ns = tw_kernel_expected_ns(body->kernel, blocks_of(body)),
                         .one_by_one = launch.code.polls != 0 || clustered,
                         .threads = threads_for(body),
                         .spare = provisional,
                         .spare_no_more = &launch.is_improved});
  if (provisional) tw_launch_settled();
  return launch.is_improved;
}

static void run_interpreted(const request *r) {
  tessera_worker_call call;
  tw_launch_begins(r->slot.body.launch.kernel);
  call_owner(&call, r);
}

static void launch(request *r) {
  const tessera_launch_body *body = &r->slot.body.launch;
  const tessera_worker_kernel *kernel = tw_kernel_acquire(body->kernel);
  if (kernel == NULL)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .message = "a module was unloaded before its launches ran"});
  bool improved = false;
  tw_launch_of(kernel, body);
  tw_kernel_lock_image(body->kernel);
  tw_children_begin(kernel);
  if (kernel->interpreted)
    run_interpreted(r);
  else
    improved = run_native(r, kernel);
  r->children = tw_children_take(kernel, r);
  tw_kernel_unlock_image(body->kernel);
  tw_launch_ends(blocks_of(body)); /* before the release, because it updates the kernel's usage */
  if (improved) tw_kernel_expect_nothing(body->kernel);
  tw_kernel_release();
}

bool tw_expect_short(const request *r) {
  switch (r->slot.opcode) {
    case TESSERA_OPCODE_LAUNCH: {
      const tessera_launch_body *body = &r->slot.body.launch;
      return tw_kernel_expected_ns(body->kernel, blocks_of(body)) <= SHORT_NS;
    }
    case TESSERA_OPCODE_COPY:
      return r->slot.body.copy.bytes <= SHORT_COPY_BYTES;
    case TESSERA_OPCODE_SET:
      return r->slot.body.set.count <= SHORT_COPY_BYTES;
    case TESSERA_OPCODE_LIST:
      return false;
    default:
      return true;
  }
}

void tw_execute(request *r) {
  switch (r->slot.opcode) {
    case TESSERA_OPCODE_LAUNCH:
      launch(r);
      break;
    case TESSERA_OPCODE_COPY:
      copy(&r->slot.body.copy);
      break;
    case TESSERA_OPCODE_SET:
      set(&r->slot.body.set);
      break;
    case TESSERA_OPCODE_TIMESTAMP:
      __atomic_store_n(&tw.page->timestamps[r->slot.body.timestamp.index], tw_now_ns(),
                       __ATOMIC_RELAXED);
      break;
    case TESSERA_OPCODE_AWAIT:
      check_value(&r->slot.body.value);
      break;
    case TESSERA_OPCODE_WRITE:
      write_value(&r->slot.body.value);
      break;
    default: /* NOP: only its waits have an effect */
      break;
  }
}

int tessera_worker_replace_code(const tessera_worker_call *better) {
  const tessera_launch_context *running[TW_RUNNERS];
  const uint32_t improved = tw_variant_replace(better, running);
  /* The launches may have ended by now: the pointers are compared, not dereferenced. */
  for (uint32_t i = 0; i < improved; i++) tw_pool_do_not_spare(running[i]);
  return (int)improved;
}
