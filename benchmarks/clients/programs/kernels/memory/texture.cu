// A texture object of linear memory and one of an array.
#include <cstring>

#include "../verify.h"

__global__ void sample(cudaTextureObject_t line, cudaTextureObject_t image, float *out, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    out[y * width + x] = tex1Dfetch<float>(line, x) + tex2D<float>(image, x + .5f, y + .5f);
}

int main() {
    const int width = 64, height = 8;
    Array<float> line(width), image(width * height), out(width * height);
    fill(line, -1, 1, 1);
    fill(image, -1, 1, 2);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, width, height));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image.host.data(), width * sizeof(float),
                              width * sizeof(float), height, cudaMemcpyHostToDevice));
    cudaResourceDesc linear, pixels;
    std::memset(&linear, 0, sizeof linear);
    std::memset(&pixels, 0, sizeof pixels);
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear.devPtr = line.device;
    linear.res.linear.desc = format;
    linear.res.linear.sizeInBytes = width * sizeof(float);
    pixels.resType = cudaResourceTypeArray;
    pixels.res.array.array = array;
    cudaTextureDesc how;
    std::memset(&how, 0, sizeof how);
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t first, second;
    CHECK(cudaCreateTextureObject(&first, &linear, &how, nullptr));
    CHECK(cudaCreateTextureObject(&second, &pixels, &how, nullptr));
    sample<<<dim3(width / 32, height), 32>>>(first, second, out.device, width);
    finish();
    out.download();
    for (int i = 0; i < width * height; i++)
        expect("sample", out[i], line[i % width] + image[i]);
    return report();
}
