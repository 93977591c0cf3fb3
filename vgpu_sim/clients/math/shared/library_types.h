/* Types that the mathematical libraries share: streams, and the parts of versions. */
#ifndef TSR_LIBRARY_TYPES_H
#define TSR_LIBRARY_TYPES_H

typedef struct CUstream_st *cudaStream_t;

/* libraryPropertyType */
enum { MAJOR_VERSION = 0, MINOR_VERSION = 1, PATCH_LEVEL = 2 };

/* The library's version number, one digit pair or more for each part. */
struct tsr_version {
  int major, minor, patch;
};

/* Return a part of a version, or -1 if there is no such part. */
static inline int tsr_version_part(struct tsr_version version, int part) {
  switch (part) {
    case MAJOR_VERSION: return version.major;
    case MINOR_VERSION: return version.minor;
    case PATCH_LEVEL: return version.patch;
    default: return -1;
  }
}

#endif
