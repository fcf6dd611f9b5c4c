package gpu

// Access says what a kernel does with a binding.
type Access int

const (
	Uniform   Access = iota // var<uniform>
	Read                    // var<storage, read>
	ReadWrite               // var<storage, read_write>
	Texels                  // texture_storage_2d<rgba32float, read>, see texels.go
)

func (a Access) String() string {
	switch a {
	case Uniform:
		return "uniform"
	case Read:
		return "read"
	case Texels:
		return "texels"
	}
	return "read_write"
}

// Binding declares one @group(0) @binding(i) of a kernel.
type Binding struct {
	Name   string
	Access Access
}

// Kernel is a plain value; its pipeline is cached in the device by Source and Bindings.
type Kernel struct {
	Label     string    // gputrain.<package>.<name>
	Source    string    // final WGSL, entry main
	Bindings  []Binding // @group(0) @binding(i), in this order
	Workgroup [3]int    // as in the source

	// Reuse says that each element of what the kernel reads is read many times.
	Reuse bool
}
