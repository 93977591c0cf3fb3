/* Functions of threads that glibc before 2.34 has in libpthread, with their symbols of glibc
 * 2.17. In a program without libpthread their addresses are NULL. */
#ifndef TSR_THREADS_H
#define TSR_THREADS_H

#include <pthread.h>

#if defined(__x86_64__)
#define TSR_OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define TSR_OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#else
#define TSR_OLD_SYMBOL(name) _Static_assert(1, "")
#endif

#endif
