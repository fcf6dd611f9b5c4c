package mpi

import (
	"fmt"
	"strconv"
)

// Launched says that this process was started as one of several.
type Launched struct {
	// Size is how many there are; 1 without a launcher.
	Size int
	// LocalRank counts the processes on one host.
	LocalRank int
}

// Launch reads the variables of mpirun and srun. Several processes that could not find each other are an error.
func Launch(getenv func(string) string) (Launched, error) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	switch steps := number("SLURM_STEP_NUM_TASKS", 1); {
	case getenv("OMPI_COMM_WORLD_SIZE") != "":
		return Launched{number("OMPI_COMM_WORLD_SIZE", 1), number("OMPI_COMM_WORLD_LOCAL_RANK", 0)}, nil
	case getenv("PMIX_RANK") != "":
		return Launched{steps, number("SLURM_LOCALID", 0)}, nil
	case number("PMI_SIZE", 1) > 1:
		return Launched{}, fmt.Errorf("transport/mpi: launch: found PMI_SIZE=%s of another MPI's launcher, wanted Open MPI's mpirun, or srun --mpi=pmix", getenv("PMI_SIZE"))
	case steps > 1 && getenv("SLURM_PROCID") != "":
		return Launched{}, fmt.Errorf("transport/mpi: launch: found %d tasks of srun without PMIx, wanted srun --mpi=pmix", steps)
	}
	return Launched{Size: 1}, nil
}
