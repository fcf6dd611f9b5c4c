package mpi

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLaunch(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		want      Launched
		err       string
	}{
		"alone":                  {nil, Launched{Size: 1}, ""},
		"mpirun":                 {map[string]string{"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_RANK": "3"}, Launched{4, 1}, ""},
		"mpirun -n 1":            {map[string]string{"OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0"}, Launched{Size: 1}, ""},
		"mpirun in a batch job":  {map[string]string{"OMPI_COMM_WORLD_SIZE": "2", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, Launched{Size: 2}, ""},
		"srun --mpi=pmix":        {map[string]string{"PMIX_RANK": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_PROCID": "5"}, Launched{8, 1}, ""},
		"a batch script":         {map[string]string{"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, Launched{Size: 1}, ""},
		"srun without PMIx":      {map[string]string{"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5"}, Launched{}, "found 8 tasks of srun without PMIx"},
		"another MPI's launcher": {map[string]string{"PMI_SIZE": "2", "PMI_RANK": "1"}, Launched{}, "found PMI_SIZE=2"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Launch(func(name string) string { return c.variables[name] })
			assert.Equal(t, c.want, got)
			if c.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.err)
			}
		})
	}
}
