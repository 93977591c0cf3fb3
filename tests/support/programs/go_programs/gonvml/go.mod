module tessera.dev/tests/gonvml

go 1.24.0

require github.com/NVIDIA/go-nvml v0.13.0-1 // indirect

tool (
	github.com/NVIDIA/go-nvml/examples/compute-processes
	github.com/NVIDIA/go-nvml/examples/devices
)
