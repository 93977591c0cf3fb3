/* Names a function's symbol of the oldest supported glibc, so that what was built on a newer system
 * also loads in a container with an old one.
 *
 * Before glibc 2.34, functions of threads are in libpthread and dlopen is in libdl. Code that is not
 * linked with them declares the functions weak; in a program without them their addresses are NULL. */
#ifndef TSR_OLD_SYMBOL_H
#define TSR_OLD_SYMBOL_H

#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define TSR_OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__) && defined(__GLIBC__)
#define TSR_OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#else
#define TSR_OLD_SYMBOL(name) _Static_assert(1, "")
#endif

#endif
