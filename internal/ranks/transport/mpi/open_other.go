//go:build !unix

package mpi

import (
	"errors"

	"gputrain/internal/ranks/transport"
)

// Open is not there: Open MPI is for systems that have dlopen.
func Open() (transport.Ranks, error) {
	return nil, errors.New("transport/mpi: open: found a system without Open MPI, wanted Linux, macOS or another Unix")
}
