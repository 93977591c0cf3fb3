/* NVIDIA's NVRTC, which the user has installed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function of this library, and of no other. */
#define LIBRARY_MARK "tessera_nvrtc_find"

enum { PATH_BYTES = 4096 };

/* Return the address of a function of NVIDIA's NVRTC, which is loaded by the first call; or NULL,
   after one line on stderr. */
void *library_symbol(const char *name);

/* Write the path of the libnvrtc.so of a major version that a program would find without this
   library; return whether there is one. */
bool places_find(int major, char path[PATH_BYTES]);
