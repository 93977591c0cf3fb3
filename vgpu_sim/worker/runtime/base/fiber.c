/* Fibers: their stacks, and the switch between them. */
#define _GNU_SOURCE
#include "base/fiber.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/platform.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

enum { GUARD_INSTALL = 102, POPULATE_READ = 22 }; /* madvise values of Linux 6.13 and 5.14 */
enum { COLOURS = 16, COLOUR_BYTES = 256 };

/* Sanitizers must be notified of each switch, by C code around it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEXT "tw_fiber_next"
#else
#define NEXT "tw_fiber_yield"
#endif

/* A parked fiber's stack holds the callee-saved registers and the address at which it resumes.
 * It resumes by a jump, not by a return: it stopped at another place than the fiber that
 * switches to it, so the processor would mispredict every return (measured on x86-64: a kernel
 * with two barriers takes twice the time). A new fiber's frame has its entry point and the two
 * registers that the entry reads. */
void tw_fiber_go(tw_fiber *from, tw_fiber *to);
void tw_fiber_start(void);
#if defined(__x86_64__)
enum { FRAME_WORDS = 7, START_WORD = 6, FIBER_WORD = 5, MAIN_WORD = 4 };
__asm__(
    "        .text\n"
    "        .globl tw_fiber_go, " NEXT ", tw_fiber_start\n"
    "        .hidden tw_fiber_go, " NEXT ", tw_fiber_start\n"
    "        .type " NEXT ", @function\n"
    "        .type tw_fiber_go, @function\n"
    "        .type tw_fiber_start, @function\n"
    NEXT ":\n"
    "        movq 104(%rdi), %rsi\n"
    "tw_fiber_go:\n"
    "        .cfi_startproc\n"
    "        pushq %rbx\n"
    "        pushq %r12\n"
    "        pushq %r13\n"
    "        pushq %r14\n"
    "        pushq %r15\n"
    "        pushq %rbp\n"
    "        .cfi_adjust_cfa_offset 48\n"
    "        movq %rsp, 96(%rdi)\n"
    "        movq 96(%rsi), %rsp\n"
    "        popq %rbp\n"
    "        popq %r15\n"
    "        popq %r14\n"
    "        popq %r13\n"
    "        popq %r12\n"
    "        popq %rbx\n"
    "        .cfi_adjust_cfa_offset -48\n"
    "        popq %rcx\n"
    "        .cfi_adjust_cfa_offset -8\n"
    "        jmpq *%rcx\n"
    "        .cfi_endproc\n"
    "tw_fiber_start:\n"
    "        .cfi_startproc\n"
    "        .cfi_undefined rip\n"
    "        movq %rbx, %rdi\n"
    "        callq *%r12\n"
    "        ud2\n"
    "        .cfi_endproc\n");
#elif defined(__aarch64__)
/* AAPCS64: x19 to x28, the frame record, and the low halves of v8 to v15 are callee-saved. */
enum { FRAME_WORDS = 20, START_WORD = 1, FIBER_WORD = 2, MAIN_WORD = 3 };
__asm__(
    "        .text\n"
    "        .globl tw_fiber_go, " NEXT ", tw_fiber_start\n"
    "        .hidden tw_fiber_go, " NEXT ", tw_fiber_start\n"
    "        .type " NEXT ", @function\n"
    "        .type tw_fiber_go, @function\n"
    "        .type tw_fiber_start, @function\n"
    NEXT ":\n"
    "        ldr x1, [x0, #104]\n"
    "tw_fiber_go:\n"
    "        .cfi_startproc\n"
    "        stp x29, x30, [sp, #-160]!\n"
    "        .cfi_adjust_cfa_offset 160\n"
    "        stp x19, x20, [sp, #16]\n"
    "        stp x21, x22, [sp, #32]\n"
    "        stp x23, x24, [sp, #48]\n"
    "        stp x25, x26, [sp, #64]\n"
    "        stp x27, x28, [sp, #80]\n"
    "        stp d8, d9, [sp, #96]\n"
    "        stp d10, d11, [sp, #112]\n"
    "        stp d12, d13, [sp, #128]\n"
    "        stp d14, d15, [sp, #144]\n"
    "        mov x9, sp\n"
    "        str x9, [x0, #96]\n"
    "        ldr x9, [x1, #96]\n"
    "        mov sp, x9\n"
    "        ldp x19, x20, [sp, #16]\n"
    "        ldp x21, x22, [sp, #32]\n"
    "        ldp x23, x24, [sp, #48]\n"
    "        ldp x25, x26, [sp, #64]\n"
    "        ldp x27, x28, [sp, #80]\n"
    "        ldp d8, d9, [sp, #96]\n"
    "        ldp d10, d11, [sp, #112]\n"
    "        ldp d12, d13, [sp, #128]\n"
    "        ldp d14, d15, [sp, #144]\n"
    "        ldp x29, x30, [sp], #160\n"
    "        .cfi_adjust_cfa_offset -160\n"
    "        mov x16, x30\n"
    "        br x16\n"
    "        .cfi_endproc\n"
    "tw_fiber_start:\n"
    "        .cfi_startproc\n"
    "        .cfi_undefined x30\n"
    "        mov x0, x19\n"
    "        blr x20\n"
    "        brk #0\n"
    "        .cfi_endproc\n");
#else
#error "the switch knows x86-64 and AArch64"
#endif
_Static_assert(offsetof(tw_fiber, sp) == 96, "the switch knows where");
_Static_assert(offsetof(tw_fiber, next) == 104, "the switch knows where");

void tw_fiber_switch(tw_fiber *from, tw_fiber *to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from->address_sanitizer, to->lowest, to->stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to->thread_sanitizer, 0);
#endif
  tw_fiber_go(from, to);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from->address_sanitizer, NULL, NULL);
#endif
}

void tw_fiber_entered(void) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void tw_fiber_yield(tessera_thread_state *state) {
  tw_fiber *self = (tw_fiber *)state;
  if (self->next != self) tw_fiber_switch(self, self->next);
}
#endif

void tw_fiber_adopt_thread(tw_fiber *home) {
#if defined(__SANITIZE_ADDRESS__)
  pthread_attr_t attributes;
  void *lowest;
  size_t bytes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &lowest, &bytes);
    pthread_attr_destroy(&attributes);
    home->lowest = lowest;
    home->stack_bytes = bytes;
  }
#endif
#if defined(__SANITIZE_THREAD__)
  home->thread_sanitizer = __tsan_get_current_fiber();
#endif
  (void)home;
}

/* Make a page inaccessible. A guard page installed by MADV_GUARD_INSTALL needs no mapping of its
 * own; a process may have only 65,530 mappings. Some systems return 0 for an unknown advice, so
 * the page is probed. */
static int protect(uint8_t *page) {
  if (madvise(page, TESSERA_PAGE_BYTES, GUARD_INSTALL) == 0 &&
      madvise(page, TESSERA_PAGE_BYTES, POPULATE_READ) != 0 && errno == EFAULT)
    return 0;
  return mprotect(page, TESSERA_PAGE_BYTES, PROT_NONE) == 0 ? 0 : -errno;
}

static void prepare(const tw_stacks *s, uint32_t index, void (*main)(tw_fiber *self)) {
  uint8_t *slot = s->base + index * s->stride;
  /* Shift the stacks' tops, because at equal distances the fibers' frames would share few cache
   * sets. */
  uint8_t *top = slot + s->stride - index % COLOURS * COLOUR_BYTES;
  void **sp = (void **)(void *)top - FRAME_WORDS; /* fresh pages: other words are zeros */
  tw_fiber *fiber = &s->fibers[index];
  memset(fiber, 0, sizeof *fiber);
  sp[START_WORD] = (void *)(uintptr_t)tw_fiber_start;
  sp[FIBER_WORD] = fiber;
  sp[MAIN_WORD] = (void *)(uintptr_t)main;
  fiber->sp = sp;
  fiber->group = index;
  fiber->lowest = slot + TESSERA_PAGE_BYTES;
  fiber->stack_bytes = s->stride - TESSERA_PAGE_BYTES;
#if defined(__SANITIZE_THREAD__)
  fiber->thread_sanitizer = __tsan_create_fiber(0);
#endif
}

int tw_stacks_open(tw_stacks *s, uint32_t count, uint64_t stack_bytes, void (*main)(tw_fiber *)) {
  const uint64_t head = tw_whole_pages(count * sizeof(tw_fiber));
  const uint64_t stride =
      tw_whole_pages(stack_bytes + COLOURS * COLOUR_BYTES) + TESSERA_PAGE_BYTES;
  uint8_t *memory = mmap(NULL, head + count * stride, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  madvise(memory, head + count * stride, MADV_NOHUGEPAGE); /* a fiber touches a page or two */
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory, head + count * stride); /* frames of earlier fibers were here */
#endif
  *s = (tw_stacks){.base = memory + head,
                   .stride = stride,
                   .stack_bytes = stack_bytes,
                   .count = count,
                   .fibers = (tw_fiber *)(void *)memory};
  for (uint32_t i = 0; i < count; i++) {
    const int status = protect(s->base + i * stride);
    if (status != 0) {
      munmap(memory, head + count * stride);
      *s = (tw_stacks){0};
      return status;
    }
  }
  for (uint32_t i = 0; i < count; i++) prepare(s, i, main);
  return 0;
}

void tw_stacks_close(tw_stacks *s) {
  if (s->count == 0) return;
#if defined(__SANITIZE_THREAD__)
  for (uint32_t i = 0; i < s->count; i++) __tsan_destroy_fiber(s->fibers[i].thread_sanitizer);
#endif
  uint8_t *memory = (uint8_t *)s->fibers;
  munmap(memory, (uint64_t)(s->base - memory) + s->count * s->stride);
  *s = (tw_stacks){0};
}

const tw_fiber *tw_stacks_find(const tw_stacks *s, uint64_t address, bool *in_guard) {
  const uint64_t distance = address - (uint64_t)(uintptr_t)s->base;
  if (s->count == 0 || distance >= s->count * s->stride) return NULL;
  *in_guard = distance % s->stride < TESSERA_PAGE_BYTES;
  return &s->fibers[distance / s->stride];
}
