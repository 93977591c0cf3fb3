/* Entry point of programs for containers. It replaces the system's, which requires a new glibc.

   crt1.o of glibc 2.34 and later requires __libc_start_main@GLIBC_2.34, and dlopen in libc has
   that version, too. The libc of a container is whatever its image has, so the programs refer to
   the first versions of both functions. A program that calls dlopen names libdl.so.2, which
   contains dlopen before 2.34, when it is linked. */
#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__)

__asm__(".symver __libc_start_main,__libc_start_main@GLIBC_2.2.5");

extern int main(int argc, char **argv);
extern int __libc_start_main(int (*main)(int, char **), int argc, char **argv, void (*init)(void),
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static void nothing(void) {}

/* Called by _start with the initial stack from the kernel (System V ABI, 3.4.1). */
__attribute__((used, noreturn)) void program_start(long *stack, void (*rtld_fini)(void)) {
  __libc_start_main(main, (int)stack[0], (char **)(stack + 1), nothing, nothing, rtld_fini, stack);
  __builtin_trap();
}

__asm__(".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  xor %ebp, %ebp\n"
        "  mov %rsp, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  and $-16, %rsp\n"
        "  call program_start\n"
        ".size _start, . - _start\n");

#endif
