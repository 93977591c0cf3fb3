/* Arrays, copies with them, graphs, textures and surfaces through the runtime. */
#include <string.h>

#include "runtime_checked.h"

DECLARE(cudaMallocArray);
DECLARE(cudaMalloc3DArray);
DECLARE(cudaMallocMipmappedArray);
DECLARE(cudaFreeArray);
DECLARE(cudaFreeMipmappedArray);
DECLARE(cudaGetMipmappedArrayLevel);
DECLARE(cudaArrayGetInfo);
DECLARE(cudaGetChannelDesc);
DECLARE(cudaCreateChannelDesc);
DECLARE(cudaMemcpy2DToArray);
DECLARE(cudaMemcpy2DFromArray);
DECLARE(cudaMemcpy2DToArrayAsync);
DECLARE(cudaMemcpy2DFromArrayAsync);
DECLARE(cudaMemcpy2DFromArray_ptds);
DECLARE(cudaMemcpy2DArrayToArray);
DECLARE(cudaMemcpyToArray);
DECLARE(cudaMemcpyFromArray);
DECLARE(cudaMemcpyToArrayAsync);
DECLARE(cudaMemcpyArrayToArray);
DECLARE(cudaGraphAddMemcpyNode);
DECLARE(cudaGraphMemcpyNodeGetParams);
DECLARE(cudaCreateTextureObject);
DECLARE(cudaDestroyTextureObject);
DECLARE(cudaGetTextureObjectResourceDesc);
DECLARE(cudaGetTextureObjectTextureDesc);
DECLARE(cudaGetTextureObjectResourceViewDesc);
DECLARE(cudaCreateSurfaceObject);
DECLARE(cudaDestroySurfaceObject);
DECLARE(cudaGetSurfaceObjectResourceDesc);
DECLARE(cudaDeviceGetTexture1DLinearMaxWidth);

enum { WIDTH = 6, HEIGHT = 4, ROW = WIDTH * sizeof(float), BYTES = ROW * HEIGHT };
enum { TO_DEVICE = cudaMemcpyHostToDevice, TO_HOST = cudaMemcpyDeviceToHost };
enum { INVALID_PITCH = 12, INVALID_CHANNELS = 20, SURFACE = 2 };
static const struct cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};

static void fill(float *data, float first) {
  for (int i = 0; i < WIDTH * HEIGHT; i++) data[i] = first + (float)i;
}

static int is_same(cudaArray_t array, const float *wanted) {
  float found[WIDTH * HEIGHT] = {0};
  OK(cudaMemcpy2DFromArray(found, ROW, array, 0, 0, ROW, HEIGHT, TO_HOST));
  return memcmp(found, wanted, BYTES) == 0;
}

static void rectangles(void) {
  float data[WIDTH * HEIGHT], out[WIDTH * HEIGHT] = {0};
  cudaArray_t first, second;
  cudaStream_t stream;
  fill(data, 1);
  OK(cudaMallocArray(&first, &floats, WIDTH, HEIGHT, 0));
  OK(cudaMallocArray(&second, &floats, WIDTH, HEIGHT, 0));
  OK(cudaMemcpy2DToArray(first, 0, 0, data, ROW, ROW, HEIGHT, TO_DEVICE));
  HOLDS(is_same(first, data));
  OK(cudaMemcpy2DArrayToArray(second, 4, 1, first, 8, 2, 8, 2, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpy2DFromArray_ptds(out, ROW, second, 0, 0, ROW, HEIGHT, cudaMemcpyDefault));
  HOLDS(out[7] == data[14] && out[8] == data[15] && out[14] == data[21] && out[9] == 0);
  OK(cudaStreamCreateWithFlags(&stream, 1));
  data[3] = -1;
  OK(cudaMemcpy2DToArrayAsync(second, 0, 0, data, ROW, ROW, HEIGHT, TO_DEVICE, stream));
  OK(cudaMemcpy2DFromArrayAsync(out, ROW, second, 0, 0, ROW, HEIGHT, TO_HOST, stream));
  OK(cudaStreamSynchronize(stream));
  HOLDS(out[3] == -1 && out[23] == data[23]);
  GIVES(cudaErrorInvalidMemcpyDirection,
        cudaMemcpy2DToArray(first, 0, 0, data, ROW, ROW, HEIGHT, TO_HOST));
  GIVES(INVALID_PITCH, cudaMemcpy2DToArray(first, 0, 0, data, 8, ROW, HEIGHT, TO_DEVICE));
  GIVES(INVALID_PITCH, cudaMemcpy2DToArray(first, 0, 0, data, 8, ROW, 1, TO_DEVICE));
  GIVES(INVALID_PITCH, cudaMemcpy2DFromArray(data, 8, first, 0, 0, ROW, 1, TO_HOST));
  GIVES(cudaErrorInvalidValue, cudaMemcpy2DToArray(first, 4, 0, data, ROW, ROW, HEIGHT, TO_DEVICE));
  GIVES(cudaErrorInvalidValue, cudaMemcpy2DToArray(first, 0, 1, data, ROW, ROW, HEIGHT, TO_DEVICE));
  OK(cudaFreeArray(second));
  GIVES(cudaErrorInvalidValue, cudaFreeArray(second));
  OK(cudaFreeArray(NULL));
  GIVES(cudaErrorInvalidValue,
        cudaMemcpy2DToArray(second, 0, 0, data, ROW, ROW, HEIGHT, TO_DEVICE));
  OK(cudaFreeArray(first));
  OK(cudaStreamDestroy(stream));
}

/* Consecutive bytes continue in the next rows. */
static void lines(void) {
  float data[WIDTH * HEIGHT], wanted[WIDTH * HEIGHT] = {0}, out[8];
  const struct cudaChannelFormatDesc bytes = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
  cudaArray_t first, second, narrow;
  fill(data, 1);
  OK(cudaMallocArray(&narrow, &bytes, ROW, HEIGHT, 0));
  OK(cudaMallocArray(&first, &floats, WIDTH, HEIGHT, 0));
  OK(cudaMallocArray(&second, &floats, WIDTH, HEIGHT, 0));
  OK(cudaMemcpyToArray(first, 16, 0, data, 48, TO_DEVICE));
  memcpy(wanted + 4, data, 48);
  HOLDS(is_same(first, wanted));
  OK(cudaMemcpyFromArray(out, first, 12, 0, 32, TO_HOST));
  HOLDS(memcmp(out, wanted + 3, 32) == 0);
  OK(cudaMemcpyArrayToArray(second, 4, 1, first, 16, 0, 48, cudaMemcpyDeviceToDevice));
  memset(wanted, 0, sizeof wanted);
  memcpy(wanted + 7, data, 48);
  HOLDS(is_same(second, wanted));
  OK(cudaMemcpyToArrayAsync(second, 0, 3, data, 24, TO_DEVICE, NULL));
  OK(cudaDeviceSynchronize());
  memcpy(wanted + 18, data, 24);
  HOLDS(is_same(second, wanted));
  GIVES(cudaErrorInvalidValue, cudaMemcpyToArray(first, 24, 0, data, 4, TO_DEVICE));
  GIVES(cudaErrorInvalidValue, cudaMemcpyFromArray(data, first, 0, 3, 28, TO_HOST));
  GIVES(cudaErrorInvalidValue, cudaMemcpyToArray(second, 0, 3, data, 48, TO_DEVICE));
  GIVES(cudaErrorInvalidValue,
        cudaMemcpyArrayToArray(second, 0, 0, first, 0, 3, 48, cudaMemcpyDeviceToDevice));
  GIVES(cudaErrorInvalidValue,
        cudaMemcpyArrayToArray(narrow, 0, 0, first, 0, 0, 8, cudaMemcpyDeviceToDevice));
  HOLDS(is_same(second, wanted)); /* a refused copy has written nothing */
  OK(cudaFreeArray(narrow));
  OK(cudaFreeArray(first));
  OK(cudaFreeArray(second));
}

static void boxes(void) {
  float data[WIDTH * HEIGHT], out[WIDTH * HEIGHT] = {0};
  struct cudaExtent extent = {3, 4, 2}, found;
  struct cudaChannelFormatDesc channels;
  cudaArray_t array;
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaGraphExec_t exec;
  unsigned flags;
  fill(data, 7);
  OK(cudaMalloc3DArray(&array, &floats, extent, SURFACE));
  struct cudaMemcpy3DParms copy = {.srcPtr = {data, 12, 3, 4},
                                   .dstArray = array,
                                   .extent = extent,
                                   .kind = TO_DEVICE};
  OK(cudaMemcpy3D(&copy));
  copy.kind = cudaMemcpyHostToHost; /* an array is on the device, so the kind is corrected */
  OK(cudaMemcpy3D(&copy));
  struct cudaMemcpy3DParms back = {.srcArray = array,
                                   .srcPos = {1, 2, 1},
                                   .dstPtr = {out, 8, 2, 1},
                                   .extent = {2, 2, 1},
                                   .kind = TO_HOST};
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &back));
  struct cudaMemcpy3DParms read;
  OK(cudaGraphMemcpyNodeGetParams(node, &read));
  HOLDS(read.srcArray == array && read.srcPos.x == 1 && read.extent.width == 2);
  OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, NULL));
  OK(cudaDeviceSynchronize());
  HOLDS(out[0] == data[19] && out[1] == data[20] && out[2] == data[22] && out[3] == data[23]);
  back.srcPos.x = SIZE_MAX / 2;
  GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&back));
  copy.dstPtr.ptr = data; /* an array and memory */
  GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
  OK(cudaArrayGetInfo(&channels, &found, &flags, array));
  HOLDS(memcmp(&channels, &floats, sizeof floats) == 0);
  HOLDS(found.width == 3 && found.depth == 2 && flags == SURFACE);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaFreeArray(array));
  GIVES(cudaErrorInvalidValue, cudaArrayGetInfo(&channels, &found, &flags, array));
  GIVES(cudaErrorInvalidValue, cudaGetChannelDesc(&channels, array));
  GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&back));
}

static void formats(void) {
  static const int widths[] = {8, 16, 32};
  for (int kind = 0; kind < 3; kind++)
    for (int i = 0; i < 3; i++)
      for (int count = 1; count <= 4; count++) {
        const int bits = widths[i];
        struct cudaChannelFormatDesc found, wanted = cudaCreateChannelDesc(
            bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0, kind);
        cudaArray_t array = NULL;
        const cudaError_t expected =
            kind == cudaChannelFormatKindFloat && bits == 8 ? INVALID_CHANNELS
            : count == 3                                    ? cudaErrorInvalidValue
                                                            : cudaSuccess;
        GIVES(expected, cudaMallocArray(&array, &wanted, 8, 0, 0));
        if (expected != cudaSuccess) continue;
        OK(cudaGetChannelDesc(&found, array));
        HOLDS(memcmp(&found, &wanted, sizeof found) == 0);
        OK(cudaFreeArray(array));
      }
  struct cudaChannelFormatDesc mixed = {32, 16, 0, 0, 2}, gap = {8, 0, 8, 0, 1}, none = {0};
  struct cudaChannelFormatDesc compressed = {8, 8, 8, 8, 17};
  cudaArray_t array;
  size_t most;
  GIVES(INVALID_CHANNELS, cudaMallocArray(&array, &mixed, 8, 0, 0));
  GIVES(INVALID_CHANNELS, cudaMallocArray(&array, &gap, 8, 0, 0));
  GIVES(INVALID_CHANNELS, cudaMallocArray(&array, &none, 8, 0, 0));
  GIVES(cudaErrorNotSupported, cudaMallocArray(&array, &compressed, 8, 8, 0));
  OK(cudaDeviceGetTexture1DLinearMaxWidth(&most, &floats, 0));
  HOLDS(most == 1 << 30);
}

static void textures(void) {
  struct cudaResourceDesc resource, found;
  struct cudaTextureDesc sampling = {.addressMode = {1, 3, 0},
                                     .filterMode = 1,
                                     .readMode = cudaReadModeNormalizedFloat,
                                     .normalizedCoords = 1,
                                     .borderColor = {1, 2, 3, 4}},
                         read;
  struct cudaResourceViewDesc view = {.format = 6, .width = 8, .height = 8, .lastMipmapLevel = 1}, seen;
  const struct cudaChannelFormatDesc bytes = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
  cudaTextureObject_t texture, viewed;
  cudaSurfaceObject_t surface;
  cudaMipmappedArray_t mipmap;
  cudaArray_t level;
  void *memory;
  memset(&resource, 0, sizeof resource);
  OK(cudaMalloc(&memory, 4096));
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = memory;
  resource.res.pitch2D.desc = bytes;
  resource.res.pitch2D.width = resource.res.pitch2D.height = 16;
  resource.res.pitch2D.pitchInBytes = 64;
  OK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
  OK(cudaGetTextureObjectResourceDesc(&found, texture));
  HOLDS(found.resType == cudaResourceTypePitch2D && found.res.pitch2D.devPtr == memory);
  HOLDS(found.res.pitch2D.pitchInBytes == 64 && found.res.pitch2D.desc.w == 8);
  OK(cudaGetTextureObjectTextureDesc(&read, texture));
  HOLDS(memcmp(&read, &sampling, sizeof read) == 0);
  GIVES(cudaErrorInvalidValue, cudaGetTextureObjectResourceViewDesc(&seen, texture));
  OK(cudaDestroyTextureObject(texture));
  GIVES(cudaErrorInvalidValue, cudaDestroyTextureObject(texture));
  sampling.readMode = cudaReadModeElementType; /* which a filter cannot interpolate */
  GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
  sampling.filterMode = 0;
  OK(cudaMallocMipmappedArray(&mipmap, &bytes, (struct cudaExtent){8, 8, 0}, 3, SURFACE));
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mipmap;
  OK(cudaCreateTextureObject(&viewed, &resource, &sampling, &view));
  sampling.normalizedCoords = 0;
  GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &sampling, &view));
  sampling.normalizedCoords = sampling.seamlessCubemap = 1;
  GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &sampling, &view));
  sampling.seamlessCubemap = 0;
  OK(cudaGetTextureObjectResourceViewDesc(&seen, viewed));
  HOLDS(memcmp(&seen, &view, sizeof seen) == 0);
  OK(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = level;
  OK(cudaCreateSurfaceObject(&surface, &resource));
  OK(cudaGetSurfaceObjectResourceDesc(&found, surface));
  HOLDS(found.res.array.array == level);
  OK(cudaDestroySurfaceObject(surface));
  OK(cudaDestroyTextureObject(viewed));
  OK(cudaFreeMipmappedArray(mipmap));
  GIVES(cudaErrorInvalidValue, cudaFreeMipmappedArray(mipmap));
  GIVES(cudaErrorInvalidResourceHandle, cudaGetMipmappedArrayLevel(&level, mipmap, 1));
  GIVES(cudaErrorInvalidValue, cudaCreateSurfaceObject(&surface, &resource));
  resource.resType = 7;
  GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
  OK(cudaFree(memory));
}

int main(void) {
  rectangles();
  lines();
  boxes();
  formats();
  textures();
  printf("failures %d\n", failures);
  return failures != 0;
}
