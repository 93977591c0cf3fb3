/* The public NVML types that this program uses (NVML API reference, "Device Structs",
   "Multi Instance GPU Management", "Enums"). */
#pragma once

typedef int nvmlReturn_t;
typedef struct nvmlDevice *nvmlDevice_t;
typedef struct nvmlGpuInstance *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance *nvmlComputeInstance_t;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_LIBRARY_NOT_FOUND = 12,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
  NVML_ERROR_UNKNOWN = 999,
};

enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN };
enum { NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2, NVML_TEMPERATURE_THRESHOLD_GPU_MAX };
enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO };
enum { NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES };
enum { NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED };
enum { NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC };
enum { NVML_MEMORY_LOCATION_DRAM = 2, NVML_MEMORY_LOCATION_SRAM = 7 };
enum { NVML_FEATURE_DISABLED, NVML_FEATURE_ENABLED };
enum { NVML_PSTATE_UNKNOWN = 32 };
enum { NVML_GPU_INSTANCE_PROFILE_COUNT = 18, NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 9 };
enum { NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0 };
enum { NVML_UNKNOWN_ID = 0xffffffff };

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device;
  unsigned pci_device_id, pci_sub_system_id;
  char bus_id[32];
} nvmlPciInfo_t;

typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used; /* bytes */
} nvmlMemory_v2_t;

typedef struct {
  unsigned long long total, free, used; /* bytes */
} nvmlBAR1Memory_t;

typedef struct {
  unsigned gpu, memory; /* percent of the last sample period */
} nvmlUtilization_t;

typedef struct {
  unsigned pid;
  unsigned long long used_gpu_memory; /* bytes; all ones: unknown */
  unsigned gpu_instance_id, compute_instance_id;
} nvmlProcessInfo_t;

typedef struct {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
  unsigned gpu_instance_slices, compute_instance_slices;
  unsigned long long memory_mib;
} nvmlDeviceAttributes_t;

typedef struct {
  unsigned start, size;
} nvmlPlacement_t;

typedef struct {
  unsigned version, id, p2p_supported, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  unsigned long long memory_mib;
  char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
  nvmlDevice_t device;
  unsigned id, profile_id;
  nvmlPlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
  unsigned version, id, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
  nvmlDevice_t device;
  nvmlGpuInstance_t gpu_instance;
  unsigned id, profile_id;
  nvmlPlacement_t placement;
} nvmlComputeInstanceInfo_t;

/* The version field of a structure: its size, and its layout number in the top byte. */
#define NVML_STRUCT_VERSION(type, number) ((unsigned)(sizeof(type) | (unsigned)(number) << 24))
