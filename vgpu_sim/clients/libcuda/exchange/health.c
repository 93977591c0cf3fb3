/* Whether a context is alive, and the error that ended it. */
#include "exchange/health.h"

#include <poll.h>
#include <stdio.h>

#include "exchange/kernel_output.h"
#include "log.h"

/* Write the block and thread, with as many dimensions as are known. */
static void describe_thread(const tessera_fault_record *fault, const tessera_fault_detail *detail,
                            char *text, size_t room) {
  const uint64_t x = detail->grid[0], y = detail->grid[1];
  text[0] = 0;
  if (x == 0 || y == 0) return;
  const int used =
      snprintf(text, room, "block (%llu,%llu,%llu)", (unsigned long long)(fault->block % x),
               (unsigned long long)(fault->block / x % y), (unsigned long long)(fault->block / x / y));
  if (!detail->thread_known) return;
  snprintf(text + used, room - (size_t)used, ", thread (%u,%u,%u)", detail->thread[0],
           detail->thread[1], detail->thread[2]);
}

/* Log further lines after the line that names the kernel, but only about known facts. */
static void tell_detail(struct tsr_context *context, const tessera_fault_record *fault) {
  if (!context->detail) return;
  tessera_fault_detail detail = *context->detail;
  detail.source[sizeof detail.source - 1] = 0;
  detail.text[sizeof detail.text - 1] = 0;
  char place[400];
  describe_thread(fault, &detail, place, sizeof place);
  if (detail.source[0]) tsr_log("  source %s", detail.source);
  if (detail.text[0]) tsr_log("  PTX line %u: %s", fault->ptx_line, detail.text);
  if (place[0]) tsr_log("  %s", place);
  if (!detail.is_global || !context->place_fault) return;
  context->place_fault(context, fault->address, place, sizeof place);
  if (place[0]) tsr_log("  address 0x%llx: %s", (unsigned long long)fault->address, place);
}

/* Log the worker's fault record for the user, once per context. */
static void tell_fault(struct tsr_context *context, uint32_t error) {
  if (atomic_exchange(&context->fault_reported, 1)) return;
  tsr_kernel_output_print(context);
  tessera_fault_record fault = context->page->fault;
  fault.kernel_name[sizeof fault.kernel_name - 1] = 0;
  fault.message[sizeof fault.message - 1] = 0;
  /* Only known facts are logged. If there is a PTX line, the message contains the address. */
  char where[96] = "";
  if (fault.ptx_line != 0)
    snprintf(where, sizeof where, ", PTX line %u, block %llu", fault.ptx_line,
             (unsigned long long)fault.block);
  else if (fault.address != 0)
    snprintf(where, sizeof where, ", block %llu, address 0x%llx", (unsigned long long)fault.block,
             (unsigned long long)fault.address);
  const bool in_kernel = fault.kernel_name[0] != 0;
  tsr_log("context ended, CUDA error %u: %s%s%s%s%s", error, in_kernel ? "kernel " : "",
          fault.kernel_name, in_kernel ? where : "", in_kernel ? ": " : "", fault.message);
  if (in_kernel) tell_detail(context, &fault);
}

CUresult tsr_context_error(struct tsr_context *context) {
  const uint32_t lost = atomic_load_explicit(&context->lost, memory_order_relaxed);
  if (__builtin_expect(lost != 0, 0)) return (CUresult)lost;
  const uint32_t error = __atomic_load_n(&context->page->error, __ATOMIC_ACQUIRE);
  if (__builtin_expect(error != 0, 0)) {
    tell_fault(context, error);
    return (CUresult)error;
  }
  return CUDA_SUCCESS;
}

CUresult tsr_context_lose(struct tsr_context *context) {
  const CUresult error = tsr_context_error(context);
  if (error != CUDA_SUCCESS) return error;
  uint32_t none = 0;
  if (atomic_compare_exchange_strong(&context->lost, &none, CUDA_ERROR_LAUNCH_FAILED))
    tsr_log("context ended: its worker is gone (killed, or out of the slice's memory)");
  return tsr_context_error(context);
}

bool tsr_context_hung_up(struct tsr_context *context) {
  struct pollfd watched = {.fd = context->socket};
  return poll(&watched, 1, 0) > 0 && (watched.revents & (POLLHUP | POLLERR | POLLNVAL));
}
