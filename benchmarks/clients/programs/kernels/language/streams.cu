// Streams that wait for events, a captured graph, asynchronous copies and pinned memory.
#include "../verify.h"

__global__ void step(int *a, int n, int factor, int add) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = a[i] * factor + add;
}

int main() {
    const int n = 3000;
    int *pinned;
    CHECK(cudaMallocHost(reinterpret_cast<void **>(&pinned), n * sizeof(int)));
    Array<int> a(n), b(n);
    cudaStream_t first, second;
    cudaEvent_t ready, back;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
    for (int i = 0; i < n; i++) pinned[i] = i;
    CHECK(cudaMemcpyAsync(a.device, pinned, n * sizeof(int), cudaMemcpyHostToDevice, first));
    step<<<12, 256, 0, first>>>(a.device, n, 3, 1);
    CHECK(cudaEventRecord(ready, first));
    CHECK(cudaStreamWaitEvent(second, ready, 0));
    step<<<12, 256, 0, second>>>(a.device, n, 2, 5);
    CHECK(cudaMemcpyAsync(b.device, a.device, n * sizeof(int), cudaMemcpyDeviceToDevice, second));
    CHECK(cudaStreamSynchronize(second));

    cudaGraph_t graph;
    cudaGraphExec_t ready_graph;
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    step<<<12, 256, 0, first>>>(a.device, n, 2, 1);
    CHECK(cudaEventRecord(ready, first));
    CHECK(cudaStreamWaitEvent(second, ready, 0));
    step<<<12, 256, 0, second>>>(b.device, n, 1, 7);
    CHECK(cudaEventRecord(back, second));
    CHECK(cudaStreamWaitEvent(first, back, 0));
    step<<<12, 256, 0, first>>>(a.device, n, 1, -3);
    CHECK(cudaStreamEndCapture(first, &graph));
    CHECK(cudaGraphInstantiate(&ready_graph, graph, 0));
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(ready_graph, first));
    CHECK(cudaMemcpyAsync(pinned, a.device, n * sizeof(int), cudaMemcpyDeviceToHost, first));
    CHECK(cudaStreamSynchronize(first));
    b.download();
    for (int i = 0; i < n; i++) {
        int value = (i * 3 + 1) * 2 + 5, other = value + 21;
        for (int k = 0; k < 3; k++) value = value * 2 - 2;
        expect("first", pinned[i], value);
        expect("second", b[i], other);
    }
    return report();
}
