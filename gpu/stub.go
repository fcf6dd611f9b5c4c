package gpu

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"
)

var errStub = errors.New("gpu: not written yet")

type Adapter struct {
	Index                               int
	Name, Backend, Type, Driver, Vendor string
	Limits                              Limits
	Timestamps                          bool
}

func Adapters() ([]Adapter, error)                                    { return nil, errStub }
func Select(selector string) (Adapter, error)                         { return Adapter{}, errStub }
func Open(ctx context.Context, a Adapter, o Options) (*Device, error) { return nil, errStub }

// Dry is a device without hardware: buffers have sizes but no memory, recordings and programs can be made, checked and
// compared as text; Read and Submit fail with ErrNoAdapter.
func Dry(lim Limits) *Device { return &Device{limits: lim} }

type Options struct {
	Limits      *Limits
	Profile     bool
	MemoryLimit uint64
	Logger      *slog.Logger
	Timeout     time.Duration // of every wait; 0 = 5 minutes
}

type Device struct{ limits Limits }

func (d *Device) Adapter() Adapter   { return Adapter{} }
func (d *Device) Limits() Limits     { return d.limits }
func (d *Device) Release()           {}
func (d *Device) Counters() Counters { return Counters{} }

type Counters struct {
	Pipelines, BindGroups, Buffers, Dispatches, Submits, Readbacks uint64
	WrittenBytes, ReadBytes                                        uint64
	LiveBytes, PeakBytes, LiveBuffers                              uint64
}

func (d *Device) NewBuffer(label string, bytes uint64) (*Buffer, error)  { return nil, errStub }
func (d *Device) NewUniform(label string, bytes uint64) (*Buffer, error) { return nil, errStub }
func (d *Device) Write(dst Range, data []byte) error                     { return errStub }
func (d *Device) Read(ctx context.Context, dst []byte, src Range) error  { return errStub }
func (d *Device) Wait(ctx context.Context) error                         { return errStub }
func (d *Device) Compile(ctx context.Context, kernels []*Kernel, progress func(done, total int)) error {
	return errStub
}

type Recording struct{ label string }

func (d *Device) Record(label string) *Recording                              { return &Recording{label: label} }
func (r *Recording) Dispatch(k *Kernel, g Grid, params []byte, bind ...Range) {}
func (r *Recording) Copy(dst, src Range)                                      {}
func (r *Recording) Zero(dst Range)                                           {}
func (r *Recording) ReadBack(rb *Readback, src Range)                         {}
func (r *Recording) Group(name string)                                        {}
func (r *Recording) Err() error                                               { return nil }
func (r *Recording) String() string                                           { return "" }
func (r *Recording) Program(ctx context.Context) (*Program, error)            { return nil, errStub }
func (r *Recording) Submit(ctx context.Context) error                         { return errStub }

type Program struct{}

func (p *Program) Submit(ctx context.Context) error                      { return errStub }
func (p *Program) String() string                                        { return "" }
func (p *Program) Dispatches() int                                       { return 0 }
func (p *Program) UniformBytes() uint64                                  { return 0 }
func (p *Program) Release()                                              {}
func (d *Device) Submit(ctx context.Context, programs ...*Program) error { return errStub }

type Readback struct{}

func (d *Device) NewReadback(label string, bytes uint64, depth int) (*Readback, error) {
	return nil, errStub
}
func (rb *Readback) Next(ctx context.Context) ([]byte, error) { return nil, errStub }
func (rb *Readback) Pending() int                             { return 0 }
func (rb *Readback) Release()                                 {}

type Span struct {
	Group, Label string
	Begin, End   time.Duration
}

func (d *Device) Profile() []Span                  { return nil }
func WriteTrace(w io.Writer, spans []Span) error   { return errStub }
func ProfileTable(w io.Writer, spans []Span) error { return errStub }

type Candidate struct {
	Name string
	Run  func(*Recording) error
}

func (d *Device) Choose(ctx context.Context, key string, candidates []Candidate) (string, error) {
	return "", errStub
}
func (d *Device) SetAutotune(on bool) {}

// Check is one self-check of `gputrain doctor`; every package that owns kernels exports Checks() []gpu.Check.
type Check struct {
	Name string
	Run  func(ctx context.Context, d *Device) (Result, error)
}

// Result passes when MaxError <= Tolerance (NaN does not).
type Result struct {
	MaxError, Tolerance float64
	Worst               string
}
