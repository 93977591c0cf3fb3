/* Texture and surface functions of the headers, compared with what the host computes. */
#include <string.h>

#include "check.h"

static int failures;
#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) printf("%s:%d: false\n", #condition, __LINE__), failures++; \
  } while (0)

enum { W = 8, H = 4, N = W * H };

__global__ void fetch(cudaTextureObject_t flat, cudaTextureObject_t linear, cudaTextureObject_t solid,
                      float *out) {
  const int x = threadIdx.x, y = threadIdx.y, i = y * W + x;
  out[i] = tex2D<float>(flat, x + 1.0f, y + 0.5f);
  out[N + i] = tex1Dfetch<float4>(linear, i).z;
  const uchar4 texel = tex3D<uchar4>(solid, x % 2 + 0.5f, y % 2 + 0.5f, x / 4 + 0.5f);
  out[2 * N + i] = texel.x * 1000.0f + texel.w;
  float2 pair;
  tex2DLod<float>(&pair.x, flat, x + 0.5f, y + 0.5f, 0.0f);
  out[3 * N + i] = pair.x;
  out[4 * N + i] = tex2Dgather<float4>(flat, x + 1.0f, y + 1.0f).w;
}

template <class T>
__global__ void increment(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
  const int x = threadIdx.x * (int)sizeof(T), y = threadIdx.y;
  T one = surf2Dread<T>(from, x, y);
  unsigned char *bytes = (unsigned char *)&one;
  bytes[0] += 1;
  bytes[sizeof(T) - 1] += 2;
  surf2Dwrite(one, to, x, y, cudaBoundaryModeClamp);
}

/* The other functions are compiled and loaded; conformance tests execute their instructions. */
__global__ void fetch_by_others(cudaTextureObject_t t, float4 *o) {
  const float2 g = {1, 2};
  const float4 h = {1, 2, 3, 4};
  o[0] = tex1D<float4>(t, 1);
  o[1] = tex1DLod<float4>(t, 1, 2);
  o[2] = tex1DGrad<float4>(t, 1, 2, 3);
  o[3] = tex2DGrad<float4>(t, 1, 2, g, g);
  o[4] = tex3DLod<float4>(t, 1, 2, 3, 4);
  o[5] = tex3DGrad<float4>(t, 1, 2, 3, h, h);
  o[6] = tex1DLayered<float4>(t, 1, 2);
  o[7] = tex1DLayeredLod<float4>(t, 1, 2, 3);
  o[8] = tex1DLayeredGrad<float4>(t, 1, 2, 3, 4);
  o[9] = tex2DLayered<float4>(t, 1, 2, 3);
  o[10] = tex2DLayeredLod<float4>(t, 1, 2, 3, 4);
  o[11] = tex2DLayeredGrad<float4>(t, 1, 2, 3, g, g);
  o[12] = texCubemap<float4>(t, 1, 2, 3);
  o[13] = texCubemapLod<float4>(t, 1, 2, 3, 4);
  o[14] = texCubemapGrad<float4>(t, 1, 2, 3, h, h);
  o[15] = texCubemapLayered<float4>(t, 1, 2, 3, 4);
  o[16] = texCubemapLayeredLod<float4>(t, 1, 2, 3, 4, 5);
  o[17] = texCubemapLayeredGrad<float4>(t, 1, 2, 3, 4, h, h);
  bool resident;
  o[18] = tex2D<float4>(t, 1, 2, &resident);
  o[19].x = resident;
}

static cudaTextureObject_t texture_of(const cudaResourceDesc &resource, cudaTextureFilterMode filter) {
  cudaTextureDesc sampling = {};
  cudaTextureObject_t made = 0;
  sampling.filterMode = filter;
  sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
  sampling.readMode = cudaReadModeElementType;
  CHECK(cudaCreateTextureObject(&made, &resource, &sampling, nullptr));
  return made;
}

static void fetches() {
  float flat[N], out[5 * N];
  float4 vectors[N];
  uchar4 bytes[8];
  for (int i = 0; i < N; i++) flat[i] = (float)(i * i), vectors[i].z = (float)(3 * i);
  for (int i = 0; i < 8; i++) bytes[i] = make_uchar4(i, 0, 0, 100 + i);
  cudaArray_t array, solid;
  void *memory;
  float *results;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
  const cudaChannelFormatDesc quads = cudaCreateChannelDesc<uchar4>();
  CHECK(cudaMallocArray(&array, &floats, W, H, cudaArrayTextureGather));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, flat, W * 4, W * 4, H, cudaMemcpyHostToDevice));
  CHECK(cudaMalloc3DArray(&solid, &quads, make_cudaExtent(2, 2, 2)));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(bytes, 8, 2, 2);
  copy.dstArray = solid;
  copy.extent = make_cudaExtent(2, 2, 2);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  CHECK(cudaMalloc(&memory, sizeof vectors));
  CHECK(cudaMemcpy(memory, vectors, sizeof vectors, cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&results, sizeof out));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  const cudaTextureObject_t first = texture_of(resource, cudaFilterModeLinear);
  resource.res.array.array = solid;
  const cudaTextureObject_t third = texture_of(resource, cudaFilterModePoint);
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = cudaCreateChannelDesc<float4>();
  resource.res.linear.sizeInBytes = sizeof vectors;
  const cudaTextureObject_t second = texture_of(resource, cudaFilterModePoint);
  fetch<<<1, dim3(W, H)>>>(first, second, third, results);
  CHECK(cudaMemcpy(out, results, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < N; i++) {
    const int x = i % W, y = i / W, right = x + 1 < W ? i + 1 : i;
    EXPECT(out[i] == (flat[i] + flat[right]) / 2);
    EXPECT(out[N + i] == 3.0f * i);
    const uchar4 texel = bytes[x / 4 * 4 + y % 2 * 2 + x % 2];
    EXPECT(out[2 * N + i] == texel.x * 1000.0f + texel.w);
    EXPECT(out[3 * N + i] == flat[i]);
    EXPECT(out[4 * N + i] == flat[i]); /* the upper left of four */
  }
}

template <class T>
static void surfaces() {
  unsigned char data[N * sizeof(T)], out[N * sizeof(T)];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7);
  cudaArray_t arrays[2];
  cudaSurfaceObject_t objects[2];
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<T>();
  for (int i = 0; i < 2; i++) {
    cudaResourceDesc resource = {};
    CHECK(cudaMallocArray(&arrays[i], &channels, W, H, cudaArraySurfaceLoadStore));
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = arrays[i];
    CHECK(cudaCreateSurfaceObject(&objects[i], &resource));
  }
  const size_t row = W * sizeof(T);
  CHECK(cudaMemcpy2DToArray(arrays[0], 0, 0, data, row, row, H, cudaMemcpyHostToDevice));
  increment<T><<<1, dim3(W, H)>>>(objects[0], objects[1]);
  CHECK(cudaMemcpy2DFromArray(out, row, arrays[1], 0, 0, row, H, cudaMemcpyDeviceToHost));
  for (int i = 0; i < N; i++) {
    data[i * sizeof(T)] += 1;
    data[(i + 1) * sizeof(T) - 1] += 2;
  }
  EXPECT(memcmp(data, out, sizeof data) == 0);
}

int main() {
  fetches();
  surfaces<unsigned char>();
  surfaces<unsigned short>();
  surfaces<float>();
  surfaces<int2>();
  surfaces<float4>();
  printf("failures %d\n", failures);
  return failures != 0;
}
