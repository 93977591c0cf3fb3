// CUB, from NVIDIA's headers: prefix sums and a radix sort of a block.
#include <algorithm>

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include "../verify.h"

__global__ void scan(const int *a, int *b) {
    using Scan = cub::BlockScan<int, 128>;
    __shared__ typename Scan::TempStorage storage;
    int values[4];
    for (int i = 0; i < 4; i++) values[i] = a[threadIdx.x * 4 + i];
    Scan(storage).InclusiveSum(values, values);
    for (int i = 0; i < 4; i++) b[threadIdx.x * 4 + i] = values[i];
}

__global__ void sort(unsigned *a) {
    using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
    __shared__ typename Sort::TempStorage storage;
    unsigned values[4];
    for (int i = 0; i < 4; i++) values[i] = a[threadIdx.x * 4 + i];
    Sort(storage).Sort(values);
    for (int i = 0; i < 4; i++) a[threadIdx.x * 4 + i] = values[i];
}

int main() {
    const int n = 512;
    Array<int> a(n), b(n);
    Array<unsigned> numbers(n);
    fill(a, -100, 100, 1);
    fill(numbers, 0, 4e9, 2);
    std::vector<unsigned> sorted = numbers.host;
    std::sort(sorted.begin(), sorted.end());
    scan<<<1, 128>>>(a.device, b.device);
    sort<<<1, 128>>>(numbers.device);
    finish();
    b.download();
    numbers.download();
    for (int i = 0, sum = 0; i < n; i++) {
        sum += a[i];
        expect("scan", b[i], sum);
        expect("sort", numbers[i], sorted[i]);
    }
    return report();
}
