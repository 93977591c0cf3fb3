/* The end of a context: the fault record is written, the client is woken, the socket is shut
 * down, and the process exits.
 *
 * The faulting thread does all of this, because no other thread can be relied on. It requests
 * the PTX line from the owner thread (Python) and waits a little for the reply. The socket is
 * shut down before the exit, because tearing down the address space takes milliseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <ucontext.h>

#include "base/internal.h"
#include "base/platform.h"

enum { HANDLER_STACK_BYTES = 1 << 16 };

/* The owner looks for the faulting thread by running the block again, for one second at most. */
static const uint64_t RESOLVE_TIMEOUT_NS = 3 * UINT64_C(1000000000);
static const uint64_t REPORT_TIMEOUT_NS = 2 * UINT64_C(1000000000);

static uint32_t claimed;  /* atomic */
/* written by the thread that set `claimed`, before the owner reads it */
static tessera_worker_fault_origin origin;
static uint32_t resolved; /* futex */
static uint32_t reported; /* futex */

bool tw_dead(void) { return __atomic_load_n(&claimed, __ATOMIC_ACQUIRE) != 0; }

static void wait_for_flag(const uint32_t *flag, uint64_t timeout_ns) {
  uint64_t deadline = tw_now_ns() + timeout_ns, now;
  while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE) && (now = tw_now_ns()) < deadline)
    tw_futex_wait(flag, 0, deadline - now);
}

static void raise_flag(uint32_t *flag) {
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  tw_futex_wake_all(flag);
}

static void copy_text(char *destination, const char *source, uint64_t size) {
  uint64_t length = strnlen(source, size - 1);
  memcpy(destination, source, length);
  destination[length] = 0;
}

/* Claim the fault record; true for only one thread, whose fault is then reported. */
static bool claim(const fault *f) {
  uint32_t expected = 0;
  if (!__atomic_compare_exchange_n(&claimed, &expected, 1, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST))
    return false;
  tessera_fault_record *record = &tw.page->fault;
  origin = (tessera_worker_fault_origin){.parameters = tw_current.parameters,
                                         .word = f->word,
                                         .shared_bytes = tw_current.shared_bytes,
                                         .shared = f->shared,
                                         .local = f->local,
                                         .launch = tw_current.launch};
  record->kind = f->kind;
  record->ptx_line = f->ptx_line;
  record->kernel = f->kernel;
  record->pc = f->pc;
  record->address = f->address;
  record->block = f->block;
  record->time_ns = tw_now_ns();
  if (f->kernel != 0) tw_kernel_name(f->kernel, record->kernel_name, sizeof record->kernel_name);
  copy_text(record->message, f->message, sizeof record->message);
  if (f->detail != NULL) tw.page->detail = *f->detail;
  return true;
}

static void notify_client(uint32_t error) {
  tw_freeze_timelines();
  __atomic_store_n(&tw.page->error, error, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&tw.page->progress, 1, __ATOMIC_SEQ_CST);
  tw_futex_wake_all(&tw.page->progress);
  if (tw.config.client_socket >= 0) shutdown(tw.config.client_socket, SHUT_RDWR);
}

static void notify_owner(void) {
  uint64_t one = 1;
  ssize_t written = write(tw.config.fault_event, &one, sizeof one);
  (void)written; /* a failure needs no handling: the waits below time out */
}

/* Report the fault to the owner. `owner_can_run`: this thread does not hold Python's lock, which
 * the owner needs. */
static void die(const fault *f, bool owner_can_run) __attribute__((noreturn));
static void die(const fault *f, bool owner_can_run) {
  if (!claim(f))
    for (;;) pause();
  bool ask = owner_can_run && tw.config.fault_event >= 0;
  if (ask) {
    notify_owner();
    if (f->pc != 0) wait_for_flag(&resolved, RESOLVE_TIMEOUT_NS);
  }
  notify_client(f->error);
  if (ask) wait_for_flag(&reported, REPORT_TIMEOUT_NS);
  _exit(TESSERA_WORKER_EXIT_STATUS);
}

void tw_die(const fault *f) { die(f, true); }

void tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                    const char *message) {
  const uint32_t status = state->status != 0 ? state->status : CUDA_ERROR_LAUNCH_FAILED;
  uint32_t kind = TESSERA_FAULT_KIND_TRAP;
  if (status == CUDA_ERROR_HARDWARE_STACK_ERROR) kind = TESSERA_FAULT_KIND_STACK;
  if (status == CUDA_ERROR_INVALID_PC) kind = TESSERA_FAULT_KIND_FUNCTION;
  if (status == CUDA_ERROR_ASSERT) kind = TESSERA_FAULT_KIND_ASSERTION;
  if (status == CUDA_ERROR_ILLEGAL_INSTRUCTION) kind = TESSERA_FAULT_KIND_INSTRUCTION;
  tw_die(&(fault){.kind = kind,
                  .error = status,
                  .word = state->trap_word & INT32_MAX,
                  .pc = code,
                  .kernel = kernel,
                  .block = state->current_block,
                  .message = message != NULL   ? message
                             : (state->trap_word >> 31) != 0 ? "lanes name wrong member masks"
                                                  : "the kernel executed a trap"});
}

int tessera_worker_fail(uint32_t kind, uint32_t error, uint64_t kernel, const char *message) {
  if (!claim(&(fault){.kind = kind, .error = error, .kernel = kernel, .message = message}))
    return 0;
  notify_client(error);
  return 1;
}

const tessera_fault_record *tessera_worker_fault(void) { return &tw.page->fault; }

const tessera_worker_fault_origin *tessera_worker_get_fault_origin(void) { return &origin; }

void tessera_worker_resolve_fault(uint32_t ptx_line, uint64_t address, const char *message,
                                  const tessera_fault_detail *detail) {
  tessera_fault_record *record = &tw.page->fault;
  record->ptx_line = ptx_line;
  record->address = address;
  copy_text(record->message, message, sizeof record->message);
  tw.page->detail = *detail;
  raise_flag(&resolved);
}

void tessera_worker_fault_reported(void) { raise_flag(&reported); }

/* Whether an address is in the image to which native code redirects misaligned accesses. */
static bool in_misaligned_image(uint64_t address) {
  uint64_t begin = tw.aperture_base + TESSERA_MISALIGNED_OFFSET_BYTES - TESSERA_GUARD_BEFORE_BYTES;
  return address - begin <
         TESSERA_GUARD_BEFORE_BYTES + TESSERA_APERTURE_BYTES + TESSERA_GUARD_AFTER_BYTES;
}

/* Describe an access to shared memory by its 32-bit shared address. */
static bool in_shared_memory(fault *f) {
  const uint64_t begin = tw_current.shared_window - TESSERA_SHARED_REACH_BYTES;
  if (tw_current.shared_window == 0 || f->address - begin >= TESSERA_SHARED_RESERVED_BYTES)
    return false;
  if (f->address - begin >= 2 * TESSERA_SHARED_REACH_BYTES) {
    f->address -= TESSERA_SHARED_MISALIGNED_OFFSET_BYTES;
    f->kind = TESSERA_FAULT_KIND_MISALIGNED;
    f->error = CUDA_ERROR_MISALIGNED_ADDRESS;
    f->message = "misaligned address";
  }
  f->address = (uint32_t)(f->address - tw_current.shared_window);
  f->shared = true;
  return true;
}

/* Describe an access to local memory in an image to which code has redirected it. */
static bool in_local_memory(fault *f) {
  const uint64_t place = f->address - tw_current.local_window;
  if (tw_current.local_window == 0 || place >= TESSERA_LOCAL_RESERVED_BYTES) return false;
  if (place >= TESSERA_LOCAL_MISALIGNED_OFFSET_BYTES) {
    f->kind = TESSERA_FAULT_KIND_MISALIGNED;
    f->error = CUDA_ERROR_MISALIGNED_ADDRESS;
    f->message = "misaligned address";
  }
  f->address = 0;
  f->local = true;
  return true;
}

/* Add what is known about a group that runs on a fiber. */
static void describe_group(fault *f, uint64_t stack_pointer) {
  const tw_stacks *stacks = tw_current.stacks;
  bool in_guard = false;
  if (stacks == NULL) return;
  const tw_fiber *fiber = tw_stacks_find(stacks, stack_pointer, &in_guard);
  if (fiber != NULL) f->block = fiber->state.current_block;
  if (tw_stacks_find(stacks, f->address, &in_guard) == NULL || !in_guard) return;
  f->kind = TESSERA_FAULT_KIND_STACK;
  f->error = CUDA_ERROR_HARDWARE_STACK_ERROR;
  f->address = 0;
  f->message = "a thread's stack overflowed";
}

static fault describe_signal(int signal_number, const siginfo_t *info, uint64_t pc,
                             uint64_t stack_pointer) {
  fault f = {.kind = TESSERA_FAULT_KIND_INTERNAL,
             .error = CUDA_ERROR_LAUNCH_FAILED,
             .pc = pc,
             .address = (uint64_t)(uintptr_t)info->si_addr,
             .message = "the worker itself failed"};
  bool memory = signal_number == SIGSEGV || signal_number == SIGBUS;
  switch (tw_current.kind) {
    case ACTIVITY_KERNEL:
      f.kernel = tw_current.kernel;
      f.block = tw_current.state.current_block;
      f.message = "the kernel's code raised a processor exception";
      if (memory) {
        f.kind = TESSERA_FAULT_KIND_ADDRESS;
        f.error = CUDA_ERROR_ILLEGAL_ADDRESS;
        f.message = "illegal address";
        if (!in_shared_memory(&f) && !in_local_memory(&f) && in_misaligned_image(f.address)) {
          f.kind = TESSERA_FAULT_KIND_MISALIGNED;
          f.error = CUDA_ERROR_MISALIGNED_ADDRESS;
          f.address -= TESSERA_MISALIGNED_OFFSET_BYTES;
          f.message = "misaligned address";
        }
        describe_group(&f, stack_pointer);
      } else if (signal_number == SIGILL) {
        f.kind = TESSERA_FAULT_KIND_TRAP;
        f.message = "the kernel executed a trap";
      }
      break;
    case ACTIVITY_COPY:
      if (!memory) break;
      f.kind = TESSERA_FAULT_KIND_ADDRESS;
      f.error = CUDA_ERROR_ILLEGAL_ADDRESS;
      f.pc = 0;
      f.message = "memory vanished during a copy";
      break;
    /* the interpreter checks addresses, but cannot detect a concurrent free */
    case ACTIVITY_CALLBACK:
      f.kernel = tw_current.kernel;
      if (!memory || f.address - tw.aperture_base >= TESSERA_APERTURE_BYTES) break;
      f.kind = TESSERA_FAULT_KIND_ADDRESS;
      f.error = CUDA_ERROR_ILLEGAL_ADDRESS;
      f.pc = 0;
      f.message = "memory vanished during a launch";
      break;
    case ACTIVITY_NONE:
      break;
  }
  return f;
}

/* Map the memory in which a kernel has accessed an address, if that is done at its first access. */
static bool map_on_access(uint64_t address) {
  if (tw_current.kind != ACTIVITY_KERNEL || tw_current.map_accessed == NULL) return false;
  const int error = errno;
  const bool mapped = tw_current.map_accessed(address);
  errno = error;
  return mapped;
}

static void on_signal(int signal_number, siginfo_t *info, void *context) {
  uint64_t pc = 0, stack_pointer = 0;
#if defined(__x86_64__)
  pc = (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  stack_pointer = (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
  pc = ((const ucontext_t *)context)->uc_mcontext.pc;
  stack_pointer = ((const ucontext_t *)context)->uc_mcontext.sp;
#else
#error "the fault handler knows x86-64 and AArch64"
#endif
  if (signal_number == SIGSEGV && map_on_access((uint64_t)(uintptr_t)info->si_addr)) return;
  fault f = describe_signal(signal_number, info, pc, stack_pointer);
  die(&f, tw_current.kind == ACTIVITY_KERNEL || tw_current.kind == ACTIVITY_COPY);
}

int tw_fault_prepare_thread(void) {
  void *memory = mmap(NULL, HANDLER_STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  stack_t stack = {.ss_sp = memory, .ss_size = HANDLER_STACK_BYTES};
  return sigaltstack(&stack, NULL) == 0 ? 0 : -errno;
}

int tw_fault_install(void) {
  static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  for (unsigned i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++)
    if (sigaction(SIGNALS[i], &action, NULL) != 0) return -errno;
  return tw_fault_prepare_thread();
}
