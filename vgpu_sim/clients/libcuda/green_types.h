/* Types of the functions for device resources and green contexts, part of driver_types.h. Layouts and
 * values are those of the public CUDA headers. */
#ifndef TSR_GREEN_TYPES_H
#define TSR_GREEN_TYPES_H

typedef struct CUdevResourceDesc_st *CUdevResourceDesc;

typedef enum CUdevResourceType {
  CU_DEV_RESOURCE_TYPE_INVALID = 0,
  CU_DEV_RESOURCE_TYPE_SM = 1,
  CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG = 1000,
  CU_DEV_RESOURCE_TYPE_WORKQUEUE = 10000,
} CUdevResourceType;

typedef struct CUdevResource {
  CUdevResourceType type;
  unsigned int origin[23]; /* reserved for the driver */
  union {
    struct {
      unsigned int smCount, minSmPartitionSize, smCoscheduledAlignment, flags, localityDomainId;
    } sm;
    struct {
      CUdevice device;
      unsigned int wqConcurrencyLimit;
      int sharingScope;
    } wqConfig;
    unsigned char bytes[40];
  };
  struct CUdevResource *nextResource;
} CUdevResource;

typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS {
  unsigned int smCount, coscheduledSmCount, preferredCoscheduledSmCount, flags, localityDomainId;
  unsigned int reserved[11];
} CU_DEV_SM_RESOURCE_GROUP_PARAMS;

enum { CU_DEV_SM_RESOURCE_GROUP_BACKFILL = 1 };
enum {
  CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING = 1,
  CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE = 2,
};
enum { CU_GREEN_CTX_DEFAULT_STREAM = 1 };
enum { CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED = 1 };

#endif
