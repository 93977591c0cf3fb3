// Makes the NVML queries of Kubernetes programs in Go, through NVIDIA's own bindings, and prints one
// line a device, which a test compares with gpud. Exits with 1 at the first failed call.
package main

import (
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func must(what string, ret nvml.Return) {
	if ret != nvml.SUCCESS {
		fmt.Fprintln(os.Stderr, what, nvml.ErrorString(ret))
		os.Exit(1)
	}
}

func mig(device nvml.Device) {
	uuid, ret := device.GetUUID()
	must("GetUUID", ret)
	attributes, ret := device.GetAttributes()
	must("GetAttributes", ret)
	gi, ret := device.GetGpuInstanceId()
	must("GetGpuInstanceId", ret)
	memory, ret := device.GetMemoryInfo_v2()
	must("GetMemoryInfo_v2", ret)
	fmt.Println("mig", uuid, gi, attributes.MultiprocessorCount, memory.Total)
}

func gpu(device nvml.Device) {
	uuid, ret := device.GetUUID()
	must("GetUUID", ret)
	mode, _, ret := device.GetMigMode()
	must("GetMigMode", ret)
	pci, ret := device.GetPciInfo()
	must("GetPciInfo", ret)
	bus := make([]byte, 0, len(pci.BusId))
	for _, one := range pci.BusId {
		if one != 0 {
			bus = append(bus, byte(one))
		}
	}
	fmt.Println("gpu", uuid, mode, string(bus))
	count, ret := device.GetMaxMigDeviceCount()
	must("GetMaxMigDeviceCount", ret)
	for i := 0; i < count; i++ {
		found, ret := device.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		must("GetMigDeviceHandleByIndex", ret)
		mig(found)
	}
	for i := 0; i < nvml.GPU_INSTANCE_PROFILE_COUNT; i++ {
		info, ret := device.GetGpuInstanceProfileInfoV(i).V3()
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		must("GetGpuInstanceProfileInfoV", ret)
		fmt.Println("profile", info.Id, info.SliceCount, info.MemorySizeMB)
	}
}

func main() {
	must("Init", nvml.Init())
	defer nvml.Shutdown()
	count, ret := nvml.DeviceGetCount()
	must("DeviceGetCount", ret)
	for i := 0; i < count; i++ {
		device, ret := nvml.DeviceGetHandleByIndex(i)
		must("DeviceGetHandleByIndex", ret)
		gpu(device)
	}
}
