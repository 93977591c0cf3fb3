/* Runs one request to its end. */
#define _GNU_SOURCE
#include <string.h>

#include "internal.h"
#include "platform.h"

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
  memmove((void *)(uintptr_t)body->destination, (const void *)(uintptr_t)body->source, body->bytes);
  end_copy();
}

/* Fills by doubling what is already filled, with whole elements, up to a cache's worth at a time. */
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
  if (body->width_bytes == 1)
    memset(destination, (int)(body->pattern & 0xff), bytes);
  else if (bytes != 0)
    fill(destination, bytes, body->pattern, body->width_bytes);
  end_copy();
}

static void call_owner(tessera_worker_call *call, const request *r) {
  const tessera_launch_body *body = &r->slot.body.launch;
  *call = (tessera_worker_call){.kernel = body->kernel,
                                .parameters = r->parameters,
                                .parameter_bytes = body->parameter_bytes,
                                .shared_bytes = body->shared_bytes,
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
                  .message = call->message});
}

static const tw_code *code_for(const request *r) {
  const tessera_launch_body *body = &r->slot.body.launch;
  const tw_code *code = tw_variant_find(body->kernel, body->block);
  if (code != NULL) return code;
  tessera_worker_call call;
  call_owner(&call, r);
  if (call.entry == 0)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_INTERNAL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .kernel = body->kernel,
                    .message = "the backend returned no code"});
  const tw_code found = {.entry = call.entry,
                         .groups = call.groups,
                         .stack_bytes = call.stack_bytes,
                         .counts = call.counts};
  return tw_variant_add(body->kernel, body->block, &found);
}

static void run_native(const request *r, const tessera_worker_kernel *kernel) {
  const tessera_launch_body *body = &r->slot.body.launch;
  tw_launch launch = {.context = {.aperture_base = tw.aperture_base,
                                  .aperture_limit = TESSERA_APERTURE_BYTES,
                                  .segment_base = kernel->segment_base,
                                  .kernel = body->kernel},
                      .code = *code_for(r),
                      .shared_bytes = kernel->shared_bytes + body->shared_bytes};
  memcpy(launch.context.grid, body->grid, sizeof launch.context.grid);
  memcpy(launch.context.block, body->block, sizeof launch.context.block);
  uint64_t blocks = (uint64_t)body->grid[0] * body->grid[1] * body->grid[2];
  tessera_kernel_entry entry = (tessera_kernel_entry)(uintptr_t)launch.code.entry;
  if (launch.code.groups != 0)
    entry = tw_cta_run;
  else if (launch.shared_bytes != 0)
    entry = tw_shared_run;
  tw_kernel_begins(body->kernel);
  tw_pool_run(entry, &launch.context, r->parameters, blocks);
  tw_kernel_ends();
}

static void launch(const request *r) {
  uint64_t begin_ns = tw_now_ns();
  const tessera_worker_kernel *kernel = tw_kernel_acquire(r->slot.body.launch.kernel);
  if (kernel == NULL)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .message = "a module was unloaded before its launches ran"});
  if (kernel->interpreted) {
    tessera_worker_call call;
    tw_kernel_begins(r->slot.body.launch.kernel);
    call_owner(&call, r);
    tw_kernel_ends();
  } else {
    run_native(r, kernel);
  }
  tw_kernel_release();
  tw_account_launch(begin_ns, tw_now_ns());
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
    default: /* NOP: its waits were all there was */
      break;
  }
}
